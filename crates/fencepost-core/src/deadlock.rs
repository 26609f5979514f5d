//! Who waits for whom, and where that closes a circle. Pure: it works on what can be seen of the locks.
//!
//! An actor waits for every holder that excludes it, and in a fair line for everybody before it who excludes it. A cycle
//! of such waits ends only when somebody gives up. Whoever stands in the lines of several permits of a semaphore waits
//! for any of them: only if none can come free is that a wait at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::actor::ActorId;
use crate::name::semaphore_of;
use crate::state::{Holder, LockState};
use crate::token::FencingToken;

/// Two waits that began within this of each other began at the same time: pictures of two locks are not taken at once.
const SAME_TIME: Duration = Duration::from_millis(50);

/// One actor waits for another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    pub(crate) by: ActorId,
    pub(crate) on: ActorId,
    /// The place of the lock among the states.
    lock: usize,
    /// The token of the other's hold; none if it is only before us in line.
    token: Option<FencingToken>,
    waited: Duration,
}

/// Every wait of an actor for an actor.
pub(crate) struct Waits<'a> {
    states: &'a [LockState],
    by_actor: BTreeMap<ActorId, Vec<Wait>>,
}

/// Waits of which each is on the actor of the next, and the last on that of the first.
pub(crate) type Cycle = Vec<Wait>;

impl<'a> Waits<'a> {
    pub(crate) fn seen_in(states: &'a [LockState]) -> Self {
        let (mut by_actor, mut order): (BTreeMap<ActorId, Vec<Wait>>, Vec<ActorId>) = Default::default();
        for (lock, state) in states.iter().enumerate() {
            for (place, waiter) in state.waiters.iter().enumerate() {
                let Some(by) = waiter.actor else { continue };
                let wait = |on, token| Wait { by, on, lock, token, waited: waiter.waited };
                let excludes = |shared: bool| !(shared && waiter.shared);
                let holders = state.holders.iter().filter(|holder| excludes(holder.shared));
                let holders = holders.filter_map(|holder| Some(wait(holder.actor?, holder.token)));
                let before = state.waiters[..place].iter().filter(|other| excludes(other.shared));
                // Two waits of one actor do not wait for each other: the first ends, then the second.
                let before = before.filter_map(|other| other.actor).filter(|other| *other != by);
                order.push(by);
                by_actor.entry(by).or_default().extend(holders.chain(before.map(|other| wait(other, None))));
            }
        }
        // Rather told by who holds than by who is before us.
        by_actor.values_mut().for_each(|waits| waits.sort_by_key(|wait| wait.token.is_none()));
        let mut waits = Self { states, by_actor };
        if states.iter().any(|state| semaphore_of(&state.name).is_some()) {
            waits.keep_the_stuck(order);
        }
        waits
    }

    /// Forgets everybody who may go on without one of the others giving up. `order` is that of the lines, so that a
    /// line is through in one pass.
    fn keep_the_stuck(&mut self, mut order: Vec<ActorId>) {
        let mut before = usize::MAX;
        while self.by_actor.len() < before {
            before = self.by_actor.len();
            order.retain(|actor| {
                let waits = self.by_actor.get(actor).map(|waits| self.in_vain(waits)).unwrap_or_default();
                match waits.is_empty() {
                    true => drop(self.by_actor.remove(actor)),
                    false => drop(self.by_actor.insert(*actor, waits)),
                }
                self.by_actor.contains_key(actor)
            });
        }
    }

    /// Of one actor's waits, those that wait for somebody who is stuck; of a semaphore, only if that is so of every
    /// permit it waits for.
    fn in_vain(&self, waits: &[Wait]) -> Vec<Wait> {
        let stuck: Vec<&Wait> = waits.iter().filter(|wait| self.by_actor.contains_key(&wait.on)).collect();
        let blocked = |lock: usize| stuck.iter().any(|wait| wait.lock == lock);
        let may_pass = |semaphore: &str, by: ActorId| {
            let mut permits = self.states.iter().enumerate().filter(|(_, state)| {
                semaphore_of(&state.name) == Some(semaphore) && state.waiters.iter().any(|it| it.actor == Some(by))
            });
            permits.any(|(lock, _)| !blocked(lock))
        };
        let in_vain = |wait: &&&Wait| match semaphore_of(&self.states[wait.lock].name) {
            Some(semaphore) => !may_pass(semaphore, wait.by),
            None => true,
        };
        stuck.iter().filter(in_vain).map(|wait| Wait::clone(wait)).collect()
    }

