//! What can go wrong with an etcd cluster that keeps locks.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_core::doctor::{Report, Severity, answer_within, apart, is_enough, shown};
use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::error::Failure;
use crate::proto::{
    AlarmResponse, LeaseGrantRequest, LeaseGrantResponse, MemberListResponse, Question, RangeRequest, RangeResponse,
    StatusResponse,
};
use crate::store::Etcd;
use crate::url::Settings;

/// An answer may take so long.
const WITHIN: Duration = Duration::from_secs(3);

/// Looks at the cluster of `SCHEME:REST`, which keeps locks of this ttl. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    let wrong = |invalid: fencepost_core::Invalid| {
        StoreError::new(StoreErrorKind::Misconfigured, "examine", invalid.to_string())
    };
    let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "examine", what);
    let settings = Settings::parse(scheme, rest).map_err(wrong)?;
    let looking = settings.clone();
    let mut report = apart(move || {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| unexpected(error.to_string()))?;
        runtime.block_on(look(looking, ttl))
    })?;
    let label = settings.label();
    report.judge_use(&label, ttl, |clock| Etcd::open(settings, clock).block());
    Ok(report)
}

/// What a member said of itself.
struct Seen {
    /// Its place in the URL.
    turn: usize,
    place: String,
    status: StatusResponse,
}

async fn look(settings: Settings, ttl: Duration) -> Result<Report, StoreError> {
    let scope = format!("every process that uses this cluster, with the prefix {:?}", settings.prefix);
    let mut report = Report::new(scope);
    let (servers, has_user, label) = (settings.servers.clone(), settings.user.is_some(), settings.label());
    let tls = settings.tls;
    let client = Client::new(settings)
        .map_err(|invalid| StoreError::new(StoreErrorKind::Misconfigured, "examine", invalid.to_string()))?;
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for (turn, place) in servers.iter().enumerate() {
        match asked::<StatusResponse>(&client, turn, "/etcdserverpb.Maintenance/Status").await {
            Ok(status) => {
                report.fact(place, "version", format!("etcd {}", status.version));
                judge_member(place, &status, &mut report);
                // Without a leader nothing is confirmed, which is told already.
                if status.leader != 0 {
                    judge_way(&client, turn, place, has_user, ttl, &mut report).await;
                }
                seen.push(Seen { turn, place: place.clone(), status });
            }
            Err(trouble) if trouble.message.contains("no leader") => no_leader(place, &mut report),
            Err(trouble) => missing.push((place.clone(), trouble)),
        }
    }
    report.judge_missing(missing, !seen.is_empty());
    judge_cluster(&client, &seen, servers.len(), &mut report).await;
    judge_access(&servers, has_user, tls, &label, &mut report);
    if let Some(first) = seen.first().filter(|_| report.worst() != Some(Severity::Error)) {
        judge_grain(&client, first.turn, &label, ttl, &mut report).await;
    }
    Ok(report)
}

async fn asked<A: prost::Message + Default + 'static>(
    client: &Client,
    turn: usize,
    path: &'static str,
) -> Result<A, Trouble> {
    match timeout(WITHIN, client.send::<_, A>(turn, path, Question {})).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(Failure::of(&status, &client.label()).trouble()),
        Err(_) => Err(Failure::too_slow(&client.label()).trouble()),
    }
}

fn no_leader(place: &str, report: &mut Report) {
    let cure = "start the other members: nothing is granted or renewed without a majority";
    report.find(Severity::Error, "no-leader", place, "it sees no leader", cure);
}

fn judge_member(place: &str, status: &StatusResponse, report: &mut Report) {
    if status.leader == 0 {
        no_leader(place, report);
    }
    if status.is_learner {
        let cure = "promote it (`etcdctl member promote`), or name another member";
        report.find(Severity::Error, "learner", place, "it is a learner, which takes no requests of clients", cure);
    }
}

/// How long a read takes that a majority has to confirm.
async fn judge_way(client: &Client, turn: usize, place: &str, has_user: bool, ttl: Duration, report: &mut Report) {
    if has_user && let Err(failure) = client.introduce(turn, Instant::now() + WITHIN).await {
        return report.judge_refusal(place, failure.trouble());
    }
    let mut round_trips = Vec::new();
    while !is_enough(&round_trips) {
        let question = RangeRequest { key: vec![0], limit: 1, keys_only: true, ..RangeRequest::default() };
        let start = std::time::Instant::now();
        // Whether we may read that does not matter here: the trial tells what we may do.
        let sent = client.send::<_, RangeResponse>(turn, "/etcdserverpb.KV/Range", question);
        if timeout(WITHIN, sent).await.is_err() {
            return report.judge_refusal(place, Failure::too_slow(place).trouble());
        }
        round_trips.push(start.elapsed());
    }
    report.judge_latency(place, round_trips, answer_within(ttl), ttl);
}

