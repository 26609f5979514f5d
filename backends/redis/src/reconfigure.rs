//! Puts one set of servers that vote in the place of another, while their clients go on.
//!
//! Two of three and three of five need not meet: clients of two sets at once would each find a majority. So there is a third
//! set between the two, whose clients need a majority of both; it meets either. A node tells by its marker in which sets it
//! votes, and refuses the clients of every other:
//!
//! | | the old servers | the new servers |
//! |---|---|---|
//! | before | old | |
//! | 1. prepared | old, both | both |
//! | 2. the old set is closed | both | both |
//! | 3. opened, when every old lease is over | both | both, new |
//! | 4. done | | new |
//!
//! At no time do the old and the new set vote side by side. What the old set granted alone is over in step 3; and so that
//! tokens go on rising, whatever the servers' clocks say, the last token of every lock is taken to the new servers before.
//!
//! Nothing but the markers says how far it is. So whoever runs this again goes on where it stopped, and the table read from
//! below is the way back: the same with the URLs changed over. A marker is changed only by who knows what it is, and becomes
//! another one by every change. Before a set is let vote, all those servers are changed by which the other one is known to be
//! closed: of two who pull in different directions at a time at most one gets there.

mod member;
mod plan;
mod told;

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::Invalid;
use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};

use crate::driver;
use crate::sets::{self, GONE, LEFT};
use crate::standing::Vouch;
use member::{Leases, Member};
use plan::{Names, Plan};

pub use told::{MemberState, Orders, Progress, Reconfiguration};

/// A lease of a set that was closed lasts no longer than the longest there is and so much more: what was under way.
const SLACK: Duration = Duration::from_secs(1);

/// Goes one step further from the servers of one URL to those of another, `SCHEME:REST` both. Blocks for a moment.
///
/// # Errors
/// If the URLs do not fit together, or too many servers cannot be reached. What was done stays; call it again.
pub fn reconfigure(from: (&str, &str), to: (&str, &str), orders: &Orders) -> Result<Reconfiguration, StoreError> {
    let wrong = |invalid: Invalid| refuse(StoreErrorKind::Misconfigured, invalid.to_string());
    let plan = Plan::new(from, to).map_err(wrong)?;
    plan.check_gone(&orders.gone).map_err(wrong)?;
    let mut members = plan.members()?;
    plan.judge(&mut members)?;
    let progress = plan.advance(&mut members, orders)?;
    let servers = members.iter().map(|member| plan.shown(member)).collect();
    Ok(Reconfiguration { progress, servers, warnings: plan.warnings() })
}

fn refuse(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
    StoreError::new(kind, "reconfigure", message)
}

fn failed(member: &Member, trouble: &Trouble) -> StoreError {
    refuse(trouble.kind.clone(), format!("{}: {}", member.label, trouble.message))
}

/// Does something with some of the servers.
fn each(
    members: &mut [Member],
    of: impl Fn(&Member) -> bool,
    mut act: impl FnMut(&mut Member) -> Result<(), Trouble>,
) -> Result<(), StoreError> {
    for member in members.iter_mut().filter(|member| of(member)) {
        act(member).map_err(|trouble| failed(member, &trouble))?;
    }
    Ok(())
}

/// The keys by which a server knows that it votes in this set.
fn keys(set: &str) -> String {
    let (marker, sign) = (sets::marker(false, set), sets::marker(true, set));
    if marker == sign { marker } else { format!("{marker} {sign}") }
}

fn left(set: &str) -> String {
    format!("{LEFT}{set}")
}

