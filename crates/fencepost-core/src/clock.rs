//! Time: one clock for deadlines, wall time and alarms; virtual in tests.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use crate::handle::as_engine;

/// A point on a clock that keeps counting while the machine sleeps, in nanoseconds since that clock's start.
///
/// On Linux this is `CLOCK_BOOTTIME`: the same for all processes since the machine was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Moment(u64);

impl Moment {
    /// The moment with this number of nanoseconds.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Later by a span of time.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Earlier by a span of time.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Something that wants to know when a moment has come. It is called on the clock's thread: be quick, never block.
pub trait Alarm: Send + Sync + 'static {
    /// The moment has come.
    fn ring(self: Arc<Self>);
}

/// Where time comes from: deadlines, wall time and alarms.
///
/// The real one runs alarms on a thread of its own, so that a blocked async runtime does not lose locks.
/// That thread never keeps a program alive.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(&'static SystemAlarms),
    #[cfg(feature = "test-util")]
    Virtual(Arc<virtual_clock::Inner>),
}

/// Names an alarm, to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AlarmId(Moment, u64);

impl Clock {
    /// The machine's own clock. `Err` if its thread cannot be started.
    pub fn system() -> io::Result<Self> {
        static ALARMS: OnceLock<SystemAlarms> = OnceLock::new();
        static START: Mutex<bool> = Mutex::new(false);
        let alarms = ALARMS.get_or_init(SystemAlarms::default);
        let mut started = START.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            std::thread::Builder::new().name("fencepost-clock".into()).spawn(|| alarms.run())?;
            *started = true;
        }
        Ok(Self(Source::System(alarms)))
    }

    /// Now.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::System(_) => system_now(),
            #[cfg(feature = "test-util")]
            Source::Virtual(inner) => inner.now(),
        }
    }

    /// What the calendar says. Never used for a deadline.
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Source::System(_) => SystemTime::now(),
            #[cfg(feature = "test-util")]
            Source::Virtual(inner) => inner.wall(),
        }
    }

    /// Whether time passes while a thread waits for it.
    pub(crate) fn runs_by_itself(&self) -> bool {
        match &self.0 {
            Source::System(_) => true,
            #[cfg(feature = "test-util")]
            Source::Virtual(_) => false,
        }
    }

    /// Rings once, at that moment or soon after, unless the target is gone by then.
    pub fn alarm(&self, at: Moment, target: Weak<dyn Alarm>) -> AlarmId {
        match &self.0 {
            Source::System(alarms) => alarms.set(at, target),
            #[cfg(feature = "test-util")]
            Source::Virtual(inner) => inner.alarms.add(at, target),
        }
    }

    /// Takes an alarm back. It may already be ringing.
    pub fn cancel(&self, id: AlarmId) {
        match &self.0 {
            Source::System(alarms) => alarms.list.take(id),
            #[cfg(feature = "test-util")]
            Source::Virtual(inner) => inner.alarms.take(id),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::System(_) => f.write_str("Clock(system)"),
            #[cfg(feature = "test-util")]
            Source::Virtual(_) => f.write_str("Clock(virtual)"),
        }
    }
}

#[cfg(target_os = "linux")]
fn system_now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Moment(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// Elsewhere std's clock has to do; it counts sleep on some systems only.
#[cfg(not(target_os = "linux"))]
fn system_now() -> Moment {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    Moment(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[derive(Default)]
struct Alarms {
    list: Mutex<BTreeMap<AlarmId, Weak<dyn Alarm>>>,
    ids: AtomicU64,
}

impl Alarms {
    fn add(&self, at: Moment, target: Weak<dyn Alarm>) -> AlarmId {
        let id = AlarmId(at, self.ids.fetch_add(1, Ordering::Relaxed));
        self.list.lock().unwrap_or_else(PoisonError::into_inner).insert(id, target);
        id
    }

    fn take(&self, id: AlarmId) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The first alarm that is due by then.
    fn pop(&self, by: Moment) -> Option<(Moment, Weak<dyn Alarm>)> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let first = list.first_entry().filter(|first| first.key().0 <= by)?;
        let (id, target) = first.remove_entry();
        Some((id.0, target))
    }

    fn next(&self) -> Option<Moment> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).keys().next().map(|id| id.0)
    }
}

