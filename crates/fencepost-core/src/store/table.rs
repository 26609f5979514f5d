//! What each step of the contract means, written once and executable.
//!
//! [`apply`] is the whole semantics of a lock: pure but for the [`Shelf`] it works on. The memory store runs it on a
//! map, SQLite inside a transaction; a store that has to speak another language (a Lua script) is tested against it.
//!
//! The rules, and why each is there (leave one out, and a model checker finds two holders, a token that falls, or a
//! lock that nobody holds and nobody can take):
//! - A grant needs a free lock **and** a token above the last one seen. So the tokens of one lock rise in grant order.
//! - A proposed token must lie within a window of the *store's* clock ([`WINDOW`]): a client whose clock is off can
//!   neither poison a lock nor undercut it.
//! - Asking again is the same claim: the owner finds its grant and extends it; only *unify* replaces its token.
//! - A release raises the last token to the highest its owner ever proposed: an acquire that arrives after its own
//!   release is refused. Where the store mints, no client's number touches the last token. There each request names a *bound*,
//!   which is spent by the grant or the place in line that it brings, or by the release of its claim; a request whose bound is
//!   not above all that are spent is a copy, or late, and is refused.
//! - A release for an owner whose value serves more than one claim names the token of the grant it means: a late one never
//!   ends a newer use of that value.
//! - A renewal by somebody who has yet to prove that the lease is theirs extends what is there, and does nothing else.
//! - Any other renewal re-creates a missing grant only if nobody waits and no later token was seen, and keeps no grant of its
//!   owner's that is newer than its token: such a one came by a request that was late, after the hold's own grant had ended
//!   there, and others may have had the lock in between. A store that decides alone and may forget re-creates only what it has
//!   forgotten: that the last token is the renewed one does not say whose it was.
//! - A grant becomes weaker, never stronger: a reader's renewal makes a writer's grant shared; whatever of the writer
//!   arrives late finds it so and leaves it so.
//! - A give-back names the exact token: a late one never frees a newer grant.
//! - A grant is kept for the claim's delay beyond what its owner counts on, so a lock that nobody released rests for
//!   that long before the next owner has it; a release frees it at once.
//! - A place in line keeps its ticket. A claim that has none yet gets the next: whoever comes later stands behind it,
//!   whatever the clients take for the time.
//! - A record is written by whoever has the newest token that was seen there; to seal it is to be seen.
//! - Release, give-back and whoever finds the lock free hand it to the lowest live ticket, in the same step.

mod record;
mod shelf;

use std::time::Duration;

use crate::actor::ActorId;
use crate::error::StoreErrorKind;
use crate::name::Owner;
use crate::state::{Holder, LockState, Waiter, YieldRequest};
use crate::store::{Answer, Claim, Loss, Mode, Part, Place, Proposal, Repair, Step, Then, Trouble, Turn};
use crate::token::FencingToken;

pub use record::Kept;
pub use shelf::{Held, Notice, Now, Queued, Shelf};

/// How far a proposed token may lie ahead of the store's clock.
pub const WINDOW: Duration = Duration::from_secs(10);
/// A proposal may always go so far beyond the last token: it keeps a lock usable after a clock was set back.
pub const STEP_MAX: u64 = 16;
/// A lock that nobody used for so long is forgotten. Longer than [`WINDOW`], so that no old proposal fits any more.
pub const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// The most waiters that one lock has in a store.
pub const WAITERS_MAX: u32 = 10_000;

