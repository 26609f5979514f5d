//! One server of a set that is left or entered.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::store::{Owner, StoreErrorKind, Trouble};

use crate::error;
use crate::probe::Probe;
use crate::scripts::{RAISE, TRUST, VOTE};
use crate::sets::{self, EDITION, LEFT, NO_VOTE};
use crate::standing::Vouch;
use crate::steps::{MARKER, PROBATION};
use crate::url::Node;
use crate::wire::Value;

/// While it lives, leases of a set that this server has left may last. Without an end, its clients were not sent away yet.
const CLOSING: &str = "fp:closing";
/// How many fences are read or raised at a time.
const BATCH: usize = 500;

pub(super) struct Member {
    pub(super) label: String,
    pub(super) in_old: bool,
    pub(super) in_new: bool,
    pub(super) state: Result<State, Trouble>,
    node: Node,
    /// The sets that this is about.
    all: String,
}

/// What a server says of itself.
pub(super) struct State {
    probe: Probe,
    pub(super) run: String,
    /// The marker and the probation as they are.
    marker: String,
    probation: String,
    /// What the marker has of sets, if it is of this run.
    entries: Vec<String>,
    /// Every write is on disk before it is answered.
    keeps_everything: bool,
    /// It was judged: how long it may keep still.
    quarantine: Option<Duration>,
    pub(super) leases: Leases,
}

/// How long leases of a set that a server has left may last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leases {
    /// They are over, or there was no such set.
    Over,
    Left(Duration),
    /// Its clients were not sent away yet.
    Unbounded,
}

impl Leases {
    fn of(probe: &mut Probe) -> Result<Self, Trouble> {
        Ok(match probe.get(&["PTTL", CLOSING])?.number() {
            Some(-1) => Self::Unbounded,
            Some(left) => u64::try_from(left).map_or(Self::Over, |left| Self::Left(Duration::from_millis(left))),
            None => Self::Over,
        })
    }
}

impl State {
    /// Why it cannot be built on.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let message = "it may have lost its memory, and votes again when every lease it may have forgotten is over";
        self.quarantine.map(|left| Trouble::new(StoreErrorKind::Quarantined { left }, message))
    }

    /// The sets in which it votes.
    pub(super) fn votes_in(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str).filter(|set| !set.starts_with(NO_VOTE))
    }

    /// It has a marker, of whatever run.
    pub(super) fn is_marked(&self) -> bool {
        !self.marker.is_empty()
    }

    /// What it remembers of sets while it keeps still.
    fn remembers(&self) -> impl Iterator<Item = &str> {
        let known = self.probation.split('|').nth(2).unwrap_or_default();
        known.split(';').filter(|entry| !entry.is_empty())
    }

    /// Its marker is of another run.
    fn is_stale(&self) -> bool {
        self.is_marked() && self.entries.is_empty()
    }
}

impl Member {
    pub(super) fn look_at(node: &Node, in_old: bool, in_new: bool, all: String) -> Self {
        Self { label: node.address.to_string(), in_old, in_new, state: state_of(node), node: node.clone(), all }
    }

    pub(super) fn votes_in(&self, set: &str) -> bool {
        self.state.as_ref().is_ok_and(|state| state.votes_in().any(|other| other == set))
    }

    /// It was told that this set is left.
    pub(super) fn has_left(&self, set: &str) -> bool {
        let is = |entry: &String| entry.strip_prefix(LEFT) == Some(set);
        self.state.as_ref().is_ok_and(|state| state.entries.iter().any(is))
    }

    /// It is on probation.
    pub(super) fn keeps_still(&self) -> bool {
        self.state.as_ref().is_ok_and(|state| !state.probation.is_empty())
    }

    /// It is on probation, and was told that this set is left.
    pub(super) fn was_told_to_leave(&self, set: &str) -> bool {
        self.state.as_ref().is_ok_and(|state| state.remembers().any(|entry| entry.strip_prefix(LEFT) == Some(set)))
    }

    /// It votes, or tells of sets, and was not told that this one is left.
    pub(super) fn has_to_leave(&self, set: &str) -> bool {
        self.state.as_ref().is_ok_and(|state| !state.entries.is_empty()) && !self.has_left(set)
    }

    /// It votes, or tells of sets, and not in this one: it is known to refuse the clients of that.
    pub(super) fn refuses(&self, set: &str) -> bool {
        self.state.as_ref().is_ok_and(|state| !state.entries.is_empty()) && !self.votes_in(set)
    }

    /// It is to enter, and was not in the old set.
    pub(super) fn is_newcomer(&self) -> bool {
        self.in_new && !self.in_old
    }

    fn reached(&mut self) -> Result<&mut State, Trouble> {
        self.state.as_mut().map_err(|trouble| trouble.clone())
    }

    /// It is to enter a set, and was in none: what it may have forgotten nobody relied on.
    pub(super) fn welcome(&mut self) -> Result<(), Trouble> {
        let state = self.reached()?;
        state.probe.get(&["DEL", PROBATION])?;
        state.probation.clear();
        Ok(())
    }

