//! Requests to a cluster: to one member at a time, to the next if it does not answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::Invalid;
use fencepost_core::store::StoreErrorKind;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error::{Failure, Sense};
use crate::proto::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseId, LeaseRevokeResponse,
    LeaseTtl, RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use crate::pulse::Pulse;
use crate::tls;
use crate::url::Settings;

/// Where there are several members, one is given at least and at most so long before the next is asked.
const TRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// The pauses between tries grow from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(150));
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Pings on a connection that something waits on; etcd throws out who sends more than one in 5 s.
const PING: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(3));
/// A listing of many locks may be so long.
const ANSWER_MAX: usize = 64 << 20;

/// What was answered, and whether it is certain that nothing of it is still on its way.
pub(crate) struct Said<T> {
    pub(crate) answer: T,
    /// It was sent once. Else an earlier try may run at any time.
    pub(crate) once: bool,
}

/// A cluster.
pub(crate) struct Client {
    settings: Settings,
    endpoints: Vec<Endpoint>,
    channels: Mutex<Vec<Channel>>,
    /// Which member is asked; it counts on for ever.
    turn: watch::Sender<usize>,
    pulse: Pulse,
    /// What shows who we are, if somebody wants to know.
    ticket: Mutex<Option<String>>,
}

impl Client {
    /// Connects to nothing yet. Must be called on a runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, Invalid> {
        let endpoints = settings.servers.iter().map(|server| {
            let scheme = if settings.tls { "https" } else { "http" };
            let cure = "write HOST:PORT, or several, joined by commas";
            let endpoint = Endpoint::from_shared(format!("{scheme}://{server}"))
                .map_err(|error| Invalid::new("store", server, format!("{cure}: {error}")))?
                .connect_timeout(CONNECT_WITHIN)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING.0)
                .keep_alive_timeout(PING.1);
            tls::dress(endpoint, &settings, server)
        });
        let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_, _>>()?;
        let channels = endpoints.iter().map(Endpoint::connect_lazy).collect();
        let (turn, _) = watch::channel(0);
        Ok(Self {
            settings,
            endpoints,
            channels: Mutex::new(channels),
            turn,
            pulse: Pulse::default(),
            ticket: Mutex::default(),
        })
    }

    /// How people know it.
    pub(crate) fn label(&self) -> String {
        self.settings.label()
    }

    /// Tells when another member is asked than before.
    pub(crate) fn turns(&self) -> watch::Receiver<usize> {
        self.turn.subscribe()
    }

    /// Finds a member that speaks with us, each asked once: an address that is wrong is said at once. Whether it sees a
    /// leader is for the first request to find out.
    pub(crate) async fn greet(&self) -> Result<(), Failure> {
        let mut result = Ok(());
        for turn in 0..self.endpoints.len() {
            // Whatever it answers, it does answer.
            let question = RangeRequest { key: vec![0], limit: 1, keys_only: true, ..RangeRequest::default() };
            let sent = self.send::<_, RangeResponse>(turn, "/etcdserverpb.KV/Range", question);
            result = match timeout(CONNECT_WITHIN, sent).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(status)) if is_theirs(&status) => return Ok(()),
                Ok(Err(status)) => Err(Failure::of(&status, &self.label())),
                Err(_) => Err(Failure::too_slow(&self.label())),
            };
            self.leave(turn);
        }
        result
    }

    pub(crate) async fn txn(&self, txn: TxnRequest, limit: Instant) -> Result<Said<TxnResponse>, Failure> {
        self.ask("/etcdserverpb.KV/Txn", txn, limit).await
    }

    /// The same, sent once: for what must not run twice.
    pub(crate) async fn txn_once(&self, txn: TxnRequest, limit: Instant) -> Result<TxnResponse, Failure> {
        let turn = *self.turn.borrow();
        for introduced in [false, true] {
            let left = limit.saturating_duration_since(Instant::now());
            let failure = match timeout(left, self.send(turn, "/etcdserverpb.KV/Txn", txn.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => Failure::of(&status, &self.label()),
                Err(_) => Failure::too_slow(&self.label()),
            };
            if failure.sense == Sense::Passing {
                self.leave(turn);
            }
            if introduced || failure.sense != Sense::Introduce {
                return Err(failure);
            }
            self.introduce(turn, limit).await?;
        }
        Err(Failure::too_slow(&self.label()))
    }

    pub(crate) async fn range(&self, range: RangeRequest, limit: Instant) -> Result<RangeResponse, Failure> {
        Ok(self.ask("/etcdserverpb.KV/Range", range, limit).await?.answer)
    }

    /// A lease of at least so many seconds, under a number of ours: asked for twice, it is the same.
    pub(crate) async fn grant(&self, id: i64, ttl: i64, limit: Instant) -> Result<(), Failure> {
        let request = LeaseGrantRequest { ttl, id };
        match self.ask::<_, LeaseGrantResponse>("/etcdserverpb.Lease/LeaseGrant", request, limit).await {
            Err(failure) if failure.sense == Sense::LeaseThere => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Ends a lease: its keys are gone, and nothing can be put under it any more.
    pub(crate) async fn revoke(&self, id: i64, limit: Instant) -> Result<(), Failure> {
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        match self.ask::<_, LeaseRevokeResponse>(path, LeaseId { id }, limit).await {
            Err(failure) if failure.sense == Sense::LeaseGone => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Lets a lease start anew. `false`: there is none.
    pub(crate) async fn keep_alive(&self, id: i64, limit: Instant) -> Result<bool, Failure> {
        let said = self.persist(limit, |turn| self.pulse.beat(turn, id, move |ids| self.open_pulse(turn, ids)));
        Ok(said.await?.answer.ttl > 0)
    }

    fn open_pulse(
        &self,
        turn: usize,
        ids: UnboundedReceiverStream<LeaseId>,
    ) -> impl Future<Output = Result<Streaming<LeaseTtl>, Status>> + Send + 'static {
        let (channel, request) = (self.channel(turn), self.dressed(ids));
        async move {
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            Ok(ready(channel).await?.streaming(request, path, ProstCodec::default()).await?.into_inner())
        }
    }

    /// How long a lease has left, in seconds; below 0: there is none.
    pub(crate) async fn time_left(&self, id: i64, limit: Instant) -> Result<i64, Failure> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        Ok(self.ask::<_, LeaseTtl>(path, LeaseId { id }, limit).await?.answer.ttl)
    }

    /// Opens a stream of watches at the member whose turn it is.
    pub(crate) async fn watch(
        &self,
        requests: UnboundedReceiverStream<WatchRequest>,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let turn = *self.turn.borrow();
        let opened = async {
            let request = self.dressed(requests);
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            Ok(ready(self.channel(turn)).await?.streaming(request, path, ProstCodec::default()).await?.into_inner())
        };
        match timeout(CONNECT_WITHIN, opened).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(status)) => {
                let failure = Failure::of(&status, &self.label());
                if failure.sense == Sense::Introduce {
                    self.introduce(turn, Instant::now() + CONNECT_WITHIN).await?;
                } else {
                    self.leave(turn);
                }
                Err(failure)
            }
            Err(_) => {
                self.leave(turn);
                Err(Failure::too_slow(&self.label()))
            }
        }
    }

    /// Gets a new ticket, for a stream that was refused with the old one. If that fails, the next request finds out why.
    pub(crate) async fn introduce_anew(&self) {
        if self.settings.user.is_some() {
            let turn = *self.turn.borrow();
            let _ = self.introduce(turn, Instant::now() + CONNECT_WITHIN).await;
        }
    }

    /// Asks until there is an answer or no time left. Every request of ours may run twice: see `steps`.
    async fn ask<Q, A>(&self, path: &'static str, request: Q, limit: Instant) -> Result<Said<A>, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.persist(limit, |turn| self.send(turn, path, request.clone())).await
    }

    /// Tries with one member after the other, until there is an answer or no time left.
    async fn persist<A, F: Future<Output = Result<A, Status>>>(
        &self,
        limit: Instant,
        ask: impl Fn(usize) -> F,
    ) -> Result<Said<A>, Failure> {
        let (mut once, mut pause, mut introduced) = (true, PAUSE.0, false);
        loop {
            let turn = *self.turn.borrow();
            let left = limit.saturating_duration_since(Instant::now());
            let patience = match self.endpoints.len() {
                1 => left,
                _ => (left / 2).clamp(TRY.0, TRY.1).min(left),
            };
            let failure = match timeout(patience, ask(turn)).await {
                Ok(Ok(answer)) => return Ok(Said { answer, once }),
                Ok(Err(status)) => Failure::of(&status, &self.label()),
                Err(_) => Failure::too_slow(&self.label()),
            };
            match failure.sense {
                Sense::Passing => {
                    once = false;
                    self.leave(turn);
                }
                Sense::Introduce if self.settings.user.is_some() && !introduced => {
                    introduced = true;
                    self.introduce(turn, limit).await?;
                    continue;
                }
                _ => return Err(failure),
            }
            if Instant::now() + pause >= limit {
                return Err(failure);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    pub(crate) async fn send<Q, A>(&self, turn: usize, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (mut grpc, path) = (ready(self.channel(turn)).await?, PathAndQuery::from_static(path));
        Ok(grpc.unary(self.dressed(request), path, ProstCodec::default()).await?.into_inner())
    }

    fn channel(&self, turn: usize) -> Channel {
        self.channels()[turn % self.endpoints.len()].clone()
    }

    fn dressed<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let headers: &mut MetadataMap = request.metadata_mut();
        // A member that has lost its leader says so at once.
        headers.insert("hasleader", "true".parse().expect("BUG: plain text"));
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(ticket) = ticket.and_then(|ticket| ticket.parse().ok()) {
            headers.insert("token", ticket);
        }
        request
    }

    /// Says who we are; what shows it is good for some minutes.
    pub(crate) async fn introduce(&self, turn: usize, limit: Instant) -> Result<(), Failure> {
        let Some((name, password)) = self.settings.user.clone() else {
            let what = format!("{} requires a user and a password", self.label());
            return Err(Failure::new(StoreErrorKind::Denied, what, "write USER:PASSWORD@ before the servers"));
        };
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let request = AuthenticateRequest { name, password };
        let sent = self.send::<_, AuthenticateResponse>(turn, "/etcdserverpb.Auth/Authenticate", request);
        let left = limit.saturating_duration_since(Instant::now());
        let answer = timeout(left, sent).await.map_err(|_| Failure::too_slow(&self.label()))?;
        let answer = answer.map_err(|status| Failure::of(&status, &self.label()))?;
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.token);
        Ok(())
    }

    /// The next member's turn, and a new connection if this one's comes again: the old one may be dead.
    fn leave(&self, turn: usize) {
        let place = turn % self.endpoints.len();
        let left = self.turn.send_if_modified(|now| {
            let ours = *now == turn;
            *now += usize::from(ours);
            ours
        });
        if left {
            self.channels()[place] = self.endpoints[place].connect_lazy();
        }
    }

    fn channels(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

/// A server said it, and not the way to it.
fn is_theirs(status: &Status) -> bool {
    status.message().contains("etcdserver") || matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated)
}