/// Runs one step on the rows of its lock. The outer error is the shelf's, the inner one is the answer "certainly not".
/// What is about many locks is for the store itself: it shows each of a [`Step::List`] with [`state`], and runs each of
/// a [`Step::AcquireAll`] alone if all of them [would be granted](would_grant), in one transaction.
pub fn apply<S: Shelf>(shelf: &mut S, step: &Step, now: Now) -> Result<Result<Answer, Trouble>, S::Error> {
    if let Step::Record { deed, .. } = step {
        return record::apply(shelf, deed, now.clock).map(Ok);
    }
    let mut desk = Desk::open(shelf, now)?;
    match step {
        Step::Acquire { claim, attempt, token, unify } => desk.acquire(claim, *attempt, *token, *unify),
        Step::Renew { claim, token, pass, repair } => desk.renew(claim, *token, *pass, *repair),
        Step::GiveBack { claim, attempt, token, pass } => desk.give_back(claim, *attempt, *token, *pass).map(Ok),
        Step::Release { claim, raise, pass, then, only } => {
            desk.release(&claim.owner, *raise, *pass, then.as_ref(), *only)
        }
        Step::Evict { above, .. } => desk.evict(*above).map(Ok),
        Step::Ask { request, .. } => desk.ask(request).map(Ok),
        Step::Inspect { name } => desk.state(name.as_str()).map(|state| Ok(Answer::State(state))),
        Step::List { .. } | Step::AcquireAll { .. } | Step::Record { .. } => {
            unreachable!("BUG: it is not about one lock's holders")
        }
    }
}

/// Whether one of several would be granted if it asked alone, now.
pub fn would_grant<S: Shelf>(shelf: &mut S, part: &Part, now: Now) -> Result<bool, S::Error> {
    let mut desk = Desk::open(shelf, now)?;
    let fits = now.quarantined.is_none() && desk.token(part.token).is_some();
    Ok(fits && desk.admits(part.claim.mode) && desk.is_next(&part.claim)?)
}

/// What can be seen of a lock.
pub fn state<S: Shelf>(shelf: &mut S, name: &str, now: Now) -> Result<LockState, S::Error> {
    Desk::open(shelf, now)?.state(name)
}

/// The token that a store mints: one more than the last, and not below its clock, so that forgetting or restoring old
/// rows never lowers the next token.
fn minted(last: Option<FencingToken>, clock: FencingToken) -> FencingToken {
    last.map_or(clock, |last| last.next().max(clock))
}

/// Whether a number that a client chose is near the store's clock, or few steps beyond what is remembered.
fn is_below_ceiling(number: FencingToken, clock: FencingToken, known: Option<FencingToken>) -> bool {
    number <= clock.plus(WINDOW) || known.is_some_and(|known| number <= known.offset(STEP_MAX))
}

/// Who gets a grant.
struct Heir<'a> {
    owner: Owner,
    mode: Mode,
    label: &'a str,
    actor: Option<ActorId>,
}

impl<'a> Heir<'a> {
    fn of_claim(claim: &'a Claim) -> Self {
        Self { owner: claim.owner, mode: claim.mode, label: &claim.label, actor: claim.actor }
    }

    fn of_place(queued: &'a Queued) -> Self {
        Self { owner: queued.owner, mode: queued.mode, label: &queued.label, actor: queued.actor }
    }
}

/// One step at work: the live grants and the last token, beside the shelf they came from.
struct Desk<'a, S> {
    shelf: &'a mut S,
    now: Now,
    holders: Vec<Held>,
    last: Option<FencingToken>,
    /// The highest bound that is spent.
    spent: Option<FencingToken>,
}

impl<'a, S: Shelf> Desk<'a, S> {
    /// Reads the lock and clears away what is over.
    fn open(shelf: &'a mut S, now: Now) -> Result<Self, S::Error> {
        let (mut holders, last, spent) = (shelf.holders()?, shelf.last()?, shelf.spent()?);
        for over in holders.iter().filter(|held| held.until <= now.moment) {
            shelf.remove_holder(&over.owner)?;
        }
        holders.retain(|held| held.until > now.moment);
        Ok(Self { shelf, now, holders, last, spent })
    }

