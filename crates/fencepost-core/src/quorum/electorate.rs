//! Who has to agree. Pure: no I/O, no clock, no waiting.
//!
//! Usually a majority of all nodes. While one set of nodes takes the place of another, a majority of each: so whoever
//! needs both meets whoever needs the old one alone, and whoever needs the new one alone.

use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};

/// The sets of nodes of which each has to agree by majority. Every claim has it: a clone is the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Electorate {
    sets: Arc<[Vec<usize>]>,
}

impl Electorate {
    /// A majority of so many nodes.
    pub(crate) fn of(nodes: usize) -> Self {
        Self { sets: Arc::new([(0..nodes).collect()]) }
    }

    /// A majority of each of these sets, which have so many nodes between them.
    pub(crate) fn of_sets(nodes: usize, sets: Vec<Vec<usize>>) -> Result<Self, StoreError> {
        let wrong = |message: &str| StoreError::new(StoreErrorKind::Misconfigured, "connect", message);
        let twice = |set: &Vec<usize>| (1..set.len()).any(|at| set[..at].contains(&set[at]));
        if sets.is_empty() || sets.iter().any(Vec::is_empty) {
            return Err(wrong("a set of nodes that votes needs at least one node"));
        }
        if sets.iter().flatten().any(|node| *node >= nodes) || sets.iter().any(twice) {
            return Err(wrong("a set of nodes that votes names a node twice, or one that is not there"));
        }
        if (0..nodes).any(|node| sets.iter().all(|set| !set.contains(&node))) {
            return Err(wrong("a node is in no set that votes"));
        }
        Ok(Self { sets: sets.into() })
    }

