//! Single steps on a store, without the engine: what a step means, asked directly.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::{
    Answer, Claim, Event, Listening, LockName, Mailbox, Mode, Moment, Owner, Place, Post, Reply, Step, Store, Trouble,
    Turn,
};

/// How long a store may take to answer a step of a test.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

struct Slot(Mutex<mpsc::Sender<Event>>);

impl Mailbox for Slot {
    fn post(self: Arc<Self>, post: Post) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(post.event);
    }
}

/// Runs one step and waits for its answer.
///
/// # Panics
/// If the store does not answer.
pub fn run(store: &(impl Store + ?Sized), step: Step) -> Result<Answer, Trouble> {
    let (tell, told) = mpsc::channel();
    let reply = Reply::new(Arc::new(Slot(Mutex::new(tell))), 0, 1);
    store.submit(step, Moment::from_nanos(u64::MAX), reply);
    match told.recv_timeout(ANSWER_WITHIN) {
        Ok(Event::Answer(answer)) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

/// Listens for a claim, so that it counts as alive; what is pushed can be received.
pub fn listen(store: &(impl Store + ?Sized), claim: &Arc<Claim>) -> (Listening, mpsc::Receiver<Event>) {
    let (tell, told) = mpsc::channel();
    let reply = Reply::new(Arc::new(Slot(Mutex::new(tell))), 0, 0);
    (store.listen(claim, reply), told)
}

/// An exclusive claim on `x` with a ttl of 30 s; in line with this ticket, or after others without one.
///
/// # Panics
/// If the operating system has no random bytes.
pub fn claim(label: &str, ticket: Option<FencingToken>) -> Arc<Claim> {
    let place = |ticket| Turn::InLine(Place { ticket: Some(ticket), lease: Duration::from_secs(3) });
    Arc::new(Claim {
        name: LockName::new("x").expect("valid"),
        owner: Owner::random().expect("random bytes"),
        label: label.into(),
        mode: Mode::Exclusive,
        ttl: Duration::from_secs(30),
        turn: ticket.map_or(Turn::AfterOthers, place),
        fenced: true,
        actor: None,
        delay: Duration::ZERO,
    })
}