    fn acquire(
        &mut self,
        claim: &Claim,
        attempt: u32,
        proposal: Proposal,
        unify: bool,
    ) -> Result<Result<Answer, Trouble>, S::Error> {
        if let Some(refusal) = self.quarantine() {
            return Ok(Err(refusal));
        }
        if let Some(mut mine) = self.holders.iter().find(|held| held.owner == claim.owner).cloned() {
            if let (true, Proposal::Exactly(token)) = (unify, proposal) {
                if token != mine.token && !self.fits(token) {
                    return Ok(Ok(self.stale(proposal)));
                }
                if token != mine.token {
                    // Another grant: nobody was asked for it yet.
                    (mine.token, mine.asked) = (token, None);
                }
            }
            mine.until = mine.until.max(self.now.moment.plus(claim.kept_for()));
            mine.attempt = mine.attempt.max(attempt);
            let token = mine.token;
            self.put_holder(mine)?;
            self.spend(proposal)?;
            return Ok(Ok(Answer::Granted { token }));
        }
        let Some(token) = self.token(proposal) else { return Ok(Ok(self.stale(proposal))) };
        if self.admits(claim.mode) && self.is_next(claim)? {
            self.shelf.remove_waiter(&claim.owner)?;
            self.grant(Heir::of_claim(claim), claim.kept_for(), token, attempt)?;
            self.spend(proposal)?;
            if claim.mode == Mode::Shared {
                self.hint_head()?;
            }
            return Ok(Ok(Answer::Granted { token }));
        }
        let mut ticket = None;
        if let Some(place) = claim.place() {
            ticket = match self.join(claim, place, attempt)? {
                Ok(ticket) => Some(ticket),
                Err(refusal) => return Ok(Err(refusal)),
            };
            self.spend(proposal)?;
            // The lock may be free, its holder gone without a release: whoever asks wakes the line.
            self.hand_over(proposal)?;
        }
        let holder = self.holders.first().map(|held| self.shown(held));
        Ok(Ok(Answer::Held { holder, last: self.last, ticket }))
    }

    fn renew(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        pass: Option<Proposal>,
        repair: Repair,
    ) -> Result<Result<Answer, Trouble>, S::Error> {
        let lifts = repair == Repair::NotLater;
        let fits = |held: &Held| if lifts { held.token <= token } else { held.token == token };
        let kept = |held: &&Held| held.owner == claim.owner && fits(held);
        if let Some(mut mine) = self.holders.iter().find(kept).cloned() {
            if mine.token < token {
                if let Some(refusal) = self.quarantine() {
                    return Ok(Err(refusal));
                }
                if !self.below_ceiling(token) {
                    return Ok(Ok(Answer::Lost(Loss::TakenOver)));
                }
                // It was given back, maybe, and that is still under way: it must not free what counts from now on.
                (mine.token, mine.asked) = (token, None);
            }
            mine.until = self.now.moment.plus(claim.kept_for());
            let asked = mine.asked.clone();
            let downgraded = claim.mode == Mode::Shared && mine.mode == Mode::Exclusive;
            if downgraded {
                mine.mode = Mode::Shared;
            }
            self.put_holder(mine)?;
            if let Some(pass) = pass.filter(|_| downgraded) {
                self.hand_over(pass)?;
            }
            return Ok(Ok(asked.map_or(Answer::Kept, Answer::KeptAndAsked)));
        }
        if self.shelf.revoked(&claim.owner)? {
            return Ok(Ok(Answer::Lost(Loss::Revoked)));
        }
        if let Some(refusal) = self.quarantine() {
            return Ok(Err(refusal));
        }
        let may_be_made = match repair {
            Repair::Never => false,
            Repair::Forgotten => self.last.is_none() && self.holders.is_empty(),
            Repair::NotLater => self.last.is_none_or(|last| last <= token) && self.admits(claim.mode),
        };
        if !may_be_made || !self.below_ceiling(token) || self.live_head()?.is_some() {
            return Ok(Ok(Answer::Lost(Loss::TakenOver)));
        }
        self.grant(Heir::of_claim(claim), claim.kept_for(), token, 0)?;
        Ok(Ok(Answer::Kept))
    }