impl Plan {
    /// Looks at every server.
    fn members(&self) -> Result<Vec<Member>, StoreError> {
        let Names { old, new, both } = &self.names;
        let (in_old, in_new) = (&self.both.sets[0], &self.both.sets[1]);
        let look = |(at, node)| {
            Member::look_at(node, in_old.contains(&at), in_new.contains(&at), [&**old, new, both].join(";"))
        };
        let members: Vec<Member> = self.both.nodes.iter().enumerate().map(look).collect();
        for (at, member) in members.iter().enumerate() {
            let Ok(state) = &member.state else { continue };
            let same = |other: &&Member| other.state.as_ref().is_ok_and(|other| other.run == state.run);
            if let Some(twin) = members[..at].iter().find(same) {
                let message = format!(
                    "{} and {} are the same server: each must be one of its own, spelled alike in both URLs",
                    twin.label, member.label
                );
                return Err(refuse(StoreErrorKind::Misconfigured, message));
            }
            if let Some(set) = state.votes_in().find(|set| [old, new, both].iter().all(|ours| ours != set)) {
                let (label, shown, keys) = (&member.label, sets::shown(set), keys(set));
                let message = match shown.contains(" and ") {
                    true => {
                        format!("{label} takes part in another change, between {shown}: finish that first, or undo it")
                    }
                    false => format!(
                        "{label} belongs to another set: {shown}; go from that one, or name another server; if nobody uses \
                         it any more, `redis-cli del {keys}` there makes it a new one"
                    ),
                };
                return Err(refuse(StoreErrorKind::Misconfigured, message));
            }
        }
        Ok(members)
    }

    /// Whether new servers may know of locks: some server of the old set votes for clients of both, which every new one did
    /// before, or has left the old one; or nobody votes in that, and somebody in the new one.
    fn has_begun(&self, members: &[Member]) -> bool {
        let Names { old, new, both } = &self.names;
        let tells = |member: &Member| member.in_old && (member.votes_in(both) || member.has_left(old));
        let votes = |member: &Member| member.is_newcomer() && member.votes_in(new);
        members.iter().any(tells) || (!self.is_voted_in(members) && members.iter().any(votes))
    }

    /// Whether the last step has begun, before which every new server voted in the new set.
    fn is_ending(&self, members: &[Member]) -> bool {
        let Names { old, both, .. } = &self.names;
        members.iter().any(|member| member.in_old && member.has_left(old) && member.has_left(both))
    }

    /// Whether some server votes in the old set.
    fn is_voted_in(&self, members: &[Member]) -> bool {
        members.iter().any(|member| member.in_old && member.votes_in(&self.names.old))
    }

    /// Whether the new set can win. Fewer who vote in it may be those of a command that was stopped, or long undone.
    fn is_opened(&self, members: &[Member]) -> bool {
        let votes = |member: &&Member| member.in_new && member.votes_in(&self.names.new);
        sets::is_majority(members.iter().filter(votes).count(), self.new.nodes.len())
    }

    /// Lets every server that may have forgotten judge itself, as it does for a client: a marker of an earlier run is no
    /// ground to build on.
    fn judge(&self, members: &mut [Member]) -> Result<(), StoreError> {
        let Names { old, new, both } = &self.names;
        let opened = self.is_opened(members) || self.is_ending(members);
        let (begun, old_votes) = (self.has_begun(members), self.is_voted_in(members));
        if !opened && !old_votes && !members.iter().any(|member| member.votes_in(both)) {
            // Nobody has ever used them.
            return Ok(());
        }
        let probation = driver::probation(&self.old);
        for at in 0..members.len() {
            let member = &mut members[at];
            if !member.is_forgetful() || (member.is_newcomer() && !begun && !opened) {
                continue;
            }
            member.judge_marker(probation).map_err(|trouble| failed(member, &trouble))?;
            // One that was told all there is to know is not asked to vote again.
            let is_told = opened && !member.in_new && member.was_told_to_leave(old);
            if !member.is_forgetful() || is_told {
                continue;
            }
            let set = match (opened, old_votes) {
                (true, _) if member.in_new => new,
                (false, true) if member.in_old => old,
                _ if opened || begun || member.was_told_to_leave(old) => both,
                _ => old,
            };
            let vouch = self.vouch(set, members);
            let member = &mut members[at];
            member.judge(set, probation, vouch).map_err(|trouble| failed(member, &trouble))?;
        }
        Ok(())
    }

