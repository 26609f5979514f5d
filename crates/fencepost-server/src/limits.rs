//! What clients may ask for.

use std::time::Duration;

use fencepost_core::{Guarantees, Invalid};

use crate::bucket::Rate;
use crate::claim::TTL_MS;
use crate::problem::Problem;

/// The longest lease of a store that knows no limit, with its lock delay.
const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What clients may ask for. Beyond it they are refused with a 4xx; nothing of theirs is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a body. Default 16 KiB.
    pub body: usize,
    /// Bytes of a body that carries a record. Default 1 MiB: the largest record, as base64.
    pub record_body: usize,
    /// The longest ttl. Default 1 h; the store may take less.
    pub ttl: Duration,
    /// The longest wait of one request. Default 5 min.
    pub wait: Duration,
    /// Open connections. Default 4096.
    pub connections: usize,
    /// Requests at a time on one connection of HTTP/2. Default 256.
    pub streams: u32,
    /// Bytes of a request's head. Default 16 KiB.
    pub head: usize,
    /// Headers of a request. Default 64.
    pub headers: usize,
    /// Requests that wait in line at this replica. Default 10,000.
    pub waiters: usize,
    /// Those of them that wait for one lock. Default 1000.
    pub waiters_per_lock: usize,
    /// Streams of events and of leaders that are open at this replica. Default 1000.
    pub watchers: usize,
    /// Locks that one principal has from this replica. Default 100,000.
    pub locks: usize,
    /// Acquisitions of one principal. Default 1000 per second and 2000 at once. Where nobody is asked who they are,
    /// there is no principal, and no rate.
    pub rate: Rate,
    /// The largest page of a listing. Default 1000.
    pub page: u32,
    /// From the start of a connection or the end of a request to the end of the next request's headers. Default 10 s for
    /// the headers themselves.
    pub header_time: Duration,
    /// From the end of the headers to the end of the body. Default 10 s.
    pub body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 * 1024,
            record_body: 1024 * 1024,
            ttl: Duration::from_secs(3600),
            wait: Duration::from_secs(300),
            connections: 4096,
            streams: 256,
            head: 16 * 1024,
            headers: 64,
            waiters: 10_000,
            waiters_per_lock: 1000,
            watchers: 1000,
            locks: 100_000,
            rate: Rate { per_second: 1000.0, burst: 2000.0 },
            page: 1000,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    pub(crate) fn ttl(&self, ms: u64) -> Result<Duration, Problem> {
        within("ttl_ms", ms, self.ttl)
    }

    /// The ttl and the lock delay of a lease that came back: nobody has checked them since. Without a ttl the default.
    pub(crate) fn lease(
        &self,
        store: &Guarantees,
        ttl_ms: Option<u64>,
        delay_ms: Option<u64>,
    ) -> Result<(Duration, Duration), Problem> {
        let (least, most) = (store.smallest_ttl, store.largest_ttl.unwrap_or(LEASE_MAX));
        let ttl = match ttl_ms {
            Some(ms) => self.ttl(ms)?,
            None => Duration::from_millis(TTL_MS).min(most),
        };
        if ttl < least || ttl > most {
            let cure = format!("this store takes {} to {}", least.as_millis(), most.as_millis());
            return Err(Invalid::new("ttl_ms", ttl.as_millis().to_string(), cure).into());
        }
        let delay = Duration::from_millis(delay_ms.unwrap_or(0));
        if delay > most - ttl {
            let cure =
                format!("at most {}: with the ttl, this store takes {}", (most - ttl).as_millis(), most.as_millis());
            return Err(Invalid::new("lock_delay_ms", delay.as_millis().to_string(), cure).into());
        }
        Ok((ttl, delay))
    }

    pub(crate) fn wait(&self, ms: u64) -> Result<Duration, Problem> {
        within("wait_ms", ms, self.wait)
    }
}

fn within(field: &'static str, ms: u64, most: Duration) -> Result<Duration, Problem> {
    let span = Duration::from_millis(ms);
    if span > most {
        let cure = format!("this service takes at most {}", most.as_millis());
        return Err(Invalid::new(field, ms.to_string(), cure).into());
    }
    Ok(span)
}