    /// Whether a cycle rests on somebody's wait for one of several.
    pub(crate) fn has_choice(&self, cycle: &Cycle) -> bool {
        cycle.iter().any(|wait| semaphore_of(&self.states[wait.lock].name).is_some())
    }

    /// Cycles that together have every actor that waits for itself, each as short as can be.
    pub(crate) fn cycles(&self) -> Vec<Cycle> {
        let (mut known, mut cycles) = (BTreeSet::new(), Vec::new());
        for actor in self.by_actor.keys() {
            if known.contains(actor) {
                continue;
            }
            // Somebody who only stands in line between two of them closes a longer cycle, which is over when it gives
            // up: each is told of by its own, the shortest, which is not.
            for wait in self.cycle_of(*actor, |_| true).into_iter().flatten() {
                if known.insert(wait.by) {
                    cycles.extend(self.cycle_of(wait.by, |_| true).map(|cycle| self.turned_to_first_name(cycle)));
                }
            }
        }
        // Whoever is between two of a cycle in line is in it too, over the same locks.
        cycles.sort_by_key(Vec::len);
        let mut told = BTreeSet::new();
        cycles.retain(|cycle| told.insert(self.numbers_of(cycle)));
        cycles
    }

    /// The shortest cycle that this actor closes by waiting for this lock.
    pub(crate) fn closed_by(&self, actor: ActorId, name: &str) -> Option<Cycle> {
        let cycle = self.cycle_of(actor, |wait| self.states[wait.lock].name == name)?;
        Some(self.turned_to_first_name(cycle))
    }

    fn cycle_of(&self, actor: ActorId, first: impl Fn(&Wait) -> bool) -> Option<Cycle> {
        let waits_of = |actor: &ActorId| self.by_actor.get(actor).into_iter().flatten();
        let mut reached: BTreeMap<ActorId, &Wait> = BTreeMap::new();
        let mut next: VecDeque<&Wait> = waits_of(&actor).filter(|wait| first(wait)).collect();
        while let Some(wait) = next.pop_front() {
            if reached.contains_key(&wait.on) {
                continue;
            }
            reached.insert(wait.on, wait);
            if wait.on == actor {
                break;
            }
            next.extend(waits_of(&wait.on));
        }
        let mut cycle = vec![Wait::clone(reached.get(&actor)?)];
        while cycle[cycle.len() - 1].by != actor {
            let by = cycle[cycle.len() - 1].by;
            cycle.push(Wait::clone(reached.get(&by)?));
        }
        cycle.reverse();
        Some(cycle)
    }

    /// The same cycle is told in the same order, wherever it was found.
    fn turned_to_first_name(&self, mut cycle: Cycle) -> Cycle {
        let first = (0..cycle.len()).min_by_key(|at| &self.states[cycle[*at].lock].name).unwrap_or_default();
        cycle.rotate_left(first);
        cycle
    }

    /// Whether every wait of this cycle, found in an earlier picture, has lasted until this one. Then all of them were
    /// there between the two, at one moment, though no picture was taken at one moment.
    pub(crate) fn confirms(&self, cycle: &Cycle, of: &Waits<'_>) -> bool {
        cycle.iter().all(|old| {
            let lasts = |new: &Wait| {
                (new.by, new.on, new.token) == (old.by, old.on, old.token)
                    && self.states[new.lock].name == of.states[old.lock].name
                    // Other nodes' clocks may have told it this time.
                    && new.waited + SAME_TIME >= old.waited
            };
            self.by_actor.get(&old.by).is_some_and(|waits| waits.iter().any(lasts))
        })
    }

    /// The locks of a cycle: the holder of each waits for the next.
    pub(crate) fn locks_of(&self, cycle: &Cycle) -> Vec<LockState> {
        self.numbers_of(cycle).into_iter().map(|lock| self.states[lock].clone()).collect()
    }

    fn numbers_of(&self, cycle: &Cycle) -> Vec<usize> {
        let mut locks: Vec<usize> = cycle.iter().map(|wait| wait.lock).collect();
        locks.dedup();
        if locks.len() > 1 && locks.first() == locks.last() {
            locks.pop();
        }
        locks
    }
}

/// How many of a cycle should give way before this actor does: whoever began to wait last is the first.
pub(crate) fn turn_to_give_way(cycle: &Cycle, actor: ActorId) -> usize {
    let waited = |actor| cycle.iter().find(|wait| wait.by == actor).map_or(Duration::MAX, |wait| wait.waited);
    let mine = waited(actor);
    let before_me = cycle.iter().filter(|wait| match wait.waited.abs_diff(mine) < SAME_TIME {
        true => wait.by > actor,
        false => wait.waited < mine,
    });
    before_me.count()
}

