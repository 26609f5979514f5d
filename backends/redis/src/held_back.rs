//! Steps that wait because too much is under way on their link.

use std::collections::{HashMap, VecDeque};

use fencepost_core::store::{Moment, Owner, Reply, Step, StoreErrorKind, Trouble};

use crate::link::Again;

/// The most steps that wait in each of the two queues of a link.
const HELD_BACK_MAX: usize = 131_072;

/// A step, and the reply that it gets.
pub(crate) type Held = (Step, Reply, Again);

/// A reply to a step that is not sent, to be given outside the link's mutex.
pub(crate) type Unsent = (Reply, Trouble);

/// Two queues: renewals, give-backs and releases go before all other steps, so that no lock is lost, or stays taken, behind
/// requests for locks.
///
/// Steps of one owner must arrive in order: an acquire that arrives after its owner's release takes a lock that nobody frees.
/// So a step of the first queue removes the acquires of its owner from the second. They were not sent, and are answered so.
/// This is simpler than to keep such a release behind its acquire, and a server is not asked to grant what is given up.
#[derive(Default)]
pub(crate) struct HeldBack {
    first: VecDeque<Held>,
    /// `None`: the step was removed.
    others: VecDeque<Option<Held>>,
    /// How many of them were not removed.
    others_left: usize,
    /// How many have left the front of `others`: a step's number less this is its index.
    gone: u64,
    /// The numbers of the acquires in `others`, by owner.
    acquires: HashMap<Owner, Vec<u64>>,
}

impl HeldBack {
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.others_left
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a step at its place. Answers the steps that are not sent because of it, which may be this one.
    #[must_use]
    pub(crate) fn push(&mut self, held: Held) -> Vec<Unsent> {
        let goes_first = goes_first(&held.0);
        let waiting = if goes_first { self.first.len() } else { self.others_left };
        if waiting >= HELD_BACK_MAX {
            let message = format!(
                "not sent: {HELD_BACK_MAX} requests to this server wait already, which is the most; ask for fewer at once"
            );
            return vec![(held.1, Trouble::new(StoreErrorKind::TooSlow, message))];
        }
        if goes_first {
            let removed = owners(&held.0).into_iter().flat_map(|owner| self.remove_acquires(owner)).collect();
            self.first.push_back(held);
            return removed;
        }
        let number = self.gone + self.others.len() as u64;
        for owner in owners(&held.0) {
            self.acquires.entry(*owner).or_default().push(number);
        }
        self.others.push_back(Some(held));
        self.others_left += 1;
        Vec::new()
    }

    /// Removes the next step. `Err`: its deadline has passed, so it is not to be sent.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<Result<Held, Unsent>> {
        let held = self.first.pop_front().or_else(|| self.pop_other())?;
        Some(match held.2.deadline {
            Some(deadline) if deadline <= now => Err((held.1, too_late())),
            _ => Ok(held),
        })
    }

    /// Removes all steps.
    pub(crate) fn into_replies(self) -> impl Iterator<Item = Reply> {
        self.first.into_iter().chain(self.others.into_iter().flatten()).map(|(_, reply, _)| reply)
    }

    fn pop_other(&mut self) -> Option<Held> {
        loop {
            let next = self.others.pop_front()?;
            let number = self.gone;
            self.gone += 1;
            if let Some(held) = next {
                self.forget(&held.0, number);
                self.others_left -= 1;
                return Some(held);
            }
        }
    }

    fn remove_acquires(&mut self, owner: &Owner) -> Vec<Unsent> {
        let numbers = self.acquires.remove(owner).unwrap_or_default();
        let mut removed = Vec::new();
        for number in numbers {
            let index = usize::try_from(number - self.gone).unwrap_or(usize::MAX);
            let Some((step, reply, _)) = self.others.get_mut(index).and_then(Option::take) else { continue };
            self.forget(&step, number);
            self.others_left -= 1;
            removed.push((reply, given_up()));
        }
        removed
    }

    /// The step with this number is not in `others` any more.
    fn forget(&mut self, step: &Step, number: u64) {
        for owner in owners(step) {
            if let Some(numbers) = self.acquires.get_mut(owner) {
                numbers.retain(|known| *known != number);
                if numbers.is_empty() {
                    self.acquires.remove(owner);
                }
            }
        }
    }
}

fn goes_first(step: &Step) -> bool {
    matches!(step, Step::Renew { .. } | Step::GiveBack { .. } | Step::Release { .. })
}

/// The owners in whose name the step acts.
fn owners(step: &Step) -> Vec<&Owner> {
    match step {
        Step::Acquire { claim, .. } | Step::Renew { claim, .. } | Step::GiveBack { claim, .. } => vec![&claim.owner],
        Step::Release { claim, then, .. } => {
            [Some(&claim.owner), then.as_ref().map(|then| &then.claim.owner)].into_iter().flatten().collect()
        }
        Step::AcquireAll { parts } => parts.iter().map(|part| &part.claim.owner).collect(),
        _ => Vec::new(),
    }
}

