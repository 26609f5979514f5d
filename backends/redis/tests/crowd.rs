//! Far more requests than servers answer at once: a queue costs time, but no call fails and no request is written twice. What
//! waits for its turn in this process is bounded, in order of urgency, and not sent after its deadline.

mod common;

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use fencepost_core::store::{
    Answer, Claim, Clock, Event, FencingToken, LockName, Mailbox, Mode, Owner, Post, Proposal, Repair, Reply, Step,
    Store, Trouble, Turn,
};
use fencepost_core::{Blocking, ReleaseOutcome, StoreErrorKind};

use common::{PATIENCE, Place, scripts_run, until, value};

type Task<T> = Pin<Box<dyn Future<Output = T>>>;

/// Wakes one of many tasks of one thread.
struct Bell {
    task: usize,
    rings: mpsc::Sender<usize>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.rings.send(self.task);
    }
}

/// Runs all of these on this thread.
fn all<T>(tasks: Vec<Task<T>>) -> Vec<T> {
    let (rings, rung) = mpsc::channel();
    (0..tasks.len()).for_each(|task| rings.send(task).expect("heard below"));
    let mut tasks: Vec<Option<Task<T>>> = tasks.into_iter().map(Some).collect();
    let mut done = Vec::new();
    while done.len() < tasks.len() {
        let number = rung.recv_timeout(PATIENCE).expect("no task moves any more");
        let waker = Waker::from(Arc::new(Bell { task: number, rings: rings.clone() }));
        let Some(task) = &mut tasks[number] else { continue };
        if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            done.push(outcome);
            tasks[number] = None;
        }
    }
    done
}

/// Each server first does something else for six times as long as an answer may take on an idle link.
#[test]
fn a_thousand_tasks_ask_each_server_once_and_none_fails() {
    const TASKS: usize = 1024;
    let place = Place::quorum(5);
    let locks = fencepost_redis::connect("redlock", &place.rest()).block().expect("they are up");
    place.reach_all(&locks, "ours");
    let quiet = || place.servers.iter().map(scripts_run).collect::<Vec<_>>();
    until("what came before is answered", || {
        let before = quiet();
        locks.inspect("nothing").block().is_ok() && quiet().iter().zip(before).all(|(now, before)| *now == before + 1)
    });
    let before = quiet();
    let outcomes = thread::scope(|scope| {
        for server in &place.servers {
            scope.spawn(|| server.ask(&["DEBUG", "SLEEP", "0.3"]));
        }
        let turn = |number: usize| {
            let lock = locks.lock(format!("x{number}"));
            Box::pin(async move {
                let guard = lock.try_acquire().await.map_err(|error| error.to_string())?.ok_or("busy")?;
                guard.release().await.map_err(|error| error.to_string())
            }) as Task<Result<ReleaseOutcome, String>>
        };
        all((0..TASKS).map(turn).collect())
    });
    let wrong: Vec<_> = outcomes.iter().filter(|outcome| **outcome != Ok(ReleaseOutcome::Freed)).collect();
    assert!(wrong.is_empty(), "{} of {TASKS}, such as {:?}", wrong.len(), wrong[0]);
    let asked = || quiet().iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
    until("every server has answered", || asked().iter().all(|asked| *asked >= 2 * TASKS as u64));
    assert!(locks.shutdown(PATIENCE).block().is_empty(), "every release is confirmed");
    assert_eq!(asked(), [2 * TASKS as u64; 5], "an acquire and a release per task");
}

/// Counts the answers.
#[derive(Default)]
struct Tally(Mutex<(usize, Option<Trouble>)>);

impl Mailbox for Tally {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        let mut tally = self.0.lock().expect("not poisoned");
        match answer {
            Ok(Answer::State(_)) => tally.0 += 1,
            Ok(_) => {}
            Err(trouble) => tally.1 = Some(trouble),
        }
    }
}

#[test]
fn more_steps_than_may_be_under_way_wait_for_their_turn() {
    const STEPS: usize = 120_000;
    let place = Place::one();
    let clock = Clock::system().expect("a clock");
    let nodes = fencepost_redis::nodes("redis", &place.rest(), clock.clone()).block().expect("it is up");
    let tally = Arc::new(Tally::default());
    let deadline = clock.now().plus(Duration::from_secs(60));
    let name = LockName::new("x").expect("a name");
    place.servers[0].pause();
    for _ in 0..STEPS {
        nodes[0].submit(Step::Inspect { name: name.clone() }, deadline, Reply::new(tally.clone(), 0, 0));
    }
    place.servers[0].resume();
    until("every step is answered", || {
        let tally = tally.0.lock().expect("not poisoned");
        assert_eq!(tally.1, None, "after {} answers", tally.0);
        tally.0 == STEPS
    });
}

/// So many requests and one more are under way on a link before others wait for their turn.
const UNDER_WAY: u32 = 16_384;

/// Answers, in the order in which they came, by the number of the request.
#[derive(Default)]
struct Answers(Mutex<Vec<(u32, Result<Answer, Trouble>)>>);

impl Mailbox for Answers {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        self.0.lock().expect("not poisoned").push((post.request, answer));
    }
}

/// A server that is stopped, and a link on which so much is under way that the next steps wait for their turn.
struct Full {
    place: Place,
    node: Arc<dyn Store>,
    clock: Clock,
    answers: Arc<Answers>,
    last: u32,
}

impl Full {
    fn new(before: impl FnOnce(&mut Self)) -> Self {
        let place = Place::one();
        let clock = Clock::system().expect("a clock");
        let nodes = fencepost_redis::nodes("redis", &place.rest(), clock.clone()).block().expect("it is up");
        let node = nodes.into_iter().next().expect("one server");
        let mut full = Self { place, node, clock, answers: Arc::default(), last: 0 };
        before(&mut full);
        full.place.pause_all();
        (0..=UNDER_WAY).for_each(|_| {
            full.inspect();
        });
        full
    }

