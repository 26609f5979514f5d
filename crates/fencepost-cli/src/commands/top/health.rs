//! How the nodes of the store are, and since when.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fencepost::{StoreErrorKind, Vote};

/// How many answers of a node are remembered.
const SAMPLES: usize = 40;

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) vote: Vote,
    pub(super) latency: Duration,
    /// Since when it is as it is, well or not.
    pub(super) since: Instant,
    /// How long its answers took; `None`: it gave none.
    pub(super) samples: VecDeque<Option<Duration>>,
}

impl Node {
    pub(super) fn is_well(&self) -> bool {
        is_well(&self.vote)
    }

    /// What it says, in the words of the dashboard.
    pub(super) fn says(&self) -> String {
        match &self.vote {
            vote if is_well(vote) => "answers".into(),
            Vote::Failed(StoreErrorKind::Quarantined { left }) => {
                format!("quarantined for {}", super::text::calm(*left))
            }
            vote => vote.to_string(),
        }
    }
}

fn is_well(vote: &Vote) -> bool {
    !matches!(vote, Vote::Failed(_) | Vote::Unheard)
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) nodes: Vec<Node>,
}

impl Health {
    /// What each says now, and how long that took.
    pub(super) fn take(&mut self, votes: impl IntoIterator<Item = (String, Duration, Vote)>, now: Instant) {
        let mut before = std::mem::take(&mut self.nodes);
        for (name, latency, vote) in votes {
            let known = before.iter().position(|node| node.name == name).map(|place| before.swap_remove(place));
            let (since, mut samples) = match known {
                Some(node) if node.is_well() == is_well(&vote) => (node.since, node.samples),
                Some(node) => (now, node.samples),
                None => (now, VecDeque::new()),
            };
            samples.push_back(is_well(&vote).then_some(latency));
            if samples.len() > SAMPLES {
                samples.pop_front();
            }
            self.nodes.push(Node { name, vote, latency, since, samples });
        }
    }

    pub(super) fn well(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_well()).count()
    }

    /// How many must answer.
    pub(super) fn needed(&self) -> usize {
        self.nodes.len() / 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_as_it_is_since_it_changed_and_its_answers_are_remembered() {
        let (mut health, start) = (Health::default(), Instant::now());
        let away = || Vote::Failed(StoreErrorKind::Unreachable);
        let second = |n: u64| start + Duration::from_secs(n);
        for (n, vote) in [Vote::Granted, Vote::Granted, away(), away()].into_iter().enumerate() {
            let votes = ["a", "b"].map(|name| {
                let vote = if name == "a" { Vote::Granted } else { vote.clone() };
                (name.to_owned(), Duration::from_millis(3), vote)
            });
            health.take(votes, second(n as u64));
        }
        let [a, b] = health.nodes.as_slice() else { panic!("{health:?}") };
        assert_eq!((a.name.as_str(), a.since, a.says().as_str()), ("a", start, "answers"));
        assert_eq!((b.name.as_str(), b.since, b.says().as_str()), ("b", second(2), "unreachable"));
        let answer = Some(Duration::from_millis(3));
        assert_eq!(b.samples, [answer, answer, None, None]);
        assert_eq!((health.well(), health.needed()), (1, 2));
        (0..100).for_each(|n| health.take([("a".to_owned(), Duration::ZERO, Vote::Granted)], second(n)));
        assert_eq!(health.nodes[0].samples.len(), SAMPLES);
    }

    #[test]
    fn a_quarantined_node_answers_and_is_not_well() {
        let mut health = Health::default();
        let vote = Vote::Failed(StoreErrorKind::Quarantined { left: Duration::from_secs(61) });
        health.take([("a".to_owned(), Duration::ZERO, vote)], Instant::now());
        assert_eq!((health.nodes[0].says().as_str(), health.well()), ("quarantined for 1m 1s", 0));
    }
}