    /// It should know of a set, but has no marker of this run.
    pub(super) fn is_forgetful(&self) -> bool {
        self.state.as_ref().is_ok_and(|state| state.entries.is_empty())
    }

    /// Where its marker is of another run, lets it judge what that is worth.
    pub(super) fn judge_marker(&mut self, probation: Duration) -> Result<(), Trouble> {
        let state = self.reached()?;
        if state.is_stale() {
            let sets = state.marker.rsplit_once('|').unwrap_or_default().0.to_owned();
            // Of one that votes in none, whatever it has: it shall judge itself, not refuse us.
            let its_own = sets.split(';').find(|set| !set.starts_with(NO_VOTE)).or_else(|| sets.split(';').next());
            let how = if state.keeps_everything { "keep" } else { "judge" };
            state.trust(its_own.unwrap_or_default(), probation, how, "")?;
            self.state = state_of(&self.node);
        }
        Ok(())
    }

    /// Lets it judge whether it may vote in this set, as it does for any client.
    pub(super) fn judge(&mut self, set: &str, probation: Duration, vouch: Vouch) -> Result<(), Trouble> {
        let state = self.reached()?;
        let known: Vec<&str> = state.remembers().collect();
        if !known.is_empty() && !known.contains(&set) {
            // What it remembers is from before, but for what it has left.
            let left = known.into_iter().filter(|entry| entry.strip_prefix(LEFT).is_some_and(|left| left != set));
            let sets: Vec<String> = [set].into_iter().chain(left).map(str::to_owned).collect();
            self.tell(&sets)?;
        }
        let reply = self.reached()?.trust(set, probation, "judge", vouch.word())?;
        self.state = state_of(&self.node);
        let state = self.reached()?;
        if state.entries.is_empty() {
            let left = reply.array().and_then(|parts| parts.get(1)?.number()).and_then(|left| u64::try_from(left).ok());
            state.quarantine = Some(Duration::from_millis(left.unwrap_or_default()));
        }
        Ok(())
    }

    /// Gives it these sets, if it is as we saw it; whoever saw it before cannot do the same. `closing`: it leaves
    /// one.
    pub(super) fn change(&mut self, sets: &[String], closing: bool) -> Result<(), Trouble> {
        if self.keeps_still() {
            let message = "it is on probation, and cannot vote yet: try again";
            return Err(Trouble::new(StoreErrorKind::TooSlow, message));
        }
        let (sets, _) = self.put(sets, closing)?;
        let state = self.reached()?;
        state.marker = format!("{sets}|{}", state.run);
        state.entries = sets.split(';').map(str::to_owned).collect();
        state.leases = Leases::of(&mut state.probe)?;
        Ok(())
    }

    /// Tells one that is on probation in which sets it was, if it is as we saw it. It stays on probation.
    pub(super) fn tell(&mut self, sets: &[String]) -> Result<(), Trouble> {
        let (_, probation) = self.put(sets, false)?;
        self.reached()?.probation = probation;
        Ok(())
    }

    /// Answers the sets that it has now, and its probation.
    fn put(&mut self, sets: &[String], closing: bool) -> Result<(String, String), Trouble> {
        let all = self.all.clone();
        let state = self.reached()?;
        let edition = Owner::random().map_err(|error| Trouble::new(StoreErrorKind::Unexpected, error.to_string()))?;
        let sets = format!("{};{EDITION}{}", sets.join(";"), edition.expose());
        let closing = if closing { "1" } else { "0" };
        let State { marker, probation, run, .. } = state;
        let words = ["EVAL", VOTE, "3", MARKER, PROBATION, CLOSING, marker, probation, &sets, run, closing, &all];
        let Some(probation) = state.probe.get(&words)?.text() else {
            let message = "it was started anew, or somebody else is at work: try again";
            return Err(Trouble::new(StoreErrorKind::TooSlow, message));
        };
        Ok((sets, probation))
    }

    /// The sets of its marker, without these.
    pub(super) fn entries_without(&self, sets: &[&str]) -> Vec<String> {
        let is = |entry: &String| entry.starts_with(EDITION) || sets.contains(&entry.trim_start_matches(NO_VOTE));
        let entries = self.state.as_ref().map(|state| state.entries.as_slice()).unwrap_or_default();
        entries.iter().filter(|entry| !is(entry)).cloned().collect()
    }

    /// The connections of the clients of a set.
    pub(super) fn clients_of(&mut self, set: &str) -> Result<Vec<String>, Trouble> {
        Ok(self.connections_of(set)?.into_iter().map(|(_, address)| address).collect())
    }

