//! Steps that wait together run in order and are committed together.

mod common;

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Place;
use fencepost_core::StoreErrorKind;
use fencepost_core::store::{
    Answer, Claim, Clock, Event, LockName, Mailbox, Mode, Owner, Post, Proposal, Reply, Step, Store, Turn,
};
use fencepost_sqlite::Sqlite;

struct Letters(Mutex<Sender<Post>>);

impl Mailbox for Letters {
    fn post(self: Arc<Self>, post: Post) {
        let _ = self.0.lock().expect("not poisoned").send(post);
    }
}

struct Scene {
    place: Place,
    clock: Clock,
    store: Sqlite,
    mailbox: Arc<Letters>,
    posts: Receiver<Post>,
}

impl Scene {
    fn new() -> Self {
        let (place, clock) = (Place::new(), Clock::system().expect("a clock"));
        let store = Sqlite::open(&place.file(), clock.clone()).expect("opens");
        let (send, posts) = channel();
        Self { place, clock, store, mailbox: Arc::new(Letters(Mutex::new(send))), posts }
    }

    /// While it lives, nobody writes.
    fn shut_gate(&self) -> File {
        let gate = File::options().write(true).open(self.place.path("locks.db-gate")).expect("a gate");
        gate.lock().expect("shut");
        gate
    }

    fn submit(&self, request: u32, step: Step, within: Duration) {
        let deadline = self.clock.now().plus(within);
        self.store.submit(step, deadline, Reply::new(self.mailbox.clone(), 0, request));
    }

    fn next(&self) -> (u32, Result<Answer, StoreErrorKind>) {
        let post = self.posts.recv().expect("a post");
        let Event::Answer(answer) = post.event else { panic!("not asked for: {post:?}") };
        (post.request, answer.map_err(|trouble| trouble.kind))
    }
}

fn claim() -> Arc<Claim> {
    let (name, owner) = (LockName::new("a").expect("a name"), Owner::random().expect("random"));
    let (mode, turn) = (Mode::Exclusive, Turn::AfterOthers);
    Arc::new(Claim {
        name,
        owner,
        label: "".into(),
        mode,
        ttl: Duration::from_secs(30),
        turn,
        fenced: true,
        actor: None,
        delay: Duration::ZERO,
    })
}

fn acquire(claim: &Arc<Claim>) -> Step {
    Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Next, unify: false }
}

fn release(claim: &Arc<Claim>) -> Step {
    Step::Release { claim: claim.clone(), raise: None, pass: Proposal::Next, then: None, only: None }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn steps_that_waited_together_run_in_the_order_submitted() {
    let scene = Scene::new();
    let gate = scene.shut_gate();
    for round in 0..400 {
        let claim = claim();
        scene.submit(2 * round, acquire(&claim), LONG);
        scene.submit(2 * round + 1, release(&claim), LONG);
    }
    gate.unlock().expect("open");
    let mut last = None;
    for round in 0..400 {
        let (request, answer) = scene.next();
        let Ok(Answer::Granted { token }) = answer else { panic!("{answer:?}") };
        assert!(request == 2 * round && Some(token) > last);
        last = Some(token);
        assert_eq!(scene.next(), (2 * round + 1, Ok(Answer::Freed)));
    }
}

#[test]
fn a_step_that_is_late_is_not_run_but_what_frees_a_lock_always_is() {
    let scene = Scene::new();
    let holder = claim();
    scene.submit(1, acquire(&holder), LONG);
    assert!(matches!(scene.next(), (1, Ok(Answer::Granted { .. }))));
    scene.submit(2, Step::Inspect { name: holder.name.clone() }, Duration::ZERO);
    assert_eq!(scene.next(), (2, Err(StoreErrorKind::TooSlow)));
    scene.submit(3, release(&holder), Duration::ZERO);
    assert_eq!(scene.next(), (3, Ok(Answer::Freed)));
    scene.submit(4, acquire(&holder), Duration::ZERO);
    assert_eq!(scene.next(), (4, Err(StoreErrorKind::TooSlow)));
    scene.submit(5, Step::Inspect { name: holder.name.clone() }, LONG);
    let (5, Ok(Answer::State(state))) = scene.next() else { panic!("a state") };
    assert!(state.holders.is_empty());
}

#[test]
fn a_reader_does_not_wait_at_the_gate() {
    let scene = Scene::new();
    let _gate = scene.shut_gate();
    scene.submit(1, Step::Inspect { name: claim().name.clone() }, LONG);
    assert!(matches!(scene.next(), (1, Ok(Answer::State(_)))));
}

#[test]
fn many_waiting_steps_share_few_commits() {
    let scene = Scene::new();
    let log = || scene.place.path("locks.db-wal").metadata().expect("a log").len();
    let before = log();
    let gate = scene.shut_gate();
    (0..200).for_each(|request| scene.submit(request, acquire(&claim()), LONG));
    gate.unlock().expect("open");
    (0..200).for_each(|_| drop(scene.next()));
    // At most two transactions of a few pages each, where 200 would be at least 800 kB.
    assert!(log() - before < 100_000, "{} bytes", log() - before);
}