/// The one holder of a lock who waits for the next lock of a cycle.
pub(crate) fn holder_who_waits_for<'a>(lock: &'a LockState, next: &LockState) -> Option<&'a Holder> {
    let waits = |holder: &&Holder| holder.actor.is_some() && next.waiters.iter().any(|it| it.actor == holder.actor);
    lock.holders.iter().find(waits).or(lock.holders.first())
}

/// A cycle in words.
pub(crate) struct InWords<'a>(pub(crate) &'a [LockState]);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, lock) in self.0.iter().enumerate() {
            let next = &self.0[(at + 1) % self.0.len()];
            let joint = if at == 0 { "" } else { "; " };
            write!(f, "{joint}{:?} is held by ", lock.name)?;
            match holder_who_waits_for(lock, next) {
                Some(holder) => write!(f, "{holder}")?,
                None => f.write_str("another")?,
            }
            write!(f, ", who waits for {:?}", next.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Waiter;

    /// `x` is held by some and waited for by others; a capital letter wants it for itself, a small one only reads.
    fn lock(name: &str, holders: &str, waiters: &str) -> LockState {
        let mut state = LockState::free(name);
        for (number, actor) in holders.chars().enumerate() {
            let mut holder = Holder::new(actor.to_string());
            holder.shared = actor.is_lowercase();
            holder.token = FencingToken::from_number(1 + number as u64);
            holder.actor = Some(id(actor));
            state.holders.push(holder);
        }
        for (place, actor) in waiters.chars().enumerate() {
            let waited = Duration::from_secs(100 - place as u64);
            let mut waiter = Waiter::new(actor.to_string(), actor.is_lowercase(), waited);
            waiter.actor = Some(id(actor));
            state.waiters.push(waiter);
        }
        state
    }

    fn id(actor: char) -> ActorId {
        ActorId(u64::from(u32::from(actor.to_ascii_uppercase())))
    }

    fn found(states: &[LockState]) -> Vec<String> {
        let waits = Waits::seen_in(states);
        let names = |cycle| waits.locks_of(cycle).iter().map(|state| state.name.clone()).collect::<Vec<_>>().join(" ");
        waits.cycles().iter().map(names).collect()
    }

    #[test]
    fn two_locks_in_opposite_order_are_a_cycle() {
        assert_eq!(found(&[lock("a", "A", "B"), lock("b", "B", "A")]), ["a b"]);
        assert_eq!(found(&[lock("b", "B", "A"), lock("a", "A", "B"), lock("c", "C", "AB")]), ["a b"]);
    }

    #[test]
    fn a_chain_is_no_cycle() {
        assert!(found(&[lock("a", "A", "B"), lock("b", "B", "C"), lock("c", "C", "D")]).is_empty());
        assert!(found(&[lock("a", "A", "BCD"), lock("b", "BCD", "")]).is_empty());
    }

    #[test]
    fn readers_do_not_wait_for_readers_but_for_a_writer_between_them() {
        assert!(found(&[lock("a", "a", "b"), lock("b", "b", "a")]).is_empty());
        // `b` reads behind the writer `C`, who waits for the reader `a`, who waits for what `b` has.
        assert_eq!(found(&[lock("a", "a", "Cb"), lock("b", "B", "A")]), ["a b"]);
        // The writer waits for every reader.
        assert_eq!(found(&[lock("a", "ab", "C"), lock("c", "C", "B")]), ["a c"]);
    }

    #[test]
    fn separate_cycles_are_told_apart_and_each_as_short_as_can_be() {
        let states =
            [lock("a", "A", "B"), lock("b", "B", "A"), lock("c", "C", "D"), lock("d", "D", "E"), lock("e", "E", "C")];
        assert_eq!(found(&states), ["a b", "c e d"]);
        let shortcut = [lock("a", "A", "CB"), lock("b", "B", "A"), lock("c", "C", "B")];
        assert_eq!(found(&shortcut), ["a b", "a b c"]);
    }

    #[test]
    fn one_between_two_of_a_cycle_in_line_is_no_cycle_of_its_own() {
        for bystander in ["0", "Z"] {
            let line = format!("{bystander}A");
            assert_eq!(found(&[lock("a", "A", "B"), lock("b", "B", &line)]), ["a b"], "{bystander}");
        }
    }

    #[test]
    fn a_deadlock_lasts_when_one_who_only_stood_in_its_line_has_gone() {
        for bystander in ["0", "Z"] {
            let old = [lock("a", "A", "B"), lock("b", "B", &format!("{bystander}A"))];
            let new = [lock("a", "A", "B"), lock("b", "B", "A")];
            let (before, after) = (Waits::seen_in(&old), Waits::seen_in(&new));
            let lasting = before.cycles().iter().filter(|cycle| after.confirms(cycle, &before)).count();
            assert_eq!(lasting, 1, "{bystander}");
        }
    }

    #[test]
    fn who_waits_for_any_of_several_permits_is_stuck_only_if_every_holder_is() {
        let (one, other) = ("s/permit#0", "s/permit#1");
        // `A` has a lock and wants a permit; of those who have one, `B` wants the lock and `C` works.
        let works = [lock("a", "A", "B"), lock(one, "B", "A"), lock(other, "C", "A")];
        assert!(found(&works).is_empty(), "C lets its permit go");
        let waits = [lock("a", "A", "BC"), lock(one, "B", "A"), lock(other, "C", "A")];
        assert!(!found(&waits).is_empty(), "nobody lets go");
        let unknown = [lock("a", "A", "B"), lock(one, "B", "A"), lock(other, "", "A")];
        assert!(found(&unknown).is_empty(), "who is not known may let go");
        // Behind it at the gate waits one who holds what a holder wants.
        let gate = lock("s/permit#line", "A", "D");
        let behind = [lock("d", "D", "BC"), lock(one, "B", "A"), lock(other, "C", "A"), gate.clone()];
        assert!(!found(&behind).is_empty(), "the gate never opens");
        let behind = [lock("d", "D", "B"), lock(one, "B", "A"), lock(other, "C", "A"), gate];
        assert!(found(&behind).is_empty(), "the gate opens when C lets go");
    }

    #[test]
    fn who_has_all_permits_and_wants_one_more_waits_for_ever() {
        assert_eq!(found(&[lock("s/permit#0", "A", "A")]), ["s/permit#0"]);
        assert!(!found(&[lock("s/permit#0", "A", "A"), lock("s/permit#1", "A", "A")]).is_empty());
        assert!(found(&[lock("s/permit#0", "A", "A"), lock("s/permit#1", "B", "A")]).is_empty());
    }

    #[test]
    fn an_actor_that_waits_for_what_it_holds_waits_for_ever() {
        assert_eq!(found(&[lock("a", "A", "A")]), ["a"]);
        assert!(found(&[lock("a", "B", "AA")]).is_empty(), "two waits of one actor end one after the other");
    }

    #[test]
    fn the_last_to_wait_gives_way_first_and_of_two_at_once_the_one_with_the_higher_number() {
        let mut states = [lock("a", "A", "B"), lock("b", "B", "A")];
        let turns = |states: &[LockState]| {
            let cycle = Waits::seen_in(states).cycles().remove(0);
            ['A', 'B'].map(|actor| turn_to_give_way(&cycle, id(actor)))
        };
        assert_eq!(turns(&states), [1, 0]);
        states[1].waiters[0].waited -= Duration::from_secs(5);
        assert_eq!(turns(&states), [0, 1]);
    }

    #[test]
    fn a_cycle_is_confirmed_only_if_every_wait_has_lasted() {
        let old = [lock("a", "A", "B"), lock("b", "B", "A")];
        let before = Waits::seen_in(&old);
        let cycle = before.closed_by(id('A'), "b").expect("a cycle");
        assert!(before.closed_by(id('A'), "a").is_none());
        assert!(Waits::seen_in(&old).confirms(&cycle, &before));
        let mut again = old.clone();
        again[1].holders[0].token = FencingToken::from_number(9);
        assert!(!Waits::seen_in(&again).confirms(&cycle, &before), "B let go and came back");
        let mut again = old.clone();
        again[0].waiters[0].waited = Duration::ZERO;
        assert!(!Waits::seen_in(&again).confirms(&cycle, &before), "B left the line and came back");
    }

    #[test]
    fn a_cycle_reads_as_a_sentence() {
        let states = [lock("a", "A", "B"), lock("b", "B", "A")];
        assert_eq!(
            InWords(&states).to_string(),
            "\"a\" is held by A (token 1), who waits for \"b\"; \"b\" is held by B (token 1), who waits for \"a\""
        );
    }
}