fn too_late() -> Trouble {
    Trouble::new(StoreErrorKind::TooSlow, "not sent: the server did not answer earlier requests in time")
}

fn given_up() -> Trouble {
    Trouble::new(StoreErrorKind::TooSlow, "not sent: its owner gave it up before the server could take it")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fencepost_core::FencingToken;
    use fencepost_core::store::{Claim, Event, LockName, Mailbox, Mode, Post, Proposal, Repair, Turn};

    use super::*;

    struct Nobody;

    impl Mailbox for Nobody {
        fn post(self: Arc<Self>, post: Post) {
            assert!(matches!(post.event, Event::Answer(Err(_))));
        }
    }

    fn claim() -> Arc<Claim> {
        Arc::new(Claim {
            name: LockName::new("x").expect("a name"),
            owner: Owner::random().expect("random bytes"),
            label: "".into(),
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(30),
            turn: Turn::AfterOthers,
            fenced: true,
            actor: None,
            delay: Duration::ZERO,
        })
    }

    fn acquire(claim: &Arc<Claim>) -> Step {
        Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Next, unify: false }
    }

    fn renew(claim: &Arc<Claim>) -> Step {
        Step::Renew { claim: claim.clone(), token: FencingToken::MAX, pass: None, repair: Repair::Never }
    }

    fn release(claim: &Arc<Claim>) -> Step {
        Step::Release { claim: claim.clone(), raise: None, pass: Proposal::Next, then: None, only: None }
    }

    fn reply() -> Reply {
        Reply::new(Arc::new(Nobody), 0, 0)
    }

    fn held(step: Step) -> Held {
        (step, reply(), Again::default())
    }

    /// The steps that are left, by their owners.
    fn rest(mut held_back: HeldBack) -> Vec<(bool, Owner)> {
        let now = Moment::from_nanos(0);
        let mut rest = Vec::new();
        while let Some(next) = held_back.pop(now) {
            let Ok((step, ..)) = next else { panic!("none has a deadline") };
            rest.push((goes_first(&step), *owners(&step)[0]));
        }
        assert!(held_back.is_empty() && held_back.acquires.is_empty());
        rest
    }

    #[test]
    fn renewals_and_releases_go_first_in_the_order_in_which_they_came() {
        let (a, b, c) = (claim(), claim(), claim());
        let mut held_back = HeldBack::default();
        for step in [acquire(&a), renew(&b), acquire(&c), release(&b)] {
            assert!(held_back.push(held(step)).is_empty());
        }
        assert_eq!(held_back.len(), 4);
        assert_eq!(rest(held_back), [(true, b.owner), (true, b.owner), (false, a.owner), (false, c.owner)]);
    }

    #[test]
    fn a_release_removes_the_acquires_of_its_owner_and_no_other() {
        let (a, b) = (claim(), claim());
        let mut held_back = HeldBack::default();
        for step in [acquire(&b), acquire(&a), acquire(&b), acquire(&a)] {
            assert!(held_back.push(held(step)).is_empty());
        }
        let first = held_back.pop(Moment::from_nanos(0));
        assert!(matches!(first, Some(Ok((step, ..))) if *owners(&step)[0] == b.owner));
        let removed = held_back.push(held(release(&a)));
        assert_eq!(removed.len(), 2);
        assert!(removed.iter().all(|(_, trouble)| trouble.message.starts_with("not sent")));
        assert!(held_back.push(held(acquire(&a))).is_empty(), "a later one is behind the release");
        assert_eq!(held_back.len(), 3);
        assert_eq!(rest(held_back), [(true, a.owner), (false, b.owner), (false, a.owner)]);
    }

    #[test]
    fn a_step_beyond_its_deadline_is_not_to_be_sent() {
        let deadline = Moment::from_nanos(10);
        let mut held_back = HeldBack::default();
        for step in [acquire(&claim()), renew(&claim())] {
            assert!(held_back.push((step, reply(), Again::until(deadline))).is_empty());
        }
        assert!(matches!(held_back.pop(Moment::from_nanos(9)), Some(Ok(_))));
        assert!(matches!(held_back.pop(Moment::from_nanos(10)), Some(Err(_))));
        assert!(held_back.pop(Moment::from_nanos(10)).is_none());
    }

    #[test]
    fn each_queue_has_a_bound_that_its_error_names() {
        let (mut held_back, claim) = (HeldBack::default(), claim());
        let inspect = || Step::Inspect { name: claim.name.clone() };
        assert!((0..HELD_BACK_MAX).all(|_| held_back.push(held(inspect())).is_empty()));
        let refused = held_back.push(held(inspect()));
        assert!(refused[0].1.message.contains("131072"), "{:?}", refused[0].1);
        assert!(held_back.push(held(release(&claim))).is_empty(), "the other queue has room");
        assert_eq!(held_back.len(), HELD_BACK_MAX + 1);
    }
}