    fn give_back(
        &mut self,
        claim: &Claim,
        attempt: u32,
        token: FencingToken,
        pass: Proposal,
    ) -> Result<Answer, S::Error> {
        let mine = self.holders.iter().any(|held| held.owner == claim.owner && held.token == token);
        if mine {
            self.drop_holder(&claim.owner)?;
        }
        self.raise(Some(token).filter(|_| !matches!(pass, Proposal::Bounded(_))))?;
        let holds = self.holders.iter().any(|held| held.owner == claim.owner);
        // Only with a token that fits: a late give-back must not bring a claim back into the line that has left it.
        let may_join = !holds && self.now.quarantined.is_none() && self.token(pass).is_some();
        if let Some(place) = claim.place().filter(|_| may_join) {
            // A line that is full has no place for it; then it asks again.
            let _ = self.join(claim, place, attempt)?;
            self.spend(pass)?;
        }
        self.hand_over(pass)?;
        Ok(if mine { Answer::Freed } else { Answer::NotHeld })
    }

    fn release(
        &mut self,
        owner: &Owner,
        raise: Option<FencingToken>,
        pass: Proposal,
        then: Option<&Then>,
        only: Option<FencingToken>,
    ) -> Result<Result<Answer, Trouble>, S::Error> {
        let is_meant = |held: &Held| only.is_none_or(|only| held.token <= only);
        let mine = self.holders.iter().any(|held| held.owner == *owner && is_meant(held));
        if mine {
            self.drop_holder(owner)?;
        }
        if only.is_none() {
            self.shelf.remove_waiter(owner)?;
        }
        match pass {
            Proposal::Bounded(_) => raise.map_or(Ok(()), |bound| self.spend(Proposal::Bounded(bound)))?,
            Proposal::Next | Proposal::Exactly(_) => self.raise(raise)?,
        }
        let relayed = match then {
            Some(then) => Some(self.acquire(&then.claim, then.attempt, pass, false)?),
            None => None,
        };
        self.hand_over(pass)?;
        Ok(match relayed {
            Some(Ok(answer)) => Ok(Answer::Relayed { freed: mine, then: Box::new(answer) }),
            // The other claim may not take part now; it asks again by itself.
            Some(Err(_)) | None if mine => Ok(Answer::Freed),
            Some(Err(_)) | None => Ok(Answer::NotHeld),
        })
    }

    fn evict(&mut self, above: Proposal) -> Result<Answer, S::Error> {
        let thrown_out: Vec<Holder> = self.holders.iter().map(|held| self.shown(held)).collect();
        for owner in self.holders.iter().map(|held| held.owner).collect::<Vec<_>>() {
            self.shelf.set_revoked(&owner)?;
            self.drop_holder(&owner)?;
        }
        let pass = match above {
            // Above the holder's own token, so that its renewal does not re-create the grant.
            Proposal::Next | Proposal::Bounded(_) => {
                self.raise(self.last.map(FencingToken::next))?;
                above
            }
            Proposal::Exactly(above) => {
                self.raise(Some(above))?;
                Proposal::Exactly(above.next())
            }
        };
        self.hand_over(pass)?;
        Ok(Answer::Evicted(thrown_out))
    }

    fn ask(&mut self, request: &YieldRequest) -> Result<Answer, S::Error> {
        let asked: Vec<Holder> = self.holders.iter().map(|held| self.shown(held)).collect();
        for held in self.holders.clone() {
            self.put_holder(Held { asked: Some(request.clone()), ..held })?;
        }
        Ok(Answer::Asked(asked))
    }