    fn submit_until(&mut self, step: Step, within: Duration) -> u32 {
        self.last += 1;
        let deadline = self.clock.now().plus(within);
        self.node.submit(step, deadline, Reply::new(self.answers.clone(), 0, self.last));
        self.last
    }

    fn submit(&mut self, step: Step) -> u32 {
        self.submit_until(step, PATIENCE)
    }

    fn inspect(&mut self) -> u32 {
        self.submit(Step::Inspect { name: LockName::new("looked-at").expect("a name") })
    }

    fn answer(&self, request: u32) -> Option<Result<Answer, Trouble>> {
        let answers = self.answers.0.lock().expect("not poisoned");
        answers.iter().find(|(number, _)| *number == request).map(|(_, answer)| answer.clone())
    }

    fn until_answered(&self, request: u32) -> Result<Answer, Trouble> {
        until("the step is answered", || self.answer(request).is_some());
        self.answer(request).expect("just seen")
    }

    /// How many answers came before this one.
    fn before(&self, request: u32) -> usize {
        let answers = self.answers.0.lock().expect("not poisoned");
        answers.iter().position(|(number, _)| *number == request).expect("it is answered")
    }

    fn acquire(&self, claim: &Arc<Claim>) -> Step {
        Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Bounded(self.bound()), unify: false }
    }

    /// Near the server's clock, as it has to be.
    fn bound(&self) -> FencingToken {
        FencingToken::at(self.clock.wall())
    }
}

fn claim(name: &str) -> Arc<Claim> {
    Arc::new(Claim {
        name: LockName::new(name).expect("a name"),
        owner: Owner::random().expect("random bytes"),
        label: "a test".into(),
        mode: Mode::Exclusive,
        ttl: PATIENCE,
        turn: Turn::AfterOthers,
        fenced: true,
        actor: None,
        delay: Duration::ZERO,
    })
}

fn release(claim: &Arc<Claim>, pass: FencingToken) -> Step {
    Step::Release { claim: claim.clone(), raise: None, pass: Proposal::Bounded(pass), then: None, only: None }
}

fn assert_not_sent(answer: Option<Result<Answer, Trouble>>) -> String {
    let Some(Err(trouble)) = answer else { panic!("it was sent: {answer:?}") };
    assert!(trouble.kind == StoreErrorKind::TooSlow && trouble.message.starts_with("not sent"), "{trouble:?}");
    trouble.message
}

#[test]
fn a_step_that_waits_for_its_turn_beyond_its_deadline_is_not_sent() {
    let mut full = Full::new(|_| {});
    let late = claim("late");
    let step = full.acquire(&late);
    let late = full.submit_until(step, Duration::from_millis(1));
    let in_time = full.inspect();
    let submitted = full.clock.now();
    until("its deadline has passed", || full.clock.now().since(submitted) > Duration::from_millis(2));
    full.place.resume_all();
    full.until_answered(in_time).expect("the one behind it is sent");
    assert_not_sent(full.answer(late));
    assert_eq!(
        value(&full.place.servers[0], "late"),
        None,
        "nobody waits for the answer, and the lock would stay taken"
    );
}

#[test]
fn renewals_and_releases_go_before_requests_that_wait_for_their_turn() {
    let (kept, freed) = (claim("kept"), claim("freed"));
    let mut tokens = Vec::new();
    let mut full = Full::new(|link| {
        for claim in [&kept, &freed] {
            let step = link.acquire(claim);
            let request = link.submit(step);
            let Ok(Answer::Granted { token }) = link.until_answered(request) else { panic!("it is free") };
            tokens.push(token);
        }
    });
    let others: Vec<u32> = (0..10_000).map(|_| full.inspect()).collect();
    let renewed = full.submit(Step::Renew { claim: kept.clone(), token: tokens[0], pass: None, repair: Repair::Never });
    let pass = full.bound();
    let released = full.submit(release(&freed, pass));
    full.place.resume_all();
    assert!(matches!(full.until_answered(released), Ok(Answer::Freed)));
    assert!(matches!(full.answer(renewed), Some(Ok(Answer::Kept))));
    full.until_answered(others[9_999]).expect("answered");
    let (first, last) = (full.before(others[0]), full.before(others[9_999]));
    assert!(full.before(renewed) < first && full.before(released) < first, "behind {first} others, of {last}");
}

#[test]
fn a_release_goes_before_requests_for_locks_but_never_before_its_own() {
    let mut full = Full::new(|_| {});
    let given_up = claim("given-up");
    let (step, pass) = (full.acquire(&given_up), full.bound());
    let acquire = full.submit(step);
    let released = full.submit(release(&given_up, pass));
    assert_not_sent(full.answer(acquire));
    let last = full.inspect();
    full.place.resume_all();
    assert!(matches!(full.until_answered(released), Ok(Answer::NotHeld)));
    full.until_answered(last).expect("answered");
    assert_eq!(value(&full.place.servers[0], "given-up"), None);
}

#[test]
fn what_waits_for_its_turn_has_a_bound_that_its_error_names() {
    const BOUND: u32 = 131_072;
    let mut full = Full::new(|_| {});
    let waits: Vec<u32> = (0..BOUND).map(|_| full.inspect()).collect();
    let refused = full.inspect();
    assert!(assert_not_sent(full.answer(refused)).contains("131072"));
    full.place.resume_all();
    for request in [waits[0], waits[waits.len() - 1]] {
        full.until_answered(request).expect("it was within the bound");
    }
}
