//! Stores that mint against the table: the same random steps on them and on a memory node have the same answers.
//!
//! Tokens are minted by each store's own clock, so they are compared by the grant that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{
    ActorId, Answer, Claim, Clock, FencingToken, LockName, Memory, Minting, Mode, Owner, Part, Place, Proposal, Repair,
    Step, Store, Then, Trouble, Turn, YieldRequest,
};

use crate::dice::Dice;
use crate::steps::{listen, run};

const CLAIMS: u64 = 4;

/// A step whose tokens are told by the number of their grant.
enum Plan {
    Acquire { claim: Arc<Claim>, unify: bool },
    Renew { claim: Arc<Claim>, grant: usize, passes: bool, repair: Repair },
    GiveBack { claim: Arc<Claim>, grant: usize },
    Release { claim: Arc<Claim>, raise: Option<usize>, then: Option<Arc<Claim>>, only: Option<usize> },
    Together { claim: Arc<Claim>, first: bool },
    Evict,
    Ask(Arc<YieldRequest>),
}

/// The tokens of one store's grants, in the order in which they were seen.
#[derive(Default)]
struct Tokens(Vec<FencingToken>);

impl Tokens {
    fn of(&self, grant: usize) -> FencingToken {
        // Before the first grant there is none to speak of: one that is far behind.
        self.0.get(grant).copied().unwrap_or(FencingToken::from_number(7).expect("a token"))
    }

    /// A token of a grant, or the one after it: an eviction raises the last token by one.
    fn name(&self, token: Option<FencingToken>) -> String {
        let Some(token) = token else { return "none".to_owned() };
        let at = |wanted: FencingToken| self.0.iter().position(|seen| *seen == wanted);
        let before = token.as_u64().checked_sub(1).and_then(FencingToken::from_number);
        match (at(token), before.and_then(at)) {
            (Some(grant), _) => format!("#{grant}"),
            (None, Some(grant)) => format!("#{grant}+1"),
            (None, None) => "another".to_owned(),
        }
    }
}

/// What a store has of all that a lock can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// Everything.
    Whole,
    /// No readers and no line: a release passes nothing on, and no renewal puts back what is gone.
    Plain,
}

struct Play {
    dice: Dice,
    range: Range,
    minting: Minting,
    together: bool,
    name: LockName,
    claims: Vec<Arc<Claim>>,
    /// A number near the clocks, for bounds.
    base: FencingToken,
    /// The bounds of this step: what is proposed, what is passed on, what is raised.
    bounds: [FencingToken; 3],
    steps: u64,
}

impl Play {
    fn new(seed: u64, clock: &Clock, range: Range, store: &dyn Store) -> Self {
        let mut dice = Dice::new(seed);
        let name = LockName::new(format!("play {seed}")).expect("valid");
        let now = FencingToken::at(clock.wall());
        let base = now.plus(Duration::from_secs(3600));
        let claims = (0..CLAIMS).map(|number| {
            let ticket = dice.per_mille(600).then(|| base.offset(dice.below(5)));
            let place = Place { ticket, lease: Duration::from_secs(60) };
            Arc::new(Claim {
                name: name.clone(),
                owner: Owner::random().expect("random bytes"),
                label: format!("claim {number}").into(),
                mode: if range == Range::Whole && dice.per_mille(300) { Mode::Shared } else { Mode::Exclusive },
                ttl: Duration::from_secs(600),
                turn: match dice.below(4) {
                    0 => Turn::AfterOthers,
                    1 => Turn::Overtake,
                    _ if range == Range::Plain => Turn::AfterOthers,
                    _ => Turn::InLine(place),
                },
                fenced: true,
                actor: dice.per_mille(500).then(|| ActorId(dice.below(1000))),
                delay: Duration::from_secs(dice.below(3)),
            })
        });
        let claims = claims.collect();
        let abilities = store.abilities();
        let (minting, together) = (abilities.minting, abilities.together && abilities.minting == Minting::Bounded);
        Self { dice, range, minting, together, name, claims, base: now, bounds: [now; 3], steps: 0 }
    }

    /// Mostly a new one; now and then one of an earlier step.
    fn bound(&mut self) -> FencingToken {
        let steps = if self.dice.per_mille(800) { self.steps } else { self.dice.below(self.steps) };
        self.base.offset(steps * 3 + self.dice.below(3))
    }

    fn proposal(&self, bound: usize) -> Proposal {
        match self.minting {
            Minting::InOrder => Proposal::Next,
            Minting::Bounded => Proposal::Bounded(self.bounds[bound]),
            Minting::Engine => unreachable!("BUG: only stores that mint are compared so"),
        }
    }

    fn repair(&mut self) -> Repair {
        match self.minting {
            // What is gone is never put back there.
            _ if self.range == Range::Plain || self.dice.per_mille(300) => Repair::Never,
            Minting::Bounded => Repair::Forgotten,
            Minting::InOrder | Minting::Engine => Repair::NotLater,
        }
    }

    fn claim(&mut self) -> Arc<Claim> {
        let at = self.dice.below(CLAIMS);
        self.claims[at as usize].clone()
    }