    fn state(&mut self, name: &str) -> Result<LockState, S::Error> {
        let mut state = LockState::free(name);
        state.holders = self.holders.iter().map(|held| self.shown(held)).collect();
        state.last_token = self.last;
        let now = self.now.moment;
        let live = self.shelf.waiters(WAITERS_MAX)?.into_iter().filter(|queued| queued.until > now);
        let shown = |queued: Queued| {
            let waiter = Waiter::new(queued.label, queued.mode == Mode::Shared, now.since(queued.since));
            Waiter { actor: queued.actor, ..waiter }
        };
        state.waiters = live.map(shown).collect();
        Ok(state)
    }

    /// Gives the free lock to the lowest live ticket, and to the readers behind it if it is a reader.
    fn hand_over(&mut self, pass: Proposal) -> Result<(), S::Error> {
        if self.now.quarantined.is_some() {
            return Ok(());
        }
        while let Some(head) = self.live_head()? {
            if !self.admits(head.mode) {
                return Ok(());
            }
            let token = match pass {
                // A claim's end does not make the next in line wait, however late it comes.
                Proposal::Bounded(_) => self.token(Proposal::Next),
                Proposal::Next | Proposal::Exactly(_) => self.token(pass),
            };
            let notice = token.map_or(Notice::MayPay, |token| Notice::HandedOver { token });
            if !self.shelf.tell(&head, notice)? {
                self.shelf.remove_waiter(&head.owner)?;
                continue;
            }
            let Some(token) = token else { return Ok(()) };
            self.shelf.remove_waiter(&head.owner)?;
            self.grant(Heir::of_place(&head), head.kept_for, token, head.attempt)?;
        }
        Ok(())
    }

    /// A reader was let in: the reader behind it may follow.
    fn hint_head(&mut self) -> Result<(), S::Error> {
        if let Some(head) = self.live_head()?.filter(|head| self.admits(head.mode)) {
            self.shelf.tell(&head, Notice::MayPay)?;
        }
        Ok(())
    }

    /// Joins the line, or keeps the place. Answers its ticket; refuses when the line is full.
    fn join(&mut self, claim: &Claim, place: Place, attempt: u32) -> Result<Result<FencingToken, Trouble>, S::Error> {
        let until = self.now.moment.plus(place.lease);
        let queued = match self.shelf.waiter(&claim.owner)? {
            Some(old) => Queued { until, attempt: old.attempt.max(attempt), ..old },
            None if self.shelf.waiter_count()? >= WAITERS_MAX => {
                let message = format!("{WAITERS_MAX} wait for {:?} already; try again later", claim.name.as_str());
                return Ok(Err(Trouble::new(StoreErrorKind::Unsupported, message)));
            }
            None => Queued {
                owner: claim.owner,
                ticket: match place.ticket {
                    Some(ticket) => ticket,
                    None => self.shelf.tail()?.map_or(self.now.clock, |tail| tail.next().max(self.now.clock)),
                },
                mode: claim.mode,
                label: claim.label.to_string(),
                since: self.now.moment,
                until,
                kept_for: place.lease.saturating_add(claim.delay),
                attempt,
                actor: claim.actor,
            },
        };
        self.shelf.put_waiter(&queued)?;
        Ok(Ok(queued.ticket))
    }

    /// Whether nobody in line comes before this claim.
    fn is_next(&mut self, claim: &Claim) -> Result<bool, S::Error> {
        if claim.turn == Turn::Overtake {
            return Ok(true);
        }
        let Some(head) = self.live_head()? else { return Ok(true) };
        let ticket = claim.place().and_then(|place| place.ticket);
        Ok(claim.owner == head.owner || ticket.is_some_and(|ticket| (ticket, claim.owner) < head.rank()))
    }

    /// The lowest ticket whose owner was heard of in time; clears away those before it.
    fn live_head(&mut self) -> Result<Option<Queued>, S::Error> {
        while let Some(head) = self.shelf.head()? {
            if head.until > self.now.moment {
                return Ok(Some(head));
            }
            self.shelf.remove_waiter(&head.owner)?;
        }
        Ok(None)
    }