/// The longest nap of the clock's thread while an alarm is set. A condition variable stands still while the machine
/// sleeps, so a nap must be short for an alarm to ring soon after the machine woke up.
const NAP_MAX: Duration = Duration::from_millis(500);

#[derive(Default)]
struct SystemAlarms {
    list: Alarms,
    /// Until when the thread naps, in nanoseconds; `u64::MAX`: until somebody sets an alarm.
    napping_until: Mutex<u64>,
    changed: Condvar,
}

impl SystemAlarms {
    fn set(&self, at: Moment, target: Weak<dyn Alarm>) -> AlarmId {
        let id = self.list.add(at, target);
        let mut napping_until = self.napping_until.lock().unwrap_or_else(PoisonError::into_inner);
        if at.0 < *napping_until {
            *napping_until = 0;
            self.changed.notify_one();
        }
        id
    }

    fn run(&self) {
        loop {
            while let Some((_, target)) = self.list.pop(system_now()) {
                ring(&target);
            }
            let mut napping_until = self.napping_until.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, so that an alarm set from here on wakes the nap.
            let now = system_now();
            let nap = match self.list.next() {
                Some(next) if next <= now => continue,
                Some(next) => Some(next.since(now).min(NAP_MAX)),
                None => None,
            };
            *napping_until = nap.map_or(u64::MAX, |nap| now.plus(nap).0);
            let awake = match nap {
                Some(nap) => self.changed.wait_timeout(napping_until, nap).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(napping_until).unwrap_or_else(PoisonError::into_inner),
            };
            drop(awake);
        }
    }
}

/// One bad alarm must not stop all others.
fn ring(target: &Weak<dyn Alarm>) {
    let Some(target) = target.upgrade() else { return };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| as_engine(|| target.ring()))).is_err() {
        tracing::error!("BUG: an alarm panicked; the others go on");
    }
}

#[cfg(feature = "test-util")]
pub use virtual_clock::VirtualClock;

#[cfg(feature = "test-util")]
mod virtual_clock {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::UNIX_EPOCH;

    /// Time in tests: it moves only when told (feature `test-util`).
    #[derive(Clone)]
    pub struct VirtualClock(Arc<Inner>);

    pub(super) struct Inner {
        now: AtomicU64,
        wall_at_zero: Mutex<SystemTime>,
        pub(super) alarms: Alarms,
    }

    impl Inner {
        pub(super) fn now(&self) -> Moment {
            Moment(self.now.load(Ordering::SeqCst))
        }

        pub(super) fn wall(&self) -> SystemTime {
            let zero = *self.wall_at_zero.lock().unwrap_or_else(PoisonError::into_inner);
            zero + Duration::from_nanos(self.now().0)
        }
    }

    impl VirtualClock {
        /// A clock that stands still, at 2026-01-01.
        pub fn new() -> Self {
            let wall_at_zero = Mutex::new(UNIX_EPOCH + Duration::from_secs(1_767_225_600));
            Self(Arc::new(Inner { now: AtomicU64::new(0), wall_at_zero, alarms: Alarms::default() }))
        }

        /// The same time as a [`Clock`].
        pub fn clock(&self) -> Clock {
            Clock(Source::Virtual(self.0.clone()))
        }

