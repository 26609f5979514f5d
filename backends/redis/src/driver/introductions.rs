//! From a socket to a link: greetings, who may vote, and the scripts.

use std::io;

use fencepost_core::store::{StoreErrorKind, Trouble};

use super::{Driver, GREET_WITHIN, Greeting, PAUSE_MIN, Peer, Role, Stage, fill, finding, unreachable};
use crate::error;
use crate::greeting::{self, Server};
use crate::link::Up;
use crate::scripts::{Dialect, Trust};
use crate::standing::Says;
use crate::url::Trusting;
use crate::wire::{self, Value};

impl Driver {
    pub(super) fn greet(&mut self, number: usize, mut greeting: Greeting) {
        let peer = &mut self.peers[number];
        match exchange(&mut greeting, &mut peer.input) {
            Err(error) => {
                let trouble = match greeting.replies.first() {
                    // Whoever is not let in is answered in another dialect from then on, which nobody here reads.
                    Some(Value::Error(text)) if !greeting.equipping => greeting::refused(text),
                    None if !greeting.equipping => greeting.socket.broken_off(&error, &peer.input),
                    _ => unreachable(&error),
                };
                self.fail(number, trouble);
            }
            Ok(()) if greeting.replies.len() < greeting.expected => peer.stage = Stage::Greeting(greeting),
            Ok(()) if peer.role == Role::Sentinel => self.meet_sentinel(number, greeting),
            Ok(()) if greeting.equipping => self.come_up(number, greeting),
            Ok(()) => match Server::read(&greeting.replies, self.quorum, peer.link.keys.clustered) {
                Err(trouble) => self.fail(number, trouble),
                Ok(server) => self.introduced(number, greeting, server),
            },
        }
    }

    /// A server has said who it is.
    fn introduced(&mut self, number: usize, mut greeting: Greeting, server: Server) {
        let suits = match self.fleet {
            Some(_) => self.suits(number, &server),
            None if server.is_replica => {
                self.fail(number, Trouble::new(StoreErrorKind::Misconfigured, error::IS_REPLICA));
                false
            }
            None => true,
        };
        if !suits {
            return greeting.socket.deregister(self.poll.registry());
        }
        let peer = &mut self.peers[number];
        if let Some(voice) = &peer.link.voice {
            voice.says(server.says_of(&self.fingerprint), self.clock.now());
        }
        peer.server = Some(server);
        // Longer than the others may take to be given up.
        let deadline = self.clock.now().plus(GREET_WITHIN * 2);
        peer.stage = Stage::Introduced { socket: greeting.socket, deadline };
    }

    /// When every node was heard or given up: judges who may vote, and sends the scripts.
    pub(super) fn introduce_all(&mut self) {
        let heard = |peer: &Peer| peer.tried || matches!(peer.stage, Stage::Introduced { .. } | Stage::Up);
        let in_use = |peer: &Peer| peer.server.as_ref().is_some_and(|server| server.is_known);
        // Once one node knows of the cluster this is no first use, and nobody has to wait for a silent one.
        if self.quorum && !self.greeted && !self.peers.iter().all(heard) && !self.peers.iter().any(in_use) {
            return;
        }
        let first_use = !self.greeted && self.is_first_use();
        // Behind sentinels the first server that is met decides; in a cluster each is judged by itself.
        self.greeted |= self.fleet.is_none() || self.peers.iter().any(|peer| peer.server.is_some());
        // Whether one that forgot is let in again, those tell that are about to be heard.
        let is_about_to =
            |peer: &Peer| peer.server.is_none() && matches!(peer.stage, Stage::Connecting { .. } | Stage::Greeting(_));
        let judges = self.trusting == Trusting::Judged;
        let waits = self.quorum && judges && self.peers.iter().any(|peer| !peer.tried && is_about_to(peer));
        for number in 0..self.peers.len() {
            if !matches!(self.peers[number].stage, Stage::Introduced { .. }) {
                continue;
            }
            let forgot = |server: &Server| server.says_of(&self.fingerprint) == Says::Nothing;
            if waits && self.peers[number].server.as_ref().is_some_and(forgot) {
                continue;
            }
            if let Some(trouble) = self.duplicate(number).filter(|_| self.quorum) {
                self.refuse(number, trouble);
                continue;
            }
            let peer = &mut self.peers[number];
            let Stage::Introduced { socket, deadline } =
                std::mem::replace(&mut peer.stage, Stage::Resting { until: self.clock.now() })
            else {
                unreachable!("BUG: just looked at")
            };
            let server = peer.server.clone().expect("BUG: who was introduced is known");
            let clustered = peer.link.keys.clustered;
            let place = match &self.fleet {
                Some(fleet) if clustered => finding::marker_place(fleet, &peer.link),
                _ => String::new(),
            };
            let judge = |how: &str| {
                let probation = self.probation.as_millis().to_string();
                let words = [self.fingerprint.clone(), server.run.clone(), probation, how.to_owned()];
                // In a cluster a marker would be in another slot: there is none, unless it was asked for.
                if clustered && !self.judges {
                    Vec::new()
                } else {
                    greeting::trust(&place, &peer.link.keys.marker, &words)
                }
            };
            // What a promoted server wrote down itself says nothing of what it never heard of.
            let later = match (self.judges, server.keeps_everything && self.fleet.is_none()) {
                (false, _) => "welcome",
                (true, true) => "keep",
                (true, false) => "judge",
            };
            peer.link.state().trust = judge(later);
            let is_new = clustered && !server.was_promoted && server.up_for > self.probation;
            let trust = match (self.trusting, first_use || is_new) {
                (Trusting::NotAsked, _) => Vec::new(),
                (Trusting::Everybody, _) => judge("accept"),
                (Trusting::Judged, true) => judge("welcome"),
                (Trusting::Judged, false) => judge(later),
            };
            let mut unsent = Vec::new();
            let trust_by = if clustered { Trust::Judged } else { Trust::Marker };
            let (layout, mints) = (peer.link.keys.layout, peer.link.keys.minting.by_store());
            let dialect = Dialect { major: server.major, trust: trust_by, layout, mints };
            let vouches = peer.link.vouches().to_vec();
            let trust = if trust.is_empty() { trust } else { [trust, vec![vouches]].concat() };
            let expected = greeting::equip(&mut unsent, dialect, &trust);
            let greeting =
                Greeting { socket, deadline, unsent, replies: Vec::new(), expected, equipping: true, dialect };
            self.greet(number, greeting);
        }
    }