    fn admits(&self, mode: Mode) -> bool {
        self.holders.is_empty() || (mode == Mode::Shared && self.holders.iter().all(|held| held.mode == Mode::Shared))
    }

    fn quarantine(&self) -> Option<Trouble> {
        let left = self.now.quarantined?;
        let message = "it lost its memory and may not vote until every lease it may have forgotten is over";
        Some(Trouble::new(StoreErrorKind::Quarantined { left }, message))
    }

    /// The token of a grant, if the proposal fits.
    fn token(&self, proposal: Proposal) -> Option<FencingToken> {
        match proposal {
            Proposal::Next => Some(minted(self.last, self.now.clock)),
            Proposal::Bounded(bound) => self.is_new(bound).then(|| minted(self.last, self.now.clock)),
            Proposal::Exactly(token) => self.fits(token).then_some(token),
        }
    }

    fn fits(&self, token: FencingToken) -> bool {
        self.last.is_none_or(|last| token > last) && token >= self.now.clock && self.below_ceiling(token)
    }

    fn below_ceiling(&self, token: FencingToken) -> bool {
        is_below_ceiling(token, self.now.clock, self.last)
    }

    /// Whether a request with this bound is new.
    fn is_new(&self, bound: FencingToken) -> bool {
        bound.plus(WINDOW) >= self.now.clock && self.may_be_spent(bound)
    }

    fn may_be_spent(&self, bound: FencingToken) -> bool {
        self.spent.is_none_or(|spent| bound > spent) && is_below_ceiling(bound, self.now.clock, self.spent)
    }

    fn stale(&self, proposal: Proposal) -> Answer {
        let last = match proposal {
            Proposal::Bounded(_) => self.spent,
            Proposal::Next | Proposal::Exactly(_) => self.last,
        };
        Answer::Stale { last, clock: self.now.clock }
    }

    /// No request with this bound or a lower one is new any more.
    fn spend(&mut self, proposal: Proposal) -> Result<(), S::Error> {
        match proposal {
            Proposal::Bounded(bound) if self.may_be_spent(bound) => {
                self.spent = Some(bound);
                self.shelf.set_spent(bound)
            }
            _ => Ok(()),
        }
    }

    fn raise(&mut self, to: Option<FencingToken>) -> Result<(), S::Error> {
        match to {
            Some(to) if self.last.is_none_or(|last| to > last) && self.below_ceiling(to) => self.set_last(to),
            _ => Ok(()),
        }
    }

    fn grant(&mut self, to: Heir<'_>, life: Duration, token: FencingToken, attempt: u32) -> Result<(), S::Error> {
        let Heir { owner, mode, label, actor } = to;
        let (since, until) = (self.now.moment, self.now.moment.plus(life));
        self.put_holder(Held { owner, token, mode, label: label.to_owned(), since, until, attempt, actor, asked: None })
    }

    fn put_holder(&mut self, held: Held) -> Result<(), S::Error> {
        self.shelf.put_holder(&held)?;
        if self.last.is_none_or(|last| held.token > last) {
            self.set_last(held.token)?;
        }
        self.holders.retain(|other| other.owner != held.owner);
        self.holders.push(held);
        Ok(())
    }

    fn drop_holder(&mut self, owner: &Owner) -> Result<(), S::Error> {
        self.shelf.remove_holder(owner)?;
        self.holders.retain(|held| held.owner != *owner);
        Ok(())
    }

    fn set_last(&mut self, last: FencingToken) -> Result<(), S::Error> {
        self.last = Some(last);
        self.shelf.set_last(last)
    }

    fn shown(&self, held: &Held) -> Holder {
        let mut holder = Holder::new(held.label.as_str());
        holder.token = Some(held.token);
        holder.shared = held.mode == Mode::Shared;
        holder.held_for = Some(self.now.moment.since(held.since));
        holder.expires_in = Some(held.until.since(self.now.moment));
        holder.actor = held.actor;
        holder
    }
}
