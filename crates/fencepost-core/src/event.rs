//! What happened: for logs, metrics, dashboards, and to check a history.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::error::{LossReason, NodeVote, ReleaseOutcome, StoreError};
use crate::foreign::{self, Audience, Queue};
use crate::state::YieldRequest;
use crate::token::FencingToken;

/// Something that happened to one acquisition.
///
/// Both ends of an acquire and of a release are events ([`Asked`](EventKind::Asked) … [`Acquired`](EventKind::Acquired),
/// [`Releasing`](EventKind::Releasing) … [`Released`](EventKind::Released)), so that a history can be checked from
/// events alone.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Since connecting, on a clock that counts sleep.
    pub at: Duration,
    /// The lock.
    pub name: String,
    /// Joins the events of one acquisition.
    pub claim: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// An acquisition began.
    Asked,
    /// Others have it; this claim is in line.
    Waiting,
    /// The store cannot decide now, and this claim waits for it: told when that begins, and whenever the cause changes. With
    /// an empty name and claim 0 it is a connection that waits
    /// ([`Connect::wait_for_store`](crate::Connect::wait_for_store)).
    WaitingForStore(Box<StoreError>),
    /// The lock is held.
    #[non_exhaustive]
    Acquired {
        /// The token of the hold; for a reader the number behind the `r`.
        token: FencingToken,
        /// Until validity ends.
        remaining: Duration,
        /// Its place in line, about when it arrived on the store's clock; `None` if the store did not put it in line.
        /// Grants follow tokens and the line follows tickets, so whoever collects these counts the *inversions* of a lock:
        /// of two that waited, one with the lower ticket and the higher token was overtaken. Nodes that vote allow it, see
        /// [`Lock::acquire`](crate::Lock::acquire).
        ticket: Option<FencingToken>,
    },
    /// The acquisition ended without the lock.
    Refused,
    /// The lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// How long after the planned time.
        late: Duration,
        /// Until validity ends.
        remaining: Duration,
    },
    /// A renewal got no answer; the old deadline stands.
    #[non_exhaustive]
    RenewalUnknown {
        /// Until validity ends.
        remaining: Duration,
    },
    /// The hold is a reader's from here on: other readers may come in.
    Downgraded,
    /// Somebody asks for the lock: once per request.
    YieldRequested(YieldRequest),
    /// The hold ended unasked.
    Lost(LossReason),
    /// A release is on its way.
    Releasing,
    /// A release was answered.
    Released(ReleaseOutcome),
    /// Nobody confirmed a release until the lease was over.
    ReleaseUnknown,
    /// A node answered an acquire.
    Voted(NodeVote),
    /// A slow reader of a [`Feed`], or a slow [`Observer`], missed so many events.
    #[non_exhaustive]
    Missed {
        /// How many.
        events: u64,
    },
}

/// Is told of every event, in the order in which they happened. Any `Fn(&Event)` is one.
///
/// It is called on a thread that does nothing but this and the [log lines](foreign) of the library, a moment after the
/// event. No lock waits for it: an observer that blocks only delays what all observers of the process hear. At most
/// [`QUEUE_MAX`](foreign::QUEUE_MAX) events and log lines wait; of what finds no room it is told the number, as
/// [`EventKind::Missed`].
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// Items as they come; also a `Stream`. A slow reader of events misses some and is told; no lock waits for it.
pub struct Feed<T> {
    source: Source<T>,
}

enum Source<T> {
    Ring(Arc<Ring<T>>),
    Pages(Pages<T>),
    Endless(Endless<T>),
}

type Item<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type FetchItem<T> = Box<dyn Fn(Option<&T>) -> Item<T> + Send>;

struct Endless<T> {
    last: Option<T>,
    /// Fetches the item after this one.
    fetch: FetchItem<T>,
    under_way: Item<T>,
}

type Page<T> = Result<(Vec<T>, bool), StoreError>;
type NextPage<T> = Pin<Box<dyn Future<Output = Page<T>> + Send>>;
type Fetch<T> = Box<dyn Fn(Option<&T>) -> NextPage<T> + Send>;

struct Pages<T> {
    ready: VecDeque<T>,
    /// Fetches the page after this item.
    fetch: Fetch<T>,
    under_way: Option<NextPage<T>>,
}

impl<T: Clone> Feed<T> {
    /// A listing that is fetched page by page; `true` beside a page: there are more.
    pub(crate) fn pages(fetch: impl Fn(Option<&T>) -> NextPage<T> + Send + 'static) -> Self {
        let under_way = Some(fetch(None));
        Self { source: Source::Pages(Pages { ready: VecDeque::new(), fetch: Box::new(fetch), under_way }) }
    }

    /// Items one by one, each fetched after the last; an error does not end them.
    pub(crate) fn endless(fetch: impl Fn(Option<&T>) -> Item<T> + Send + 'static) -> Self {
        let under_way = fetch(None);
        Self { source: Source::Endless(Endless { last: None, fetch: Box::new(fetch), under_way }) }
    }

    /// The next item; `None`: that was all.
    pub async fn next(&mut self) -> Option<Result<T, StoreError>> {
        poll_fn(|context| self.poll_item(context)).await
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, StoreError>>> {
        match &mut self.source {
            Source::Ring(ring) => ring.poll(context).map(|item| item.map(Ok)),
            Source::Pages(pages) => pages.poll(context),
            Source::Endless(endless) => endless.poll(context).map(Some),
        }
    }
}

impl<T: Clone> Endless<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, StoreError>> {
        let item = std::task::ready!(self.under_way.as_mut().poll(context));
        if let Ok(item) = &item {
            self.last = Some(item.clone());
        }
        self.under_way = (self.fetch)(self.last.as_ref());
        Poll::Ready(item)
    }
}

