//! Who waits for which node. A watch tells once; a connection that breaks takes its watches with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Claim, LockName, Owner};

use crate::session::News;

/// Who shall look again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
}

/// The session that watches, and the node.
type Place = (i64, String);

/// The watches of one connection. A claim has one at a time.
#[derive(Default)]
pub(crate) struct Watches {
    board: Mutex<Board>,
}

#[derive(Default)]
struct Board {
    all: HashMap<Place, HashMap<Owner, LockName>>,
    by_owner: HashMap<Owner, Place>,
}

impl Board {
    fn forget(&mut self, owner: &Owner) {
        let Some(place) = self.by_owner.remove(owner) else { return };
        if let Some(calls) = self.all.get_mut(&place) {
            calls.remove(owner);
            if calls.is_empty() {
                self.all.remove(&place);
            }
        }
    }

    fn take(&mut self, place: &Place) -> Vec<Call> {
        let calls = self.all.remove(place).unwrap_or_default();
        calls.keys().for_each(|owner| drop(self.by_owner.remove(owner)));
        calls.into_iter().map(|(owner, name)| Call { name, owner }).collect()
    }
}

impl Watches {
    /// Tells this claim when the node changes. To be said before the watch is sent.
    pub(crate) fn expect(&self, claim: &Claim, session: i64, path: &str) {
        let (mut board, place) = (self.board(), (session, path.to_owned()));
        board.forget(&claim.owner);
        board.by_owner.insert(claim.owner, place.clone());
        board.all.entry(place).or_default().insert(claim.owner, claim.name.clone());
    }

    /// The watch was not set, or is not needed any more.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.board().forget(owner);
    }

    /// Who has to look again after this.
    pub(crate) fn hear(&self, news: &News) -> Vec<Call> {
        let mut board = self.board();
        match news {
            News::Changed { session, path } => board.take(&(*session, path.clone())),
            News::Broken { session } => {
                let broken: Vec<_> = board.all.keys().filter(|(other, _)| other == session).cloned().collect();
                broken.iter().flat_map(|place| board.take(place)).collect()
            }
            // Its watches went with its connection.
            News::Ended { .. } => Vec::new(),
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fencepost_core::store::{Mode, Turn};

    use super::*;

    fn claim() -> Arc<Claim> {
        Arc::new(Claim {
            name: LockName::new("x").expect("a name"),
            owner: Owner::random().expect("random bytes"),
            label: "me".into(),
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(10),
            turn: Turn::AfterOthers,
            fenced: true,
            actor: None,
            delay: Duration::ZERO,
        })
    }

    #[test]
    fn whoever_waits_is_called_once_and_whoever_gave_up_is_not() {
        let (watches, waits, gave_up, moved_on) = (Watches::default(), claim(), claim(), claim());
        for claim in [&waits, &gave_up, &moved_on] {
            watches.expect(claim, 7, "/a");
        }
        watches.forget(&gave_up.owner);
        watches.expect(&moved_on, 7, "/b");
        let called = |news| watches.hear(&news).into_iter().map(|call| call.owner).collect::<Vec<_>>();
        assert_eq!(called(News::Changed { session: 8, path: "/a".into() }), []);
        assert_eq!(called(News::Changed { session: 7, path: "/a".into() }), [waits.owner]);
        assert_eq!(called(News::Changed { session: 7, path: "/a".into() }), []);
        assert_eq!(called(News::Broken { session: 7 }), [moved_on.owner]);
        assert!(watches.board().all.is_empty() && watches.board().by_owner.is_empty());
    }
}
