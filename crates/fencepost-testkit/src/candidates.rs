//! An election between processes whose leaders are killed: never two lead at once, terms rise, and one more always leads.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fencepost_core::{Blocking, Connect, Event, EventKind};

use crate::process::{Other, await_leave, say};
use crate::turns::{self, History, Kind, Turn};
use crate::wait::PATIENCE;

const ELECTION: &str = "leader";
const CANDIDATES: usize = 5;
const TTL: Duration = Duration::from_secs(1);

/// What each candidate runs: it campaigns, tells until when it leads, and resigns when told to. Whoever lost its
/// leadership campaigns again.
///
/// # Panics
/// If the store cannot be reached.
pub fn campaign(connect: Connect) {
    let noted = Mutex::new((u64::MAX, None));
    let observer = move |event: &Event| {
        let at = nanos(event.at);
        let mut noted = noted.lock().expect("not poisoned");
        let (connected, window) = &mut *noted;
        // Events count from connecting. The one that was told with the least delay knows best when that was.
        *connected = turns::now().saturating_sub(at).min(*connected);
        let now = *connected + at;
        match event.kind {
            EventKind::Acquired { token, remaining, .. } => {
                let (from, until, token) = (now, now + nanos(remaining), token.as_i64().unsigned_abs());
                *window = Some(Turn { process: 0, kind: Kind::Writes, asked: from, from, until, token });
            }
            EventKind::Renewed { remaining, .. } => {
                window.iter_mut().for_each(|turn| turn.until = now + nanos(remaining))
            }
            EventKind::Releasing => window.iter_mut().for_each(|turn| turn.until = turn.until.min(now)),
            _ => return,
        }
        window.iter().for_each(|turn| say(&turn.to_line()));
    };
    let locks = connect.observer(observer).block().expect("the store is there");
    let election = locks.election(ELECTION).ttl(TTL).payload(std::process::id().to_string());
    loop {
        let leadership = election.campaign().block().expect("in the end");
        let (told, leave) = channel();
        std::thread::spawn(move || {
            await_leave();
            told.send(())
        });
        while leadership.is_held() {
            if leave.recv_timeout(TTL / 20).is_ok() {
                leadership.resign().block().expect("released");
                return;
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("not for centuries")
}

/// Five candidates; whoever leads is killed, five times, or fifty if `FENCEPOST_LONG` is set; the last one resigns.
///
/// # Panics
/// If two lead at once by what they noted, a term is not higher than the one before, or nobody leads in the end.
pub fn leaders_are_killed_and_the_next_one_leads(start: impl Fn() -> Other) {
    let kills = if std::env::var_os("FENCEPOST_LONG").is_some() { 50 } else { 5 };
    let (sender, inbox) = channel();
    let join = || {
        let mut other = start();
        other.pass_on(sender.clone());
        (other.id(), other)
    };
    let mut candidates: HashMap<u32, Other> = (0..CANDIDATES).map(|_| join()).collect();
    let mut windows = Windows { inbox, newest: HashMap::new() };
    let (mut led, mut longest) = (0, Duration::ZERO);
    for _ in 0..kills {
        let (leader, term) = windows.next_leader(led);
        led = term;
        let mut leader = candidates.remove(&leader).expect("one of ours");
        leader.kill();
        let killed = Instant::now();
        let (id, other) = join();
        candidates.insert(id, other);
        windows.next_leader(led);
        longest = longest.max(killed.elapsed());
    }
    let (leader, term) = windows.next_leader(led);
    let resigned = Instant::now();
    let mut resigning = candidates.remove(&leader).expect("one of ours");
    resigning.give_leave();
    windows.next_leader(term);
    println!(
        "{kills} leaders killed: {longest:?} at most until the next, {:?} after a resignation",
        resigned.elapsed()
    );
    // What it observed is told a little later than it happened, and before its process ends.
    resigning.finish();
    drop((candidates, sender));
    let history = windows.history();
    assert!(history.turns().len() > kills, "{:?}", history.turns());
    assert_eq!(history.violations(0), Vec::<String>::new());
}

/// Until when each leader knew that it led.
struct Windows {
    inbox: Receiver<(u32, String)>,
    newest: HashMap<u64, Turn>,
}

impl Windows {
    /// Who leads in a term after this one.
    fn next_leader(&mut self, after: u64) -> (u32, u64) {
        let since = Instant::now();
        loop {
            if let Some(turn) = self.newest.values().find(|turn| turn.token > after && turns::now() < turn.until) {
                return (turn.process, turn.token);
            }
            let left = PATIENCE.saturating_sub(since.elapsed());
            let (process, line) = self.inbox.recv_timeout(left).expect("somebody leads");
            self.note(process, &line);
        }
    }

    fn note(&mut self, process: u32, line: &str) {
        // The last word of a term counts.
        self.newest.extend(Turn::from_line(process, line).map(|turn| (turn.token, turn)));
    }

    fn history(mut self) -> History {
        while let Ok((process, line)) = self.inbox.recv() {
            self.note(process, &line);
        }
        History::new(self.newest.into_values().collect())
    }
}
