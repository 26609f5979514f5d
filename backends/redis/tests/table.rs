//! The scripts against the table: the same random steps on a real server and on a memory node have the same answers.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_core::store::{
    ActorId, Answer, Claim, Clock, Deed, FencingToken, LockName, Memory, Mode, Owner, Part, Place, Proposal, Repair,
    Step, Store, Then, Trouble, Turn, YieldRequest,
};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::dice::Dice;
use fencepost_testkit::minted_table::{self, Range};
use fencepost_testkit::redis::{Edition, Redis};
use fencepost_testkit::steps::{listen, run};

const SEQUENCES: u64 = 300;
const STEPS: u64 = 40;

/// What can be compared: not ages and times left, which no two clocks tell alike.
fn essence(answer: Result<Answer, Trouble>) -> String {
    match answer {
        Ok(Answer::Granted { token }) => format!("granted {token}"),
        Ok(Answer::Held { holder, last, ticket }) => {
            // Of several readers any may be named.
            let holder = holder.map(|holder| holder.token.filter(|_| !holder.shared));
            format!("held by {holder:?}, last {last:?}, in line {}", ticket.is_some())
        }
        Ok(Answer::Stale { last, .. }) => format!("stale, last {last:?}"),
        Ok(Answer::Relayed { freed, then }) => format!("relayed {freed}, {}", essence(Ok(*then))),
        Ok(Answer::Evicted(holders) | Answer::Asked(holders)) => {
            let mut tokens: Vec<_> = holders.iter().map(|holder| (holder.token, holder.actor)).collect();
            tokens.sort_unstable();
            format!("evicted {tokens:?}")
        }
        Ok(Answer::State(state)) => {
            let mut holders: Vec<_> =
                state.holders.iter().map(|holder| (holder.token, holder.shared, &holder.label, holder.actor)).collect();
            holders.sort_unstable();
            let waiters: Vec<_> =
                state.waiters.iter().map(|waiter| (&waiter.label, waiter.shared, waiter.actor)).collect();
            format!("{holders:?} {waiters:?} last {:?}", state.last_token)
        }
        Ok(Answer::Record(record)) => {
            format!("recorded {:?}", record.map(|record| (record.token, record.value)))
        }
        Ok(Answer::Outdated { seen }) => format!("outdated {seen}"),
        other => format!("{other:?}"),
    }
}

struct Play {
    dice: Dice,
    name: LockName,
    claims: Vec<Arc<Claim>>,
    base: FencingToken,
    tokens: Vec<FencingToken>,
    /// Who was granted last, and under which token.
    newest: Option<(Arc<Claim>, FencingToken)>,
    steps: u64,
}

impl Play {
    fn new(seed: u64, clock: &Clock) -> Self {
        let mut dice = Dice::new(seed);
        let name = LockName::new(format!("play {seed}")).expect("valid");
        let base = FencingToken::at(clock.wall()).plus(Duration::from_secs(5));
        let claims = (0..4).map(|number| {
            // Some leave it to the node, and come behind all that are there.
            let ticket = dice.per_mille(600).then(|| base.offset(dice.below(5)));
            let place = Place { ticket, lease: Duration::from_secs(60) };
            Arc::new(Claim {
                name: name.clone(),
                owner: Owner::random().expect("random bytes"),
                label: format!("claim {number}").into(),
                mode: if dice.per_mille(300) { Mode::Shared } else { Mode::Exclusive },
                ttl: Duration::from_secs(600),
                turn: match dice.below(4) {
                    0 => Turn::AfterOthers,
                    1 => Turn::Overtake,
                    _ => Turn::InLine(place),
                },
                fenced: true,
                actor: dice.per_mille(500).then(|| ActorId(dice.below(1000))),
                delay: Duration::from_secs(dice.below(3)),
            })
        });
        let claims = claims.collect();
        Self { dice, name, claims, base, tokens: vec![base], newest: None, steps: 0 }
    }

