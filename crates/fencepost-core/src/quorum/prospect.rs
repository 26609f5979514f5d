//! Whether waiting can help: when each node may vote again, as far as it said. Each node speaks for itself; the worst one
//! never decides for all.

use super::Quorum;
use super::terms::Patience;
use crate::clock::Moment;
use crate::error::{StoreError, StoreErrorKind, Vote};

/// When a node that said this may vote again. `None`: not before a person has fixed something.
pub(super) fn votes_again_at(kind: &StoreErrorKind, said: Moment) -> Option<Moment> {
    match kind {
        // It may come back at any time.
        StoreErrorKind::Unreachable | StoreErrorKind::TooSlow => Some(said),
        StoreErrorKind::Quarantined { left } => Some(said.plus(*left)),
        StoreErrorKind::Denied
        | StoreErrorKind::Misconfigured
        | StoreErrorKind::Unsupported
        | StoreErrorKind::OtherKind
        | StoreErrorKind::Unexpected
        | StoreErrorKind::ClockOff { .. } => None,
    }
}

impl Quorum {
    /// When enough nodes may vote again after this error. `None`: never, as far as they said.
    fn may_elect_from(&self, error: &StoreError, now: Moment) -> Option<Moment> {
        if error.votes.is_empty() {
            return votes_again_at(&error.kind, now);
        }
        let labels: Vec<String> = self.nodes.iter().map(|node| node.label()).collect();
        self.electorate.contents(|node| {
            let said = error.votes.iter().find(|vote| vote.node == labels[node]).map(|vote| &vote.vote);
            match said {
                Some(Vote::Failed(kind)) => votes_again_at(kind, now),
                _ => Some(now),
            }
        })
    }

    /// Whether someone who waits this long goes on after this error.
    pub(crate) fn may_recover(&self, error: &StoreError, patience: Patience) -> bool {
        let now = self.clock.now();
        let in_time = |from: Moment| patience.until().is_none_or(|end| from < end && now < end);
        patience.waits() && self.may_elect_from(error, now).is_some_and(in_time)
    }
}