impl<T: Clone> Pages<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, StoreError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(page) = &mut self.under_way else { return Poll::Ready(None) };
            let answer = std::task::ready!(page.as_mut().poll(context));
            self.under_way = None;
            match answer {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok((items, more)) => {
                    self.under_way = (more && !items.is_empty()).then(|| (self.fetch)(items.last()));
                    self.ready.extend(items);
                }
            }
        }
    }
}

impl<T: Clone + Unpin> futures_core::Stream for Feed<T> {
    type Item = Result<T, StoreError>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(context)
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

/// How many events a slow reader may be behind.
const RING_MAX: usize = 4096;

struct Ring<T> {
    inner: Mutex<RingInner<T>>,
}

struct RingInner<T> {
    items: VecDeque<T>,
    missed: u64,
    missed_item: fn(u64) -> T,
    closed: bool,
    waker: Option<Waker>,
}

impl<T> Ring<T> {
    fn inner(&self) -> MutexGuard<'_, RingInner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers whom to wake.
    fn push(&self, item: T) -> Option<Waker> {
        let mut inner = self.inner();
        let oldest = if inner.items.len() == RING_MAX { inner.items.pop_front() } else { None };
        inner.missed += u64::from(oldest.is_some());
        inner.items.push_back(item);
        inner.waker.take()
    }

    /// Answers whom to wake.
    fn close(&self) -> Option<Waker> {
        let mut inner = self.inner();
        inner.closed = true;
        inner.waker.take()
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned and dropped outside the mutex: a waker is the user's code.
        let mut waker = Some(context.waker().clone());
        let mut inner = self.inner();
        if inner.missed > 0 {
            let missed = (inner.missed_item)(inner.missed);
            inner.missed = 0;
            return Poll::Ready(Some(missed));
        }
        match inner.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if inner.closed => Poll::Ready(None),
            None => {
                std::mem::swap(&mut inner.waker, &mut waker);
                Poll::Pending
            }
        }
    }
}

/// Tells observers, feeds and `tracing`.
pub(crate) struct Herald {
    clock: Clock,
    started: Moment,
    audience: Arc<Audience>,
    feeds: Mutex<Vec<Weak<Ring<Event>>>>,
    /// Of a connection whose time is virtual. All others share one, which has a thread.
    own_queue: Option<Queue>,
}

impl Herald {
    pub(crate) fn new(clock: Clock, observers: Vec<Arc<dyn Observer>>) -> Self {
        let started = clock.now();
        let own_queue = (!clock.runs_by_itself()).then(Queue::default);
        Self { clock, started, audience: Audience::new(observers), feeds: Mutex::default(), own_queue }
    }

    fn queue(&self) -> &Queue {
        self.own_queue.as_ref().unwrap_or_else(|| Queue::of_process())
    }

    pub(crate) fn feed(&self) -> Feed<Event> {
        let inner = RingInner { items: VecDeque::new(), missed: 0, missed_item: missed, closed: false, waker: None };
        let ring = Arc::new(Ring { inner: Mutex::new(inner) });
        let mut feeds = self.feeds();
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.push(Arc::downgrade(&ring));
        Feed { source: Source::Ring(ring) }
    }

    fn feeds(&self) -> MutexGuard<'_, Vec<Weak<Ring<Event>>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody would hear.
    pub(crate) fn has_audience(&self) -> bool {
        !self.audience.observers.is_empty() || !self.feeds().is_empty()
    }

    /// Notes an event: it is in every feed, and on its way to observers and `tracing`. Answers whom to wake once the
    /// caller has no mutex and has sent what it has to send; [`deliver`](Self::deliver) belongs there, too.
    #[must_use]
    pub(crate) fn note(&self, name: &str, claim: u64, kind: EventKind) -> Vec<Waker> {
        let traced = foreign::is_wanted(foreign::level(&kind));
        if !traced && !self.has_audience() {
            return Vec::new();
        }
        let event = Event { at: self.clock.now().since(self.started), name: name.to_owned(), claim, kind };
        let feeds: Vec<_> = self.feeds().iter().filter_map(Weak::upgrade).collect();
        let wakers = feeds.iter().filter_map(|feed| feed.push(event.clone())).collect();
        if traced || !self.audience.observers.is_empty() {
            self.queue().put_event(&self.audience, event, traced);
        }
        wakers
    }

    /// Has what was noted told to those who are not ours.
    pub(crate) fn deliver(&self) {
        match &self.own_queue {
            Some(queue) => queue.tell_here(),
            None => Queue::of_process().rouse(),
        }
    }

    /// Resolves when everything that was noted was told.
    pub(crate) async fn told(&self) {
        if self.own_queue.is_none() {
            foreign::told().await;
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        let feeds: Vec<_> = self.feeds().iter().filter_map(Weak::upgrade).collect();
        foreign::wake(feeds.iter().filter_map(|feed| feed.close()));
        if !self.audience.observers.is_empty() {
            // Nothing of it stays here: the thread that calls observers drops them, too.
            let audience = std::mem::replace(&mut self.audience, Audience::new(Vec::new()));
            self.queue().put_end(audience);
            self.deliver();
        }
    }
}

/// What somebody is told who missed so many events.
pub(crate) fn missed(events: u64) -> Event {
    Event { at: Duration::ZERO, name: String::new(), claim: 0, kind: EventKind::Missed { events } }
}