    /// Mostly a new one; now and then one that was proposed before.
    fn token(&mut self) -> FencingToken {
        self.steps += 1;
        if self.dice.per_mille(250) {
            let at = self.dice.below(self.tokens.len() as u64);
            return self.tokens[at as usize];
        }
        let token = self.base.offset(self.steps * 3);
        self.tokens.push(token);
        token
    }

    fn claim(&mut self) -> Arc<Claim> {
        let at = self.dice.below(self.claims.len() as u64);
        self.claims[at as usize].clone()
    }

    fn repair(&mut self) -> Repair {
        if self.dice.per_mille(700) { Repair::NotLater } else { Repair::Never }
    }

    fn deed(&mut self, token: FencingToken) -> Deed {
        let keep = Duration::from_secs(if self.dice.per_mille(800) { 600 } else { 0 });
        match self.dice.below(3) {
            0 => Deed::Read,
            1 => Deed::Seal { token },
            _ => Deed::Put { token, value: self.steps.to_be_bytes().into(), keep },
        }
    }

    fn step(&mut self) -> Step {
        let (claim, token) = (self.claim(), self.token());
        let attempt = u32::try_from(self.steps).expect("few steps");
        let pass = Proposal::Exactly(self.token());
        match self.dice.below(17) {
            15 | 16 => Step::Record { name: self.name.clone(), deed: self.deed(token) },
            14 if claim.mode == Mode::Exclusive && claim.place().is_none() => {
                // Beside a lock that nobody else uses, before or behind it.
                let mut other = (*claim).clone();
                other.name = LockName::new(format!("{} beside, {}", self.name, self.steps)).expect("valid");
                let part = |claim| Part { claim, attempt, token: Proposal::Exactly(token) };
                let mut parts = vec![part(claim), part(Arc::new(other))];
                if self.dice.per_mille(500) {
                    parts.reverse();
                }
                Step::AcquireAll { parts: parts.into() }
            }
            0..=4 => {
                let unify = self.dice.per_mille(200);
                Step::Acquire { claim, attempt, token: Proposal::Exactly(token), unify }
            }
            5 => {
                let newest = self.newest.clone().filter(|_| self.dice.per_mille(500));
                let (claim, token) = newest.unwrap_or((claim, token));
                let repair = self.repair();
                Step::Renew { claim, token, pass: None, repair }
            }
            // A writer becomes a reader.
            13 => {
                let claim = Arc::new(Claim { mode: Mode::Shared, ..Claim::clone(&claim) });
                let repair = self.repair();
                Step::Renew { claim, token, pass: self.dice.per_mille(800).then_some(pass), repair }
            }
            6 => Step::GiveBack { claim, attempt, token, pass },
            7 | 8 => {
                let (raise, only) = (self.dice.per_mille(300), self.dice.per_mille(300));
                let meant = self.newest.clone().filter(|_| only && self.dice.per_mille(500)).map(|(_, token)| token);
                let only = only.then(|| meant.unwrap_or(token));
                Step::Release { claim, raise: raise.then_some(token), pass, then: None, only }
            }
            9 => {
                let then = self.claim();
                let then = (then.owner != claim.owner).then_some(Then { claim: then, attempt });
                let only = self.newest.clone().filter(|_| self.dice.per_mille(200)).map(|(_, token)| token);
                Step::Release { claim, raise: None, pass, then, only }
            }
            12 => {
                let request = YieldRequest::new(self.steps, "some|body", "a note");
                Step::Ask { name: self.name.clone(), request: Arc::new(request) }
            }
            10 if self.dice.per_mille(200) => Step::Evict { name: self.name.clone(), above: Proposal::Exactly(token) },
            _ => Step::Inspect { name: self.name.clone() },
        }
    }
}

macro_rules! editions {
    ($($name:ident: $edition:ident),+) => {$(
        mod $name {
            use super::Edition;

            #[test]
            fn the_scripts_answer_as_the_table_does() {
                let server = super::Redis::new().edition(Edition::$edition).start();
                super::mints_as_the_table_does(super::Range::Whole, "redis", &format!("//{}", server.address()));
            }

            #[test]
            fn redissons_scripts_answer_as_the_table_does() {
                let server = super::Redis::new().edition(Edition::$edition).start();
                let rest = format!("//{}?layout=redisson", server.address());
                super::mints_as_the_table_does(super::Range::Plain, "redis", &rest);
            }

            #[test]
            fn the_scripts_of_nodes_that_vote_answer_as_the_table_does() {
                super::vote_as_the_table_does(Edition::$edition);
            }
        }
    )+};
}