    fn plan(&mut self, grants: usize) -> Plan {
        self.steps += 1;
        self.bounds = [self.bound(), self.bound(), self.bound()];
        let claim = self.claim();
        // Mostly the newest, now and then an older one.
        let back = if self.dice.per_mille(700) { 0 } else { self.dice.below(3) as usize };
        let grant = grants.saturating_sub(1 + back);
        match self.dice.below(16) {
            0..=5 => Plan::Acquire { claim, unify: self.dice.per_mille(200) },
            7 if self.range == Range::Whole => {
                let claim = Arc::new(Claim { mode: Mode::Shared, ..Claim::clone(&claim) });
                Plan::Renew { claim, grant, passes: self.dice.per_mille(800), repair: self.repair() }
            }
            6 | 7 => Plan::Renew { claim, grant, passes: false, repair: self.repair() },
            8 => Plan::GiveBack { claim, grant },
            9..=12 => {
                let (raise, only) = (self.dice.per_mille(500), self.dice.per_mille(300));
                Plan::Release { claim, raise: raise.then_some(grant), then: None, only: only.then_some(grant) }
            }
            13 => {
                let then = self.claim();
                let then = (then.owner != claim.owner && self.range == Range::Whole).then_some(then);
                Plan::Release { claim, raise: None, then, only: self.dice.per_mille(200).then_some(grant) }
            }
            14 => Plan::Ask(Arc::new(YieldRequest::new(self.steps, "some'body", "a note"))),
            _ if self.dice.per_mille(300) => Plan::Evict,
            _ if self.together && claim.mode == Mode::Exclusive && claim.place().is_none() => {
                Plan::Together { claim, first: self.dice.per_mille(500) }
            }
            _ => Plan::Acquire { claim, unify: false },
        }
    }

    fn step(&self, plan: &Plan, tokens: &Tokens) -> Step {
        let attempt = u32::try_from(self.steps).expect("few steps");
        let (token, pass) = (self.proposal(0), self.proposal(1));
        let raise = |grant: usize| match self.minting {
            Minting::Bounded => self.bounds[2],
            Minting::InOrder | Minting::Engine => tokens.of(grant),
        };
        match plan {
            Plan::Acquire { claim, unify } => Step::Acquire { claim: claim.clone(), attempt, token, unify: *unify },
            Plan::Together { claim, first } => {
                // Beside a lock that nobody else uses, before or behind it.
                let name = LockName::new(format!("{} beside, {}", self.name, self.steps)).expect("valid");
                let other = Arc::new(Claim { name, ..Claim::clone(claim) });
                let part = |claim: &Arc<Claim>| Part { claim: claim.clone(), attempt, token };
                let parts = if *first { [part(claim), part(&other)] } else { [part(&other), part(claim)] };
                Step::AcquireAll { parts: parts.into() }
            }
            Plan::Renew { claim, grant, passes, repair } => Step::Renew {
                claim: claim.clone(),
                token: tokens.of(*grant),
                pass: passes.then_some(pass),
                repair: *repair,
            },
            Plan::GiveBack { claim, grant } => {
                Step::GiveBack { claim: claim.clone(), attempt, token: tokens.of(*grant), pass }
            }
            Plan::Release { claim, raise: raise_of, then, only } => Step::Release {
                claim: claim.clone(),
                raise: raise_of.map(raise),
                pass,
                then: then.as_ref().map(|then| Then { claim: then.clone(), attempt }),
                only: only.map(|grant| tokens.of(grant)),
            },
            Plan::Evict => Step::Evict { name: self.name.clone(), above: token },
            Plan::Ask(request) => Step::Ask { name: self.name.clone(), request: request.clone() },
        }
    }
}

/// What can be compared: not ages and times left, which no two clocks tell alike.
fn essence(answer: Result<Answer, Trouble>, tokens: &Tokens) -> String {
    match answer {
        Ok(Answer::Granted { token }) => format!("granted {}", tokens.name(Some(token))),
        Ok(Answer::Held { holder, last, ticket }) => {
            // Of several readers any may be named.
            let holder =
                holder.map(|holder| holder.token.filter(|_| !holder.shared).map(|token| tokens.name(Some(token))));
            format!("held by {holder:?}, last {}, in line {}", tokens.name(last), ticket.is_some())
        }
        // Bounds are the same numbers for both.
        Ok(Answer::Stale { last, .. }) => format!("stale, {last:?} is spent"),
        // The other lock is nobody else's: whether it is granted is the same for both, its token is not.
        Ok(Answer::AllGranted { tokens }) => format!("all {} granted", tokens.len()),
        Ok(Answer::Relayed { freed, then }) => format!("relayed {freed}, {}", essence(Ok(*then), tokens)),
        Ok(Answer::Evicted(holders) | Answer::Asked(holders)) => {
            let mut all: Vec<_> = holders.iter().map(|holder| (tokens.name(holder.token), holder.actor)).collect();
            all.sort_unstable();
            format!("evicted or asked {all:?}")
        }
        Ok(Answer::State(state)) => {
            let holders = state.holders.iter();
            let mut holders: Vec<_> =
                holders.map(|holder| (&holder.label, tokens.name(holder.token), holder.shared, holder.actor)).collect();
            holders.sort_unstable();
            let waiters: Vec<_> =
                state.waiters.iter().map(|waiter| (&waiter.label, waiter.shared, waiter.actor)).collect();
            format!("{holders:?} {waiters:?} last {}", tokens.name(state.last_token))
        }
        other => format!("{other:?}"),
    }
}

