//! The sessions of one connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::store::StoreErrorKind;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout_at};

use crate::error::Failure;
use crate::session::{News, Session};
use crate::url::Settings;

/// Stands for the length of a session that no claim uses.
const TO_READ_WITH: u64 = 0;
/// Longer than any server keeps a session.
const LONGEST: Duration = Duration::from_secs(1_000_000);

/// One session per length, shared by all claims of that length.
pub(crate) struct Sessions {
    settings: Arc<Settings>,
    news: UnboundedSender<News>,
    open: Mutex<Vec<(u64, Arc<Slot>)>>,
}

/// One length.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<(Arc<Session>, Instant)>>);

impl Sessions {
    pub(crate) fn new(settings: Arc<Settings>, news: UnboundedSender<News>) -> Self {
        Self { settings, news, open: Mutex::default() }
    }

    /// A session that outlives what is kept for so long without a word.
    pub(crate) async fn lasting(&self, kept: Duration, limit: Instant) -> Result<Arc<Session>, Failure> {
        let wanted = kept.saturating_add(self.settings.slack_for(kept));
        let seconds = wanted.as_secs().saturating_add(u64::from(wanted.subsec_nanos() > 0));
        let session = self.of_length(seconds, limit).await?;
        let need = kept.saturating_add(self.settings.slack_min());
        if session.timeout < need {
            let (negotiated, slack) = (session.timeout, self.settings.slack_min());
            let what = format!(
                "ttl: {kept:?} (with its lock_delay) is too long: the servers keep a session for {negotiated:?}"
            );
            let cure = format!(
                "use {:?} at most, which leaves {slack:?} for what servers hear late, or raise maxSessionTimeout there",
                negotiated.saturating_sub(slack)
            );
            return Err(Failure::new(StoreErrorKind::Misconfigured, what, &cure));
        }
        Ok(session)
    }

    /// Opens the longest session that the servers keep, to read with. Answers the longest ttl that leaves time for what they
    /// hear late.
    pub(crate) async fn longest(&self, limit: Instant) -> Result<Duration, Failure> {
        let opened = Session::open(&self.settings, LONGEST, self.news.clone(), limit).await?;
        let longest_ttl = opened.timeout.saturating_sub(self.settings.slack_min());
        let slot = Slot(tokio::sync::Mutex::new(Some((Arc::new(opened), Instant::now()))));
        self.slots().push((TO_READ_WITH, Arc::new(slot)));
        Ok(longest_ttl)
    }

    /// Any session, to read with.
    pub(crate) async fn any(&self, limit: Instant) -> Result<Arc<Session>, Failure> {
        let slots: Vec<Arc<Slot>> = self.slots().iter().map(|(_, slot)| slot.clone()).collect();
        for slot in slots {
            if let Ok(open) = slot.0.try_lock()
                && let Some((session, _)) = open.as_ref().filter(|(session, _)| !session.is_expired())
            {
                return Ok(session.clone());
            }
        }
        self.lasting(Duration::from_secs(3), limit).await
    }

    async fn of_length(&self, seconds: u64, limit: Instant) -> Result<Arc<Session>, Failure> {
        let slot = {
            let mut slots = self.slots();
            match slots.iter().find(|(other, _)| *other == seconds) {
                Some((_, slot)) => slot.clone(),
                None => {
                    let slot = Arc::<Slot>::default();
                    slots.push((seconds, slot.clone()));
                    slot
                }
            }
        };
        let mut open = timeout_at(limit, slot.0.lock()).await.map_err(|_| Failure::too_slow())?;
        if let Some((session, used)) = open.as_mut().filter(|(session, _)| !session.is_expired()) {
            *used = Instant::now();
            return Ok(session.clone());
        }
        let opened = Session::open(&self.settings, Duration::from_secs(seconds), self.news.clone(), limit).await?;
        let session = Arc::new(opened);
        *open = Some((session.clone(), Instant::now()));
        Ok(session)
    }

    /// Closes those that no claim uses and nobody has asked for since.
    pub(crate) async fn close_unused(&self, since: Duration) {
        let slots: Vec<Arc<Slot>> = self.slots().iter().map(|(_, slot)| slot.clone()).collect();
        for slot in slots {
            let Ok(mut open) = slot.0.try_lock() else { continue };
            let unused = open.as_ref().is_some_and(|(session, used)| {
                Arc::strong_count(session) == 1 && used.elapsed() >= since || session.is_expired()
            });
            if let Some((session, _)) = open.take_if(|_| unused) {
                session.close().await;
            }
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Arc<Slot>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
