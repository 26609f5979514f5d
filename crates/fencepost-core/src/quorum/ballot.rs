//! Counting votes. Pure: no I/O, no clock, no waiting.
//!
//! This is Redlock's decision, and with one node it is every other store's too. Two winners' majorities share a node;
//! that node accepts rising tokens only. So the tokens of two winners differ, and the later one's is higher.

use super::electorate::Electorate;
use crate::token::FencingToken;

/// What one node said in this round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vote {
    /// Nothing yet.
    Pending,
    /// Mine, under this token.
    Granted(FencingToken),
    /// Mine, under a token that was given back, but the give-back did not arrive. It may still: so this is no grant,
    /// but a new token in its place would be one.
    Void(FencingToken),
    /// Another's.
    Refused,
    /// The proposal did not fit; this is the lowest token that would.
    Stale(FencingToken),
    /// No answer, or no right to vote.
    Failed,
}

/// What follows from the votes so far. More votes never turn a loss into a win.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Not decided yet.
    Open,
    /// A majority is mine under one token.
    Won(FencingToken),
    /// A majority is mine, but under different tokens or void ones: propose one for all. Never take the highest of
    /// them, it is recorded on a minority only.
    Unify,
    /// A minority is mine: give it back.
    Yield,
    /// Nothing is mine.
    Refused,
    /// Stale answers stood in the way: this token would have fitted a majority.
    Raise(FencingToken),
    /// Too few nodes can vote.
    NoQuorum,
}

#[derive(Clone, Debug)]
pub(crate) struct Ballot {
    votes: Vec<Vote>,
    electorate: Electorate,
}

impl Ballot {
    /// For so many nodes, of whom these have to agree.
    pub(crate) fn open(nodes: usize, electorate: Electorate) -> Self {
        Self { votes: vec![Vote::Pending; nodes], electorate }
    }

    pub(crate) fn record(&mut self, node: usize, vote: Vote) {
        self.votes[node] = vote;
    }

    pub(crate) fn vote(&self, node: usize) -> Vote {
        self.votes[node]
    }