    /// The smallest majority of so many.
    fn need(nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// Whether these nodes are a majority of every set.
    pub(crate) fn elects(&self, counts: impl Fn(usize) -> bool) -> bool {
        self.sets.iter().all(|set| among(set, &counts) >= Self::need(set.len()))
    }

    /// Whether without these nodes some set has no majority left.
    pub(crate) fn is_blocked_by(&self, counts: impl Fn(usize) -> bool) -> bool {
        !self.elects(|node| !counts(node))
    }

    /// Whether these nodes are a majority of some set: what they say may have been granted by that one alone.
    pub(crate) fn elects_one(&self, counts: impl Fn(usize) -> bool) -> bool {
        self.sets.iter().any(|set| among(set, &counts) >= Self::need(set.len()))
    }

    /// Of each set either a majority has done it, or all of those that had to.
    pub(crate) fn is_done(&self, has_to: impl Fn(usize) -> bool, has: impl Fn(usize) -> bool) -> bool {
        self.sets.iter().all(|set| among(set, &has) >= Self::need(set.len()).min(among(set, &has_to)))
    }

    /// The highest value that a majority of every set reaches. `None`: too few have one.
    pub(crate) fn reached<T: Ord + Copy>(&self, value: impl Fn(usize) -> Option<T>) -> Option<T> {
        let of = |set: &Vec<usize>| {
            let mut each: Vec<T> = set.iter().filter_map(|node| value(*node)).collect();
            each.sort_unstable();
            each.into_iter().nth_back(Self::need(set.len()) - 1)
        };
        self.sets.iter().map(of).min().flatten()
    }

    /// The highest value that a majority of some set reaches, or may once the silent have spoken: a value of them is not
    /// there. Below all of them where nobody has said anything.
    pub(crate) fn may_be_reached<T: Ord + Copy>(&self, value: impl Fn(usize) -> Option<T>) -> Option<T> {
        let of = |set: &Vec<usize>| {
            let mut each: Vec<T> = set.iter().filter_map(|node| value(*node)).collect();
            let silent = set.len() - each.len();
            each.sort_unstable();
            each.into_iter().nth_back(Self::need(set.len()).saturating_sub(silent).max(1) - 1)
        };
        self.sets.iter().map(of).max().flatten()
    }

    /// The lowest value with which a majority of every set is content, each from its own on. `None`: some set has no
    /// majority that has one.
    pub(crate) fn contents<T: Ord + Copy>(&self, value: impl Fn(usize) -> Option<T>) -> Option<T> {
        let of = |set: &Vec<usize>| {
            let mut each: Vec<T> = set.iter().filter_map(|node| value(*node)).collect();
            each.sort_unstable();
            each.into_iter().nth(Self::need(set.len()) - 1)
        };
        self.sets.iter().map(of).try_fold(None, |highest, one| one.map(|one| highest.max(Some(one))))?
    }
}

fn among(set: &[usize], counts: &impl Fn(usize) -> bool) -> usize {
    set.iter().filter(|node| counts(**node)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of which one is replaced, with the new one behind them.
    fn replacing() -> Electorate {
        Electorate::of_sets(4, vec![vec![0, 1, 2], vec![0, 1, 3]]).expect("sets")
    }

    #[test]
    fn two_sets_have_to_agree_each_by_majority() {
        let elects = |nodes: &[usize]| replacing().elects(|node| nodes.contains(&node));
        assert!(elects(&[0, 1]) && elects(&[1, 2, 3]) && elects(&[0, 2, 3]));
        assert!(!elects(&[0, 2]) && !elects(&[2, 3]) && !elects(&[0]));
        assert!(replacing().elects_one(|node| [0, 2].contains(&node)));
        assert!(replacing().is_blocked_by(|node| [0, 3].contains(&node)));
        assert!(!replacing().is_blocked_by(|node| [2, 3].contains(&node)));
    }

    /// Whoever needs both meets whoever needs one, for every two sets of five nodes: who votes side by side in a change shares a
    /// node. The old and the new set by themselves need not, so they never do.
    #[test]
    fn whoever_needs_both_sets_meets_whoever_needs_one() {
        let bits = |mask: u32| (0..5).filter(|node| mask >> node & 1 == 1).collect::<Vec<usize>>();
        for (old, new) in (1..32_u32).flat_map(|old| (1..32_u32).map(move |new| (old, new))) {
            // The sets of both, numbered as their union is.
            let union = bits(old | new);
            let place = |node: &usize| union.iter().position(|other| other == node).expect("it is in the union");
            let sets = [old, new].map(|mask| bits(mask).iter().map(place).collect::<Vec<_>>());
            let both = Electorate::of_sets(union.len(), sets.to_vec()).expect("sets");
            for votes in 0..1_u32 << union.len() {
                let counts = |node: usize| votes >> node & 1 == 1;
                if !both.elects(counts) {
                    continue;
                }
                for set in &sets {
                    let rest = set.iter().filter(|node| !counts(**node)).count();
                    assert!(rest < Electorate::need(set.len()), "{sets:?}: {votes:b} leaves a majority of {set:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_those_of_majorities() {
        let of = |values: [Option<u32>; 4]| move |node: usize| values[node];
        assert_eq!(Electorate::of(4).reached(of([Some(1), Some(2), Some(3), Some(4)])), Some(2));
        assert_eq!(Electorate::of(4).contents(of([Some(1), Some(2), Some(3), Some(4)])), Some(3));
        assert_eq!(replacing().reached(of([Some(5), Some(7), Some(9), Some(1)])), Some(5));
        assert_eq!(replacing().reached(of([Some(5), None, Some(9), None])), None);
        assert_eq!(replacing().contents(of([Some(5), Some(7), Some(9), Some(1)])), Some(7));
        assert_eq!(replacing().may_be_reached(of([Some(5), Some(7), Some(9), Some(1)])), Some(7));
        assert_eq!(replacing().may_be_reached(of([Some(5), None, None, Some(1)])), Some(5));
        assert_eq!(replacing().contents(of([Some(5), None, Some(9), None])), None);
    }

    #[test]
    fn a_release_is_done_where_all_who_had_the_lock_have_answered() {
        let done = |has_to: &[usize], has: &[usize]| {
            replacing().is_done(|node| has_to.contains(&node), |node| has.contains(&node))
        };
        assert!(done(&[0], &[0]) && done(&[], &[]) && done(&[0, 1, 2, 3], &[0, 1]));
        assert!(!done(&[0, 3], &[0]) && !done(&[0, 1, 2, 3], &[0, 2]));
    }

    #[test]
    fn bad_sets_are_refused() {
        for sets in [vec![], vec![vec![]], vec![vec![0, 0]], vec![vec![0]], vec![vec![0, 2]]] {
            assert!(Electorate::of_sets(2, sets.clone()).is_err(), "{sets:?}");
        }
    }
}