    /// Whether a majority of this set is there, and nobody of it votes elsewhere only.
    fn vouch(&self, set: &str, members: &[Member]) -> Vouch {
        let Names { old, new, .. } = &self.names;
        let speaks_against = |member: &&Member| member.refuses(set) || member.was_told_to_leave(set);
        let majority = |of: &dyn Fn(&Member) -> bool| {
            let all: Vec<&Member> = members.iter().filter(|member| of(member)).collect();
            let there = all.iter().filter(|member| member.state.is_ok()).count();
            sets::is_majority(there, all.len()) && !all.iter().any(speaks_against)
        };
        let is_heard =
            (set == new || majority(&|member| member.in_old)) && (set == old || majority(&|member| member.in_new));
        match is_heard {
            false => Vouch::No,
            true if members.iter().any(|member| member.votes_in(set)) => Vouch::Firm,
            true => Vouch::Weak,
        }
    }

    fn advance(&self, members: &mut [Member], orders: &Orders) -> Result<Progress, StoreError> {
        let Names { old, both, .. } = &self.names;
        if self.is_opened(members) {
            self.require_the_old_set_is_closed(members)?;
            return self.finish(members, orders.force);
        }
        if self.is_ending(members) {
            // Servers of the new set have forgotten it since: they come first.
            self.require_new(members)?;
        }
        let is_open = |member: &Member| member.in_old && member.votes_in(old);
        if !members.iter().any(|member| is_open(member) || member.votes_in(both)) {
            let message = format!(
                "no server of --from votes in that set: is it the URL that clients use, spelled alike? {}",
                silent(members)
            );
            return Err(refuse(kind_of(members), message));
        }
        if !self.is_closed(members) && members.iter().any(is_open) {
            let unprepared = |member: &Member| (is_open(member) || member.is_newcomer()) && !member.votes_in(both);
            if members.iter().any(unprepared) {
                return self.prepare(members);
            }
            let clients = users(members, old)?;
            if !orders.force && !clients.is_empty() {
                return Ok(Progress::OldClients { clients, url: self.both_url.clone() });
            }
        }
        self.close(members)?;
        self.open(members, &orders.gone)
    }

    /// Nodes vote for clients of both sets, too: the new ones first, so that one of the old tells that they did.
    fn prepare(&self, members: &mut [Member]) -> Result<Progress, StoreError> {
        let Names { old, new, both } = &self.names;
        self.require_new(members)?;
        let (all, ready) = (self.old.nodes.len(), |member: &&Member| member.in_old && member.votes_in(old));
        let there = members.iter().filter(ready).count();
        if !sets::is_majority(there, all) {
            let message = format!("{there} of the {all} old servers vote, which is no majority: {}", silent(members));
            return Err(refuse(kind_of(members), message));
        }
        let begun = self.has_begun(members);
        each(
            members,
            |member| member.is_newcomer() && !member.votes_in(both),
            |member| {
                if !begun {
                    member.welcome()?;
                }
                member.change(std::slice::from_ref(both), false)
            },
        )?;
        each(
            members,
            |member| member.in_old && member.votes_in(old),
            |member| {
                let mut sets = member.entries_without(&[both, new]);
                sets.push(both.clone());
                member.change(&sets, false)
            },
        )?;
        Ok(Progress::Prepared { url: self.both_url.clone() })
    }

    /// Old servers vote for clients of the old set no more, and its clients are sent away.
    fn close(&self, members: &mut [Member]) -> Result<(), StoreError> {
        let Names { old, both, .. } = &self.names;
        // Also one that does not vote for them any more, but was not told: it was started anew and let in by clients of both,
        // and until then it renewed what clients of the old set held.
        each(
            members,
            |member| member.in_old && member.has_to_leave(old),
            |member| {
                let mut sets = member.entries_without(&[old, both]);
                sets.splice(0..0, [both.clone(), left(old)]);
                member.change(&sets, true)
            },
        )?;
        each(members, |member| member.state.is_ok(), |member| member.send_away(self.old.max_ttl + SLACK))
    }

