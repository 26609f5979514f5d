//! What can go wrong with a database that keeps locks: the part that is the same for all.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_core::Blocking;
use fencepost_core::doctor::{Report, Severity, answer_within, is_enough};
use fencepost_core::store::StoreError;

use crate::database::{Database, Failure};
use crate::store::{SqlStore, on_a_thread, within};

/// All questions together may take so long.
const LOOK_WITHIN: Duration = Duration::from_secs(15);

/// A database that can be asked what it is like.
pub trait Examine: Database {
    /// Whom its locks exclude.
    fn scope(&self) -> String;
    /// Asks it, and notes what is wrong.
    fn look_at(&self, link: &mut Self::Link, report: &mut Report) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Looks at a database that keeps locks of this ttl; `open` says which. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine<D: Examine>(open: impl Fn() -> Result<D, StoreError>, ttl: Duration) -> Result<Report, StoreError> {
    let database = open()?;
    let label = database.label();
    let looked = on_a_thread(D::KIND, async move {
        let mut report = Report::new(database.scope());
        let label = database.label();
        if within(LOOK_WITHIN, look(&database, &label, ttl, &mut report)).await.is_none() {
            let evidence = format!("it had not answered all questions after {LOOK_WITHIN:?}");
            report.find(Severity::Error, "slow", &label, evidence, "see what keeps it busy");
        }
        Ok(report)
    });
    let mut report = looked.block()?;
    report.judge_use(&label, ttl, |clock| SqlStore::open(open()?, clock).block());
    Ok(report)
}

async fn look<D: Examine>(database: &D, label: &str, ttl: Duration, report: &mut Report) {
    let mut link = match database.open().await {
        Ok(link) => link,
        Err(failure) => return report.judge_refusal(label, failure.trouble()),
    };
    if let Err(failure) = database.look_at(&mut link, report).await {
        report.find(Severity::Error, "unexpected", label, failure.message, "find out what answers there");
        return;
    }
    // A server that takes no writes need not have our tables.
    if report.worst() == Some(Severity::Error) {
        return;
    }
    let mut round_trips = Vec::new();
    for number in 0.. {
        let start = Instant::now();
        let clock_us = match database.check(&mut link).await {
            Ok(clock_us) => clock_us,
            Err(failure) => {
                let cure = "`fencepost init` makes the tables, or brings them up to date";
                return report.find(Severity::Error, "schema", label, failure.message, cure);
            }
        };
        let took = start.elapsed();
        // The first one warms up.
        if number == 1 {
            let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(took / 2);
            let ours_us = i64::try_from(ours.as_micros()).unwrap_or(i64::MAX);
            report.judge_clock(label, clock_us.saturating_sub(ours_us) / 1000, took);
        }
        if number > 0 {
            round_trips.push(took);
        }
        if is_enough(&round_trips) {
            break;
        }
    }
    report.judge_latency(label, round_trips, answer_within(ttl), ttl);
}
