//! One turn's figures, and what several of them are together.

use std::time::{Duration, Instant};

use super::workload::{Tally, Workload};
use crate::histogram::Histogram;

/// What was counted in one turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) latency: Histogram,
    pub(super) gap: Histogram,
    /// The time that its rates are of.
    pub(super) took: Duration,
    /// How many each client had.
    pub(super) shares: Vec<u64>,
}

impl Round {
    /// What clients counted since then.
    pub(super) fn of(workload: Workload, began: Instant, tallies: &[Tally]) -> Self {
        let mut round = Self::default();
        let (mut longest, mut pace) = (Duration::ZERO, 0.0);
        for Tally { latency, gap, last, .. } in tallies {
            round.latency.add(latency);
            round.gap.add(gap);
            round.shares.push(latency.count());
            let took = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
            longest = longest.max(took);
            pace += per_second(latency.count(), took);
        }
        // In line they have one pace together. Else each has its own: the last pair of one, which may end long after
        // the turn, does not make the others slow.
        round.took = match workload {
            Workload::Contended => longest,
            _ if pace > 0.0 => Duration::from_secs_f64(round.latency.count() as f64 / pace),
            _ => Duration::ZERO,
        };
        round
    }

    /// All of them as one.
    pub(super) fn sum(rounds: &[Self]) -> Self {
        let mut sum = Self::default();
        for round in rounds {
            sum.latency.add(&round.latency);
            sum.gap.add(&round.gap);
            sum.took += round.took;
            sum.shares.resize(sum.shares.len().max(round.shares.len()), 0);
            sum.shares.iter_mut().zip(&round.shares).for_each(|(all, share)| *all += share);
        }
        sum
    }

    /// So many per second.
    pub(super) fn rate(&self) -> f64 {
        per_second(self.latency.count(), self.took)
    }

    /// Hand-overs to another client, per second.
    pub(super) fn hand_overs(&self) -> f64 {
        per_second(self.gap.count(), self.took)
    }

    /// Jain's index of what each client had: 1 if all had the same, one part of their number if one had all.
    pub(super) fn fairness(&self) -> Option<f64> {
        let square = |share: &u64| (*share as f64) * (*share as f64);
        let (sum, squares) = (self.shares.iter().sum::<u64>() as f64, self.shares.iter().map(square).sum::<f64>());
        (squares > 0.0).then(|| sum * sum / (self.shares.len() as f64 * squares))
    }
}

fn per_second(count: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { count as f64 / took.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(shares: &[u64]) -> Option<f64> {
        Round { shares: shares.to_vec(), ..Round::default() }.fairness()
    }

    #[test]
    fn fairness_is_one_if_all_had_the_same_and_a_part_if_one_had_all() {
        assert_eq!(shared(&[7, 7, 7, 7]), Some(1.0));
        assert_eq!(shared(&[9, 0, 0, 0]), Some(0.25));
        assert_eq!(shared(&[0, 0]), None);
    }

    #[test]
    fn one_client_that_ends_late_does_not_make_the_others_slow() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let tally = |count: u64, seconds: u32| {
            let mut tally = Tally { last: Some(began + seconds * second), ..Tally::default() };
            (0..count).for_each(|_| tally.latency.record(second));
            tally
        };
        let tallies = [tally(100, 1), tally(100, 1), tally(100, 100), Tally::default()];
        let rate = |workload| Round::of(workload, began, &tallies).rate();
        assert!((rate(Workload::Parallel) - 201.0).abs() < 1e-3);
        assert!((rate(Workload::Contended) - 3.0).abs() < 1e-3);
        assert_eq!(Round::of(Workload::Single, began, &[Tally::default()]).rate(), 0.0);
    }

    #[test]
    fn rounds_add_up() {
        let mut round = Round { took: Duration::from_secs(2), shares: vec![1, 3], ..Round::default() };
        (0..4).for_each(|_| round.latency.record(Duration::from_millis(1)));
        let sum = Round::sum(&[round.clone(), round]);
        assert_eq!((sum.latency.count(), sum.took, sum.shares.clone()), (8, Duration::from_secs(4), vec![2, 6]));
        assert!((sum.rate() - 2.0).abs() < 1e-9);
        assert_eq!(Round::default().rate(), 0.0);
    }
}
