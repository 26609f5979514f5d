//! Far more tasks than the servers can answer at once, with the settings that everybody gets: a queue must cost nothing but
//! time. A contest in which one call fails is no measurement, so a row with a figure had no error.

use std::time::Duration;

use crate::contest::Contest;
use crate::figures::{CLIENT, Figure, RATE, REQUESTS};
use crate::kinds::OURS_BY_DEFAULT;
use crate::nodes::Nodes;
use crate::runner::{Goal, Readings, Row, Workload, no_work};

/// Long enough for each of the crowd to have several turns.
const LENGTH: Duration = Duration::from_secs(3);
const FEW: usize = 256;
const CROWD: usize = 4096;
const TOLD: [&Figure; 3] = [&RATE, &REQUESTS, &CLIENT];

fn name(tasks: usize, figure: &Figure) -> String {
    format!("{}, {tasks} tasks, {}", OURS_BY_DEFAULT.name, figure.what)
}

fn rows() -> Vec<Row> {
    let row = |tasks: usize, figure: &Figure| {
        let row = Row::new(name(tasks, figure), figure.unit);
        match (tasks, figure.what) {
            (CROWD, "pairs") => row.goal(Some(Goal::RatioAtLeast(0.95))).against(name(FEW, figure)),
            (CROWD, "requests per pair and node") => row.goal(Some(Goal::AtMost(2.01))),
            (CROWD, _) => row.against(name(FEW, figure)),
            _ => row,
        }
    };
    [FEW, CROWD].into_iter().flat_map(|tasks| TOLD.map(|figure| row(tasks, figure))).collect()
}

pub(crate) const WORKLOAD: Workload = Workload {
    name: "crowd",
    about: "Acquire + release on free locks by 4,096 tasks at once, a majority of five Redis servers.",
    rounds: 7,
    rows,
    prepare: |_| {
        let nodes = Nodes::start(5, "")?;
        Ok(Box::new(move |readings: &mut Readings| {
            for tasks in [FEW, CROWD] {
                let story = Contest::uncontended(&OURS_BY_DEFAULT, tasks, LENGTH).run(&nodes)?;
                TOLD.iter().for_each(|figure| readings.note(name(tasks, figure), (figure.of)(&story)));
            }
            Ok(())
        }))
    },
    work: no_work,
};
