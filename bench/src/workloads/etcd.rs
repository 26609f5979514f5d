//! etcd without contention and with one waiter, beside the lock that etcd itself serves and the client `etcd-client` calls.

use std::time::Duration;

use fencepost::{Blocking, connect};
use fencepost_testkit::etcd::Etcd;
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::turns;
use crate::Outcome;
use crate::process::{self, now};
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const PAIR: &str = "acquire + release, p50";
const PAIR_P99: &str = "acquire + release, p99";
const THEIRS: &str = "etcd's own lock, under a lease that is there, p50";
const THEIRS_P99: &str = "etcd's own lock, under a lease that is there, p99";
const HAND_OVER: &str = "hand-over, 2 processes, p50";
const HAND_OVER_P99: &str = "hand-over, 2 processes, p99";
const THEIR_HAND_OVER: &str = "hand-over of etcd's own lock, 2 processes, p50";
const THEIR_HAND_OVER_P99: &str = "hand-over of etcd's own lock, 2 processes, p99";

/// In one round both have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 20;
/// What says that a worker shall use etcd's own lock.
const PEER: &str = "peer:";

pub(crate) const WORKLOAD: Workload = Workload {
    name: "etcd",
    about: "One pair on a free lock of one server, beside the `Lock` and `Unlock` that etcd serves itself, as `etcd-client` \
            calls them. From calling `release` to the return of the next process's `acquire`, for both.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(THEIRS),
            Row::new(PAIR_P99, Unit::Nanos).against(THEIRS_P99),
            Row::new(THEIRS, Unit::Nanos),
            Row::new(THEIRS_P99, Unit::Nanos),
            Row::new(HAND_OVER, Unit::Nanos).against(THEIR_HAND_OVER),
            Row::new(HAND_OVER_P99, Unit::Nanos).against(THEIR_HAND_OVER_P99),
            Row::new(THEIR_HAND_OVER, Unit::Nanos),
            Row::new(THEIR_HAND_OVER_P99, Unit::Nanos),
        ]
    },
    prepare,
    work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = Etcd::new().start();
    let runtime = runtime()?;
    let url = format!("etcd://{}", server.address());
    let locks = connect(&*url).block()?;
    let peer = runtime.block_on(Peer::new(&server.address()))?;
    Ok(Box::new(move |readings: &mut Readings| {
        let (mut ours, mut theirs) = (Samples::default(), Samples::default());
        for _ in 0..TURNS {
            turns::pairs(&locks, PAIRS, &mut ours)?;
            peer.pairs(&runtime, PAIRS, &mut theirs)?;
        }
        readings.note(PAIR, ours.percentile(50));
        readings.note(PAIR_P99, ours.percentile(99));
        readings.note(THEIRS, theirs.percentile(50));
        readings.note(THEIRS_P99, theirs.percentile(99));
        let gaps = turns::between_processes(WORKLOAD.name, &url)?;
        readings.note(HAND_OVER, gaps.percentile(50));
        readings.note(HAND_OVER_P99, gaps.percentile(99));
        let gaps = turns::between_processes(WORKLOAD.name, &format!("{PEER}{}", server.address()))?;
        readings.note(THEIR_HAND_OVER, gaps.percentile(50));
        readings.note(THEIR_HAND_OVER_P99, gaps.percentile(99));
        Ok(())
    }))
}

fn runtime() -> Outcome<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Takes turns with its like: through us, or by etcd's own lock.
fn work(args: &[String]) -> Outcome<()> {
    let Some(address) = args.first().and_then(|place| place.strip_prefix(PEER)) else { return turns::work(args) };
    let runtime = runtime()?;
    let peer = runtime.block_on(Peer::new(address))?;
    process::say("ready")?;
    process::await_leave()?;
    let turns = runtime.block_on(async {
        let mut turns = Vec::with_capacity(turns::TURNS);
        for _ in 0..turns::TURNS {
            let asked = now();
            let key = peer.lock("between").await?;
            let acquired = now();
            tokio::time::sleep(turns::HOLD).await;
            let released = now();
            peer.unlock(key).await?;
            turns.push((asked, acquired, released));
        }
        Outcome::Ok(turns)
    })?;
    turns.iter().try_for_each(|(asked, acquired, released)| process::say(&format!("{asked} {acquired} {released}")))
}

/// The lock that etcd serves, under one lease for all.
struct Peer {
    grpc: Grpc<Channel>,
    lease: i64,
}

impl Peer {
    async fn new(address: &str) -> Outcome<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let grpc = Grpc::new(endpoint.connect_timeout(Duration::from_secs(5)).connect().await?);
        let peer = Self { grpc, lease: 0 };
        let granted: Granted = peer.ask("/etcdserverpb.Lease/LeaseGrant", Grant { ttl: 600 }).await?;
        Ok(Self { lease: granted.id, ..peer })
    }

    async fn lock(&self, name: &str) -> Outcome<Vec<u8>> {
        let request = LockRequest { name: name.as_bytes().to_vec(), lease: self.lease };
        let locked: Locked = self.ask("/v3lockpb.Lock/Lock", request).await?;
        Ok(locked.key)
    }

    async fn unlock(&self, key: Vec<u8>) -> Outcome<()> {
        self.ask::<_, Unlocked>("/v3lockpb.Lock/Unlock", Unlock { key }).await.map(drop)
    }

    fn pairs(&self, runtime: &Runtime, count: usize, samples: &mut Samples) -> Outcome<()> {
        runtime.block_on(async {
            for _ in 0..count {
                let began = now();
                self.unlock(self.lock("pair").await?).await?;
                samples.extend([now() - began]);
            }
            Ok(())
        })
    }

    async fn ask<Q: Message + 'static, A: Message + Default + 'static>(&self, path: &'static str, ask: Q) -> Outcome<A> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        Ok(grpc.unary(tonic::Request::new(ask), PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

#[derive(Clone, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Unlock {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Unlocked {}