    /// Ends the connections that clients of a set have had since before this server left it: scripts refuse them anyway,
    /// but a lock without a token takes no script. Whoever connects now is refused in the greeting. From then on leases
    /// last so long at most.
    pub(super) fn send_away(&mut self, leases: Duration) -> Result<(), Trouble> {
        let state = self.reached()?;
        if state.leases != Leases::Unbounded {
            return Ok(());
        }
        let sets: Vec<String> =
            state.entries.iter().filter_map(|entry| entry.strip_prefix(LEFT)).map(str::to_owned).collect();
        for set in sets {
            for (id, _) in self.connections_of(&set)? {
                // It may have gone by itself.
                self.reached()?.probe.get(&["CLIENT", "KILL", "ID", &id])?;
            }
        }
        let state = self.reached()?;
        state.probe.get(&["SET", CLOSING, "", "PX", &leases.as_millis().to_string()])?;
        state.leases = Leases::of(&mut state.probe)?;
        Ok(())
    }

    /// Number and address of each.
    fn connections_of(&mut self, set: &str) -> Result<Vec<(String, String)>, Trouble> {
        let database = self.node.database.to_string();
        let state = self.reached()?;
        let name = sets::client_name(&sets::marker(true, set));
        let listed = state.probe.get(&["CLIENT", "LIST"])?.text().unwrap_or_default();
        let field = |line: &str, field: &str| {
            line.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('=')).map(str::to_owned)
        };
        let is = |line: &&str| {
            field(line, "name").as_deref() == Some(&name) && field(line, "db").as_ref() == Some(&database)
        };
        let read = |line: &str| Some((field(line, "id")?, field(line, "addr")?));
        Ok(listed.lines().filter(is).filter_map(read).collect())
    }

    /// Adds the highest token of every lock.
    pub(super) fn fences(&mut self, highest: &mut BTreeMap<String, u64>) -> Result<(), Trouble> {
        let state = self.reached()?;
        let (mut cursor, count) = ("0".to_owned(), BATCH.to_string());
        loop {
            let page = state.probe.get(&["SCAN", &cursor, "MATCH", "fp:fence:*", "COUNT", &count])?;
            let [next, keys] = page.array().unwrap_or_default() else { return Err(odd(&page)) };
            let keys: Vec<String> = keys.array().unwrap_or_default().iter().filter_map(Value::text).collect();
            if !keys.is_empty() {
                let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
                let values = state.probe.get(&words)?;
                for (key, value) in keys.into_iter().zip(values.array().unwrap_or_default()) {
                    // One that has ended meanwhile was not used for a day.
                    let Some(fence) = value.text() else { continue };
                    let token: u64 = fence.trim_end_matches('+').parse().map_err(|_| odd(value))?;
                    let seen = highest.entry(key).or_default();
                    *seen = token.max(*seen);
                }
            }
            cursor = next.text().ok_or_else(|| odd(&page))?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Sees to it that no token up to these is granted here.
    pub(super) fn raise(&mut self, fences: &BTreeMap<String, u64>) -> Result<(), Trouble> {
        let state = self.reached()?;
        let all: Vec<(&String, String)> = fences.iter().map(|(key, token)| (key, token.to_string())).collect();
        for some in all.chunks(BATCH) {
            let count = some.len().to_string();
            let mut words = vec!["EVAL", RAISE, &count];
            words.extend(some.iter().map(|(key, _)| key.as_str()));
            words.extend(some.iter().map(|(_, token)| token.as_str()));
            state.probe.get(&words)?;
        }
        Ok(())
    }
}

impl State {
    fn trust(&mut self, set: &str, probation: Duration, how: &str, vouch: &str) -> Result<Value, Trouble> {
        let (sign, probation) = (sets::marker(true, set), probation.as_millis().to_string());
        self.probe.get(&["EVAL", TRUST, "3", MARKER, PROBATION, &sign, set, &self.run, &probation, how, vouch])
    }
}

fn state_of(node: &Node) -> Result<State, Trouble> {
    let mut probe = Probe::open(node)?;
    probe.get(&["SELECT", &node.database.to_string()])?;
    let info = probe.get(&["INFO"])?.text().unwrap_or_default();
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
    };
    if field("role") == "slave" {
        return Err(Trouble::new(StoreErrorKind::Misconfigured, error::IS_REPLICA));
    }
    let run = field("run_id").to_owned();
    let fsync = probe.ask(&["CONFIG", "GET", "appendfsync"])?;
    let always = fsync.array().and_then(|pair| pair.get(1)?.text()).is_some_and(|word| word == "always");
    let marker = probe.get(&["GET", MARKER])?.text().unwrap_or_default();
    let probation = probe.get(&["GET", PROBATION])?.text().unwrap_or_default();
    let leases = Leases::of(&mut probe)?;
    let (sets, marked) = marker.rsplit_once('|').unwrap_or_default();
    let entries = if marked == run { sets } else { "" };
    let entries = entries.split(';').filter(|set| !set.is_empty()).map(str::to_owned).collect();
    let keeps_everything = always && field("aof_enabled") == "1";
    Ok(State { probe, run, marker, probation, entries, keeps_everything, quarantine: None, leases })
}

fn odd(value: &Value) -> Trouble {
    Trouble::new(StoreErrorKind::Unexpected, format!("an odd reply: {value:?}"))
}