async fn judge_cluster(client: &Client, seen: &[Seen], named: usize, report: &mut Report) {
    let Some(first) = seen.first() else { return };
    let id = |seen: &Seen| seen.status.sender.map(|sender| sender.cluster_id);
    for other in &seen[1..] {
        if id(other) != id(first) {
            let evidence = format!("it belongs to another cluster than {}", first.place);
            report.find(
                Severity::Error,
                "different-clusters",
                &other.place,
                evidence,
                "name the members of one cluster",
            );
        }
    }
    let twins: Vec<u64> = seen.iter().filter_map(|seen| seen.status.sender).map(|sender| sender.member_id).collect();
    if twins.iter().collect::<BTreeSet<_>>().len() < twins.len() {
        let evidence = "one member is named twice";
        report.find(Severity::Notice, "same-server", &first.place, evidence, "name each member once");
    }
    // Any of them tells what is so of all; one that is gone would tell nothing.
    let turn = first.turn;
    if let Ok(AlarmResponse { alarms }) = asked(client, turn, "/etcdserverpb.Maintenance/Alarm").await {
        let kinds: BTreeSet<i32> = alarms.into_iter().map(|alarm| alarm.alarm).collect();
        for kind in kinds {
            let (evidence, cure) = match kind {
                1 => ("NOSPACE: it takes no writes", "compact, defragment, then `etcdctl alarm disarm`"),
                2 => ("CORRUPT: members do not agree about their data", "replace the member that is wrong"),
                _ => ("an alarm of another kind", "see `etcdctl alarm list`"),
            };
            report.find(Severity::Error, "alarm", &first.place, evidence, cure);
        }
    }
    if let Ok(MemberListResponse { members }) = asked(client, turn, "/etcdserverpb.Cluster/MemberList").await {
        let voters = members.iter().filter(|member| !member.is_learner).count();
        report.fact(&first.place, "members", format!("{voters} vote, {} learn", members.len() - voters));
        match voters {
            1 => {
                let evidence = "it is alone: without it no lock is granted or renewed";
                report.find(Severity::Warning, "one-server", &first.place, evidence, "run three members, or five");
            }
            _ if voters.is_multiple_of(2) => {
                let evidence =
                    format!("{voters} members survive the loss of {}, as {} would", (voters - 1) / 2, voters - 1);
                report.find(Severity::Warning, "even", &first.place, evidence, "run an odd number of members");
            }
            _ => {}
        }
        if named < voters {
            let evidence = format!("the URL names {named} of {voters} members: we do not find the others without them");
            report.find(Severity::Notice, "not-all-named", &first.place, evidence, "name all members");
        }
    }
}

fn judge_access(servers: &[String], has_user: bool, tls: bool, label: &str, report: &mut Report) {
    let here =
        servers.iter().all(|server| ["127.", "localhost:", "[::1]"].iter().any(|start| server.starts_with(start)));
    if has_user && !tls && !here {
        let evidence = "the password goes over the network in clear text";
        report.find(Severity::Warning, "clear-text", label, evidence, "use TLS: etcd+tls://");
    }
    if !has_user && !tls {
        let severity = if here { Severity::Notice } else { Severity::Warning };
        let evidence = "it is used without user and certificate: any client that reaches it can end any lock";
        report.find(severity, "no-auth", label, evidence, "`etcdctl auth enable`, or certificates of clients");
    }
}

/// etcd rounds leases up to what its elections take.
async fn judge_grain(client: &Client, turn: usize, label: &str, ttl: Duration, report: &mut Report) {
    let (path, request) = ("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl: 1, id: 0 });
    let sent = client.send::<_, LeaseGrantResponse>(turn, path, request);
    let Ok(Ok(granted)) = timeout(WITHIN, sent).await else { return };
    let _ = client.revoke(granted.id, Instant::now() + WITHIN).await;
    let grain = Duration::from_secs(granted.ttl.unsigned_abs());
    report.fact(label, "shortest lease", shown(grain));
    if ttl < grain {
        let evidence =
            format!("the shortest lease is {}: a lock of a process that died stays for that long", shown(grain));
        let cure = "choose a ttl of that length, or shorten --election-timeout of the members";
        report.find(Severity::Warning, "lease-grain", label, evidence, cure);
    }
}