    pub(crate) fn reset(&mut self) {
        self.votes.fill(Vote::Pending);
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = usize> {
        self.votes.iter().enumerate().filter(|(_, vote)| **vote == Vote::Pending).map(|(node, _)| node)
    }

    pub(crate) fn granted(&self) -> impl Iterator<Item = (usize, FencingToken)> {
        self.votes.iter().enumerate().filter_map(|(node, vote)| match vote {
            Vote::Granted(token) => Some((node, *token)),
            _ => None,
        })
    }

    /// What is mine, also where it does not count.
    pub(crate) fn mine(&self) -> impl Iterator<Item = (usize, FencingToken)> {
        self.votes.iter().enumerate().filter_map(|(node, vote)| match vote {
            Vote::Granted(token) | Vote::Void(token) => Some((node, *token)),
            _ => None,
        })
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let elects = |counts: &dyn Fn(Vote) -> bool| self.electorate.elects(|node| counts(self.votes[node]));
        let is_mine = |vote: Vote| matches!(vote, Vote::Granted(_) | Vote::Void(_));
        let may_be_mine = |vote: Vote| is_mine(vote) || matches!(vote, Vote::Stale(_));
        if let Some((_, token)) = self.granted().find(|(_, token)| elects(&|vote| vote == Vote::Granted(*token))) {
            return Verdict::Won(token);
        }
        if elects(&is_mine) {
            return Verdict::Unify;
        }
        if !elects(&|vote| vote != Vote::Failed) {
            return Verdict::NoQuorum;
        }
        let undecided = self.pending().next().is_some();
        if undecided && elects(&|vote| may_be_mine(vote) || vote == Vote::Pending) {
            return Verdict::Open;
        }
        // Whatever is mine is content with any token: it is replaced.
        let floor = self.electorate.contents(|node| match self.votes[node] {
            Vote::Stale(floor) => Some(Some(floor)),
            vote => is_mine(vote).then_some(None),
        });
        match floor.flatten() {
            Some(floor) => Verdict::Raise(floor),
            None if self.mine().next().is_some() => Verdict::Yield,
            None => Verdict::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::from_number(number).expect("a token")
    }

    fn ballot(votes: &[Vote]) -> Ballot {
        Ballot { votes: votes.to_vec(), electorate: Electorate::of(votes.len()) }
    }

    #[test]
    fn one_node_is_a_quorum_of_one() {
        assert_eq!(ballot(&[Vote::Granted(token(7))]).verdict(), Verdict::Won(token(7)));
        assert_eq!(ballot(&[Vote::Refused]).verdict(), Verdict::Refused);
        assert_eq!(ballot(&[Vote::Stale(token(10))]).verdict(), Verdict::Raise(token(10)));
        assert_eq!(ballot(&[Vote::Failed]).verdict(), Verdict::NoQuorum);
        assert_eq!(Ballot::open(1, Electorate::of(1)).verdict(), Verdict::Open);
    }

    #[test]
    fn a_majority_under_different_tokens_is_not_a_win() {
        use Vote::{Granted, Pending, Void};
        assert_eq!(ballot(&[Granted(token(3)), Granted(token(4)), Pending]).verdict(), Verdict::Unify);
        assert_eq!(ballot(&[Void(token(4)), Granted(token(4)), Pending]).verdict(), Verdict::Unify);
        assert_eq!(ballot(&[Granted(token(4)), Granted(token(4)), Pending]).verdict(), Verdict::Won(token(4)));
    }

    #[test]
    fn the_raise_goes_to_the_mth_smallest_so_that_one_poisoned_node_is_ignored() {
        let floors = [5, 900, 6, 7, 8].map(|floor| Vote::Stale(token(floor)));
        assert_eq!(ballot(&floors).verdict(), Verdict::Raise(token(7)));
    }

    #[test]
    fn two_sets_of_nodes_have_to_agree() {
        use Vote::{Failed, Granted, Pending, Refused, Stale};
        let sets = || Electorate::of_sets(4, vec![vec![0, 1, 2], vec![0, 1, 3]]).expect("sets");
        let verdict = |votes: [Vote; 4]| Ballot { votes: votes.to_vec(), electorate: sets() }.verdict();
        let mine = Granted(token(3));
        assert_eq!(verdict([mine, mine, Pending, Pending]), Verdict::Won(token(3)));
        assert_eq!(verdict([mine, Refused, mine, Pending]), Verdict::Open);
        assert_eq!(verdict([mine, Refused, mine, Refused]), Verdict::Yield);
        assert_eq!(verdict([mine, Failed, Pending, Failed]), Verdict::NoQuorum);
        assert_eq!(verdict([mine, Refused, Stale(token(9)), Stale(token(7))]), Verdict::Raise(token(9)));
    }

    #[test]
    fn a_tie_of_an_even_number_of_nodes_is_a_loss_at_once() {
        use Vote::{Granted, Refused};
        assert_eq!(ballot(&[Granted(token(1)), Refused]).verdict(), Verdict::Yield);
        let tie = [Granted(token(1)), Granted(token(1)), Refused, Refused];
        assert_eq!(ballot(&tie).verdict(), Verdict::Yield);
    }

    /// Every combination of votes for one to five nodes: the verdict is the one that its words promise, and once it is
    /// against us no answer of a node that is still silent turns it into a win.
    #[test]
    fn verdicts_hold_for_every_combination_of_votes() {
        let kinds = [
            Vote::Pending,
            Vote::Granted(token(3)),
            Vote::Granted(token(4)),
            Vote::Void(token(3)),
            Vote::Refused,
            Vote::Stale(token(9)),
            Vote::Failed,
        ];
        let mut walked = 0;
        for nodes in 1..=5_u32 {
            for code in 0..kinds.len().pow(nodes) {
                let digit = |place: u32| kinds[code / kinds.len().pow(place) % kinds.len()];
                let votes: Vec<Vote> = (0..nodes).map(digit).collect();
                check(&votes);
                walked += 1;
            }
        }
        assert_eq!(walked, 7 + 49 + 343 + 2401 + 16807);
    }

    fn check(votes: &[Vote]) {
        let need = votes.len() / 2 + 1;
        let count = |wanted: &dyn Fn(&Vote) -> bool| votes.iter().filter(|vote| wanted(vote)).count();
        let of = |number| count(&|vote| *vote == Vote::Granted(token(number)));
        let pending = count(&|vote| *vote == Vote::Pending);
        let failed = count(&|vote| *vote == Vote::Failed);
        let void = count(&|vote| matches!(vote, Vote::Void(_)));
        let verdict = ballot(votes).verdict();
        match verdict {
            Verdict::Won(won) => assert!(of(won.as_u64()) >= need),
            _ => assert!(of(3) < need && of(4) < need, "{votes:?} is a win"),
        }
        let best_case = of(3).max(of(4)) + pending;
        match verdict {
            Verdict::NoQuorum => assert!(votes.len() - failed < need),
            Verdict::Yield | Verdict::Refused => assert!(best_case < need, "{votes:?} may still win: {verdict:?}"),
            Verdict::Open => assert!(pending > 0),
            Verdict::Unify => assert!(of(3) + of(4) + void >= need),
            Verdict::Won(_) | Verdict::Raise(_) => {}
        }
    }
}