editions!(system: System, redis_6_2: Redis6, redis_8_0: Redis8, valkey_8_1: Valkey8, valkey_9_1: Valkey9);

/// There the scripts ask for the time instead of the marker.
#[test]
fn the_scripts_answer_as_the_table_does_in_a_cluster() {
    let cluster = Cluster::start();
    mints_as_the_table_does(Range::Whole, "redis+cluster", &format!("//{}", cluster.place()));
    let rest = format!("//{}?layout=redisson", cluster.place());
    mints_as_the_table_does(Range::Plain, "redis+cluster", &rest);
}

/// A server that decides alone.
fn mints_as_the_table_does(range: Range, scheme: &str, rest: &str) {
    let clock = Clock::system().expect("a clock");
    let nodes = fencepost_redis::nodes(scheme, rest, clock.clone()).block().expect("it is up");
    minted_table::answers_as_the_table_does(&nodes, &clock, range, (SEQUENCES, STEPS));
}

/// One of two that vote.
fn vote_as_the_table_does(edition: Edition) {
    let servers = [0, 1].map(|_| Redis::new().edition(edition).start());
    let rest = format!("//{},{}", servers[0].address(), servers[1].address());
    fencepost_redis::init("redlock", &rest).block().expect("both are new");
    answers_as_the_table_does("redlock", &rest);
}

fn answers_as_the_table_does(scheme: &str, rest: &str) {
    let clock = Clock::system().expect("a clock");
    let nodes = fencepost_redis::nodes(scheme, rest, clock.clone());
    let redis = nodes.block().expect("it is up").remove(0);
    let memory = Memory::node(clock.clone(), "memory");
    let (mut answers, mut detours) = (std::collections::BTreeMap::new(), 0);
    for seed in 0..SEQUENCES {
        let mut play = Play::new(seed, &clock);
        let _ears: Vec<_> = play.claims.iter().map(|claim| (listen(&*redis, claim), listen(&memory, claim))).collect();
        let mut said = Vec::new();
        for _ in 0..STEPS {
            let step = match play.step() {
                Step::AcquireAll { .. } if !redis.abilities().together => Step::Inspect { name: play.name.clone() },
                step => step,
            };
            let table = run(&memory, step.clone());
            if let (Step::Acquire { claim, .. }, Ok(Answer::Granted { token })) = (&step, &table) {
                play.newest = Some((claim.clone(), *token));
            }
            let real = run(&*redis, step.clone());
            let real = match (&step, &table, real) {
                // It looks less closely, where somebody has waited; then each is asked for alone.
                (Step::AcquireAll { parts }, Ok(Answer::AllGranted { .. }), Ok(Answer::NotAll)) => {
                    detours += 1;
                    minted_table::one_by_one(&*redis, parts)
                }
                (_, _, real) => real,
            };
            let (real, table) = (essence(real), essence(table));
            said.push(format!("{step:?}\n    -> {table}"));
            assert_eq!(real, table, "seed {seed}, after\n{}", said.join("\n"));
            *answers.entry(table.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
    }
    for word in [
        "granted",
        "held",
        "stale,",
        "relayed",
        "recorded",
        "outdated",
        "evicted",
        "Ok(Freed)",
        "Ok(NotHeld)",
        "Ok(Kept)",
        "Ok(KeptAndAsked(YieldRequest",
    ] {
        assert!(answers.contains_key(word), "{word} never came: {answers:?}");
    }
    if redis.abilities().together {
        let granted = answers.get("Ok(AllGranted").copied().unwrap_or_default();
        assert!(granted > 2 * detours && answers.contains_key("Ok(NotAll)"), "{detours} detours: {answers:?}");
    }
}