        /// Moves time on. Every alarm that comes due rings at its own moment, and tasks get a turn after each. Returns
        /// when everything that came due has run.
        pub async fn advance(&self, by: Duration) {
            let end = self.0.now().plus(by);
            while self.ring_next(end) {
                let mut turns = 4;
                poll_fn(|context| match turns {
                    0 => Poll::Ready(()),
                    _ => {
                        turns -= 1;
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                })
                .await;
            }
            self.0.now.store(end.0, Ordering::SeqCst);
        }

        /// Moves time on without giving tasks a turn: for tests that poll by hand.
        pub fn turn(&self, by: Duration) {
            let end = self.0.now().plus(by);
            while self.ring_next(end) {}
            self.0.now.store(end.0, Ordering::SeqCst);
        }

        /// Time goes on while the process stands still: what came due rings late, with the next turn.
        pub fn stall(&self, by: Duration) {
            self.0.now.store(self.0.now().plus(by).0, Ordering::SeqCst);
        }

        /// When the next alarm is due, from now; `None`: nothing will ever happen by itself.
        pub fn next_alarm(&self) -> Option<Duration> {
            self.0.alarms.next().map(|next| next.since(self.0.now()))
        }

        /// Sets the calendar; deadlines do not notice.
        pub fn set_wall(&self, wall: SystemTime) {
            let elapsed = Duration::from_nanos(self.0.now().0);
            *self.0.wall_at_zero.lock().unwrap_or_else(PoisonError::into_inner) = wall - elapsed;
        }

        fn ring_next(&self, end: Moment) -> bool {
            let Some((at, target)) = self.0.alarms.pop(end) else { return false };
            self.0.now.fetch_max(at.0, Ordering::SeqCst);
            ring(&target);
            true
        }
    }

    impl Default for VirtualClock {
        fn default() -> Self {
            Self::new()
        }
    }

    impl fmt::Debug for VirtualClock {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "VirtualClock({:?})", self.0.now())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Tell(Mutex<mpsc::Sender<&'static str>>, &'static str);

    impl Alarm for Tell {
        fn ring(self: Arc<Self>) {
            let _ = self.0.lock().expect("not poisoned").send(self.1);
            assert_ne!(self.1, "panics");
        }
    }

    fn targets(words: [&'static str; 3]) -> ([Arc<dyn Alarm>; 3], mpsc::Receiver<&'static str>) {
        let (tell, told) = mpsc::channel();
        (words.map(|word| Arc::new(Tell(Mutex::new(tell.clone()), word)) as Arc<dyn Alarm>), told)
    }

    #[test]
    fn alarms_ring_in_order_and_a_cancelled_or_dropped_one_never() {
        let virtual_clock = VirtualClock::new();
        let clock = virtual_clock.clock();
        let ([late, early, cancelled], told) = targets(["late", "early", "cancelled"]);
        clock.alarm(Moment(20), Arc::downgrade(&late));
        clock.alarm(Moment(10), Arc::downgrade(&early));
        clock.cancel(clock.alarm(Moment(5), Arc::downgrade(&cancelled)));
        drop(late);
        virtual_clock.turn(Duration::from_nanos(30));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["early"]);
        assert_eq!(clock.now(), Moment(30));
    }

    #[test]
    fn a_panicking_alarm_does_not_stop_the_clock() {
        let clock = Clock::system().expect("a clock");
        let ([bad, good, _], told) = targets(["panics", "good", ""]);
        clock.alarm(clock.now(), Arc::downgrade(&bad));
        clock.alarm(clock.now(), Arc::downgrade(&good));
        assert_eq!(told.iter().take(2).collect::<Vec<_>>(), ["panics", "good"]);
    }

    #[test]
    fn an_earlier_alarm_ends_a_longer_nap() {
        let clock = Clock::system().expect("a clock");
        let ([later, sooner, _], told) = targets(["later", "sooner", ""]);
        let id = clock.alarm(clock.now().plus(Duration::from_secs(3600)), Arc::downgrade(&later));
        clock.alarm(clock.now().plus(Duration::from_millis(1)), Arc::downgrade(&sooner));
        assert_eq!(told.recv(), Ok("sooner"));
        clock.cancel(id);
    }
}