    /// Whether the servers that may still vote in the old set are no majority of it.
    fn is_closed(&self, members: &[Member]) -> bool {
        let (all, closed) = (self.old.nodes.len(), |member: &&Member| member.in_old && member.refuses(&self.names.old));
        !sets::is_majority(all - members.iter().filter(closed).count(), all)
    }

    /// The new set votes. That may be our doing, or somebody's who did not know of the old one.
    fn require_the_old_set_is_closed(&self, members: &[Member]) -> Result<(), StoreError> {
        let Names { old, new, both } = &self.names;
        let voters = || members.iter().filter(|member| member.in_new && member.votes_in(new));
        let told = voters().any(|member| member.has_left(old));
        // On the way back: a majority that still votes has never been closed, and the other set never opened.
        let never_left = voters().any(|member| member.votes_in(both));
        if told || never_left || self.is_closed(members) {
            return Ok(());
        }
        let labels: Vec<&str> = voters().map(|member| member.label.as_str()).collect();
        let message = format!(
            "the servers of --to are a set of their own already, on {}: a client that uses it is not excluded from what clients of \
             --from hold. End those clients, `redis-cli del {}` on each of these servers, and run this again",
            labels.join(", "),
            keys(new)
        );
        Err(refuse(StoreErrorKind::Misconfigured, message))
    }

    /// The old set is closed: when its leases are over, the new one votes.
    ///
    /// All of its servers have to have left it, though for now a majority would do: else one that forgets later could be
    /// let into the old set again, together with one that has never left it.
    fn open(&self, members: &mut [Member], gone: &[String]) -> Result<Progress, StoreError> {
        let Names { old, both, .. } = &self.names;
        let has_not_left = |member: &&Member| member.in_old && !member.refuses(old) && !gone.contains(&member.label);
        if let Some(member) = members.iter().find(has_not_left) {
            let label = &member.label;
            let why = trouble(member);
            let (kind, why) = why.map_or((StoreErrorKind::Unreachable, String::new()), |why| (why.kind, why.message));
            // One that answers is not gone.
            let is_off = matches!(kind, StoreErrorKind::Unreachable | StoreErrorKind::TooSlow);
            let cure = match is_off {
                true => format!("; bring it back, or say --gone {label} if it is off for good"),
                false => String::new(),
            };
            let message = format!("{label} does not know yet that the old set is closed: {why}{cure}");
            return Err(refuse(kind, message));
        }
        if !self.is_closed(members) {
            let message = format!(
                "too few of the {} old servers have left the old set, and the others might still be a majority of it; \
                 bring more of them back: {}",
                self.old.nodes.len(),
                silent(members)
            );
            return Err(refuse(kind_of(members), message));
        }
        let leases = |member: &Member| match member.state.as_ref().map(|state| state.leases) {
            Ok(Leases::Left(left)) => Some(left),
            _ => None,
        };
        if let Some(left) = members.iter().filter_map(leases).max() {
            return Ok(Progress::Closing { left });
        }
        self.require_new(members)?;
        // Of those that a majority of the old set knew, at least one of these has each.
        let mut fences = BTreeMap::new();
        each(members, |member| member.in_old && member.refuses(old), |member| member.fences(&mut fences))?;
        each(members, |member| member.in_new, |member| member.raise(&fences))?;
        // Somebody may be on the way back, and about to let the old set vote: by this they cannot any more, or we see that
        // they have.
        each(
            members,
            |member| member.in_old && member.refuses(old),
            |member| {
                let sets = member.entries_without(&[]);
                member.change(&sets, false)
            },
        )?;
        // Whoever was on the way back may have taken from new ones what clients of both need.
        each(
            members,
            |member| member.is_newcomer() && !member.votes_in(both),
            |member| {
                let mut sets = member.entries_without(&[both]);
                sets.push(both.clone());
                member.change(&sets, false)
            },
        )?;
        self.enter(members)?;
        Ok(Progress::Opened { url: self.new_url.clone() })
    }

