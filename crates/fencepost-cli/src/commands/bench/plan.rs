//! What is measured for how long: checked before anything is opened.

use std::time::Duration;

use fencepost::Invalid;

use super::workload::Workload;
use crate::args::Bench;
use crate::histogram::spoken;

/// Of all workloads and stores together.
const LENGTH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// More are more threads and connections than one machine measures well.
const CLIENTS_MAX: usize = 256;
/// A turn is no shorter: what goes on at its ends would count for too much.
const TURN_MIN: Duration = Duration::from_millis(100);
/// More rounds show nothing more; turns get longer instead.
const ROUNDS_MAX: u32 = 10;

/// What is measured for how long.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    pub(super) ttl: Duration,
    pub(super) length: Duration,
    pub(super) workloads: Vec<Workload>,
    pub(super) rounds: u32,
    /// The time of one store with one workload in one round.
    pub(super) turn: Duration,
}

impl Plan {
    pub(super) fn new(arguments: &Bench, ttl: Duration, stores: u32) -> Result<Self, Invalid> {
        let clients = clients(&arguments.clients)?;
        let length = arguments.length;
        if length < LENGTH.0 || length > LENGTH.1 {
            return Err(Invalid::new("--for", humantime::format_duration(length).to_string(), "measure for 1s to 1h"));
        }
        let mut workloads = Workload::ALL.to_vec();
        if clients == 1 {
            workloads.retain(|workload| !workload.takes_several());
        }
        let turns = u32::try_from(workloads.len()).expect("BUG: four at most") * stores;
        let fit = (length / turns).as_nanos() / TURN_MIN.as_nanos();
        let rounds = u32::try_from(fit).unwrap_or(ROUNDS_MAX).clamp(1, ROUNDS_MAX);
        let turn = length / (turns * rounds);
        Ok(Self { clients, ttl, length, workloads, rounds, turn })
    }

    /// In one line.
    pub(super) fn told(&self) -> String {
        let rounds = if self.rounds == 1 { "1 round".into() } else { format!("{} rounds", self.rounds) };
        let (ttl, turn) = (humantime::format_duration(self.ttl), spoken(self.turn));
        format!("{} clients, ttl {ttl}, {rounds} with turns of {turn}", self.clients)
    }
}

fn clients(text: &str) -> Result<usize, Invalid> {
    let number = text.parse().ok().filter(|number| (1..=CLIENTS_MAX).contains(number));
    number.ok_or_else(|| Invalid::new("--clients", text, format!("a number from 1 to {CLIENTS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(clients: &str, seconds: u64, stores: u32) -> Result<Plan, Invalid> {
        let length = Duration::from_secs(seconds);
        let arguments = Bench { vs: None, length, clients: clients.into(), ttl: None, html: None };
        Plan::new(&arguments, Duration::from_secs(30), stores)
    }

    #[test]
    fn the_turns_of_all_rounds_take_the_time_that_was_given() {
        for (clients, seconds, stores) in [("1", 1, 1), ("8", 1, 2), ("8", 10, 1), ("256", 3600, 2)] {
            let plan = plan(clients, seconds, stores).expect("good values");
            let turns = plan.rounds * stores * u32::try_from(plan.workloads.len()).expect("few");
            let rest = plan.length - plan.turn * turns;
            assert!(rest < Duration::from_millis(1), "{plan:?}");
            assert!(plan.turn >= TURN_MIN, "{plan:?}");
            assert!((1..=ROUNDS_MAX).contains(&plan.rounds), "{plan:?}");
        }
    }

    #[test]
    fn whoever_is_alone_is_not_measured_with_others() {
        let workloads = plan("1", 1, 1).expect("good values").workloads;
        assert_eq!(workloads, [Workload::Single, Workload::Renewal]);
    }

    #[test]
    fn bad_values_are_named_with_their_cure() {
        for (clients, seconds, field) in [("0", 1, "--clients"), ("257", 1, "--clients"), ("-3", 1, "--clients")] {
            let invalid = plan(clients, seconds, 1).expect_err("too few or too many");
            assert_eq!((invalid.field, invalid.value.as_str()), (field, clients));
        }
        for seconds in [0, 3601] {
            assert_eq!(plan("8", seconds, 1).expect_err("too short or too long").field, "--for");
        }
    }
}