fn inspect(store: &(impl Store + ?Sized), name: &LockName) -> fencepost_core::LockState {
    match run(store, Step::Inspect { name: name.clone() }) {
        Ok(Answer::State(state)) => state,
        other => panic!("no state, but {other:?}"),
    }
}

/// New grants get their number, those of one label the same in both.
fn learn(memory: &mut Tokens, sql: &mut Tokens, states: (&fencepost_core::LockState, &fencepost_core::LockState)) {
    let tokens_of = |state: &fencepost_core::LockState| -> BTreeMap<FencingToken, String> {
        state.holders.iter().filter_map(|holder| Some((holder.token?, holder.label.clone()))).collect()
    };
    let there = tokens_of(states.1);
    for (token, label) in tokens_of(states.0) {
        let same = there.iter().find(|(_, other)| **other == label).map(|(token, _)| *token);
        if let Some(same) = same
            && !memory.0.contains(&token)
            && !sql.0.contains(&same)
        {
            memory.0.push(token);
            sql.0.push(same);
        }
    }
}

/// Runs so many random sequences of so many steps, each step on any of these connections to the same tables: what one of
/// them believes to know of a lock is then often out of date.
///
/// # Panics
/// If an answer differs, or some kind of answer never came.
pub fn answers_as_the_table_does(
    stores: &[Arc<dyn Store>],
    clock: &Clock,
    range: Range,
    (sequences, steps): (u64, u64),
) {
    let (mut answers, mut detours) = (BTreeMap::<String, u64>::new(), 0);
    for seed in 0..sequences {
        let memory = Memory::node(clock.clone(), "memory");
        let mut play = Play::new(seed, clock, range, &*stores[0]);
        let _ears: Vec<_> = play
            .claims
            .iter()
            .map(|claim| {
                (listen(&memory, claim), stores.iter().map(|store| listen(&**store, claim)).collect::<Vec<_>>())
            })
            .collect();
        let (mut known, mut known_in_sql, mut said) = (Tokens::default(), Tokens::default(), Vec::new());
        for _ in 0..steps {
            let plan = play.plan(known.0.len());
            let at = play.dice.below(stores.len() as u64) as usize;
            let store = &*stores[at];
            let step = play.step(&plan, &known);
            let table = run(&memory, step.clone());
            let real = run(store, play.step(&plan, &known_in_sql));
            let real = match (&step, &table, real) {
                // A store may look less closely; then each is asked for alone.
                (Step::AcquireAll { parts }, Ok(Answer::AllGranted { .. }), Ok(Answer::NotAll)) => {
                    detours += 1;
                    one_by_one(store, parts)
                }
                (_, _, real) => real,
            };
            let states = (inspect(&memory, &play.name), inspect(store, &play.name));
            learn(&mut known, &mut known_in_sql, (&states.0, &states.1));
            let (table, real) = (essence(table, &known), essence(real, &known_in_sql));
            said.push(format!("at {at}: {step:?}\n    -> {table}"));
            assert_eq!(real, table, "seed {seed}, after\n{}", said.join("\n"));
            let shown = |state, tokens: &Tokens| essence(Ok(Answer::State(state)), tokens);
            let (table_state, real_state) = (shown(states.0, &known), shown(states.1, &known_in_sql));
            assert_eq!(real_state, table_state, "seed {seed}, after\n{}", said.join("\n"));
            *answers.entry(table.split([' ', '(']).take(2).collect::<Vec<_>>().join(" ")).or_default() += 1;
        }
    }
    if stores[0].abilities().together && stores[0].abilities().minting == Minting::Bounded {
        let granted = answers.get("all 2").copied().unwrap_or_default();
        assert!(granted > detours && answers.contains_key("Ok NotAll)"), "{detours} detours: {answers:?}");
    }
    let mut words = vec!["granted #", "held by", "evicted or", "Ok Freed)", "Ok NotHeld)", "Ok Kept)", "Ok Lost"];
    if range == Range::Whole {
        words.push("relayed true,");
    }
    if stores[0].abilities().minting == Minting::Bounded {
        words.push("stale,");
    }
    for word in words {
        assert!(answers.keys().any(|answer| answer.starts_with(word)), "{word} never came: {answers:?}");
    }
}

/// Takes each of several alone.
///
/// # Panics
/// If one of them is not granted.
pub fn one_by_one(store: &(impl Store + ?Sized), parts: &[Part]) -> Result<Answer, Trouble> {
    let tokens = parts.iter().map(|part| match run(store, part.alone()) {
        Ok(Answer::Granted { token }) => token,
        other => panic!("all would be granted, but {other:?}"),
    });
    Ok(Answer::AllGranted { tokens: tokens.collect() })
}