    /// All new servers vote in the new set, too.
    fn enter(&self, members: &mut [Member]) -> Result<(), StoreError> {
        let Names { old, new, .. } = &self.names;
        each(
            members,
            |member| member.in_new && !member.votes_in(new),
            |member| {
                let mut sets = member.entries_without(&[old, new]);
                sets.extend([new.clone(), left(old)]);
                member.change(&sets, false)
            },
        )
    }

    /// The new set votes: when nobody needs both any more, it votes alone.
    fn finish(&self, members: &mut [Member], force: bool) -> Result<Progress, StoreError> {
        let Names { old, new, both } = &self.names;
        // Somebody may have stopped in the middle of letting it vote, and an old server may have come back.
        self.require_new(members)?;
        self.enter(members)?;
        let behind = |member: &Member| member.votes_in(both) || (member.in_old && member.votes_in(old));
        // Old ones that keep still, and may have been away when their set was closed: else they could be let into it again.
        let is_aside = |member: &Member| member.in_old && !member.in_new && member.keeps_still();
        each(
            members,
            |member| is_aside(member) && !member.was_told_to_leave(old),
            |member| member.tell(&[both.clone(), left(old)]),
        )?;
        if members.iter().any(behind) {
            let clients = users(members, both)?;
            if !force && !clients.is_empty() {
                return Ok(Progress::BothClients { clients, url: self.new_url.clone() });
            }
        }
        let sets_of = |member: &Member| {
            let new = if member.in_new { new.clone() } else { format!("{GONE}{new}") };
            [new, left(old), left(both)]
        };
        each(
            members,
            |member| is_aside(member) && !member.was_told_to_leave(both),
            |member| member.tell(&sets_of(member)),
        )?;
        // The new ones last: while one of them votes for clients of both, this is not over.
        for newest in [false, true] {
            each(
                members,
                |member| behind(member) && member.in_new == newest,
                |member| member.change(&sets_of(member), false),
            )?;
        }
        Ok(Progress::Done)
    }

    /// Every new server has to be there: none of them may be forgotten.
    fn require_new(&self, members: &[Member]) -> Result<(), StoreError> {
        let missing = members.iter().filter(|member| member.in_new).find_map(|member| Some((member, trouble(member)?)));
        missing.map_or(Ok(()), |(member, trouble)| Err(failed(member, &trouble)))
    }

    fn shown(&self, member: &Member) -> MemberState {
        let Names { old, new, both } = &self.names;
        let each = [("old", old), ("both", both), ("new", new)];
        MemberState {
            server: member.label.clone(),
            in_old: member.in_old,
            in_new: member.in_new,
            votes_for: each.iter().filter(|(_, set)| member.votes_in(set)).map(|(word, _)| *word).collect(),
            trouble: trouble(member).map(|trouble| trouble.message),
        }
    }
}

/// Why a server cannot be built on.
fn trouble(member: &Member) -> Option<Trouble> {
    match &member.state {
        Err(trouble) => Some(trouble.clone()),
        Ok(state) => state.trouble(),
    }
}

/// Who does not answer, or is not to be built on.
fn silent(members: &[Member]) -> String {
    let why = |member: &Member| Some(format!("{}: {}", member.label, trouble(member)?.message));
    members.iter().filter_map(why).collect::<Vec<_>>().join("; ")
}

/// What kind of trouble it is if too few can be built on.
fn kind_of(members: &[Member]) -> StoreErrorKind {
    members.iter().find_map(trouble).map_or(StoreErrorKind::Misconfigured, |trouble| trouble.kind)
}

/// Who is connected as a client of this set.
fn users(members: &mut [Member], set: &str) -> Result<Vec<String>, StoreError> {
    let mut most = Vec::new();
    for member in members.iter_mut().filter(|member| member.votes_in(set)) {
        let clients = member.clients_of(set).map_err(|trouble| failed(member, &trouble))?;
        if clients.len() > most.len() {
            most = clients;
        }
    }
    Ok(most)
}