    /// No node knows of a cluster, and all have been up for so long that they cannot have forgotten one.
    fn is_first_use(&self) -> bool {
        let servers = self.peers.iter().filter(|peer| peer.role == Role::Server);
        let mut known = servers.map(|peer| peer.server.as_ref());
        let is_new = |server: &Server| !server.is_known && !server.was_promoted && server.up_for > self.probation;
        known.all(|server| server.is_some_and(is_new))
    }

    fn duplicate(&self, number: usize) -> Option<Trouble> {
        let run = |number: usize| self.peers[number].server.as_ref().map(|server| server.run.as_str());
        let twin = (0..self.peers.len()).find(|other| *other != number && run(*other) == run(number))?;
        let message =
            format!("it is the same server as {}: each node must be a server of its own", self.peers[twin].link.label);
        Some(Trouble::new(StoreErrorKind::Misconfigured, message))
    }

    fn come_up(&mut self, number: usize, greeting: Greeting) {
        let peer = &mut self.peers[number];
        let (hashes, verdict) = match greeting::equipped(greeting.dialect, &greeting.replies) {
            Ok((hashes, verdict)) => (hashes, verdict.map_or(Ok(()), |verdict| peer.link.judged(verdict))),
            Err(trouble) => return self.refuse(number, trouble),
        };
        match verdict {
            // Nothing in its scripts would know: it gets those that refuse.
            Err(Trouble { kind: StoreErrorKind::Quarantined { .. }, .. })
                if greeting.dialect.trust == Trust::Judged =>
            {
                let dialect = Dialect { trust: Trust::Never, ..greeting.dialect };
                let mut unsent = Vec::new();
                let expected = greeting::equip(&mut unsent, dialect, &[]);
                return self.greet(number, Greeting { unsent, expected, dialect, replies: Vec::new(), ..greeting });
            }
            // On probation the link is of use all the same: releases work, and the scripts refuse to grant.
            Ok(()) | Err(Trouble { kind: StoreErrorKind::Quarantined { .. }, .. }) => {}
            Err(trouble) => return self.refuse(number, trouble),
        }
        let now = self.clock.now();
        let up = Up::new(greeting.socket, hashes, greeting.dialect, now);
        {
            let mut state = peer.link.state();
            state.up = Some(up);
            peer.link.pace.is_up(now);
        }
        peer.stage = Stage::Up;
        peer.pause = PAUSE_MIN;
        peer.tried = true;
        let settled = self.settled.clone();
        let one_of_many = self.fleet.as_ref().is_some_and(|fleet| fleet.is_cluster());
        peer.link.clone().compare_clocks({
            let clock = self.clock.clone();
            // Of a cluster all have to be there: the search tells when.
            move |up| {
                if !one_of_many {
                    settled.set(number, up, clock.now())
                }
            }
        });
        peer.link.listeners.hint_all();
    }
}

/// One turn of a greeting: writes what is left, reads what came.
fn exchange(greeting: &mut Greeting, input: &mut Vec<u8>) -> io::Result<()> {
    while !greeting.unsent.is_empty() {
        match greeting.socket.write(&greeting.unsent) {
            Ok(count) => drop(greeting.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let ended = fill(&greeting.socket, input);
    let mut used = 0;
    while let Some((value, length)) = wire::parse(&input[used..]).map_err(io::Error::other)? {
        used += length;
        // A subscription is confirmed by a push, and refused by a reply.
        let confirms = |parts: &[Value]| parts.first().and_then(Value::text).as_deref() == Some("subscribe");
        if !matches!(&value, Value::Push(parts) if !confirms(parts)) {
            greeting.replies.push(value);
        }
    }
    input.drain(..used);
    if greeting.replies.len() >= greeting.expected { Ok(()) } else { ended }
}
