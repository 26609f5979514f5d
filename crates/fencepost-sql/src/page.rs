//! The rows of one lock while a step works on them: read at once, written at once.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::store::table::{Held, Kept, Notice, Now, Queued, Shelf};
use fencepost_core::store::{ActorId, FencingToken, Mode, Moment, Owner, YieldRequest};

use crate::changes::{Changes, LockRow};
use crate::database::Want;
use crate::hub::Hub;

/// What a row of the reading statement is about; the number is its first column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowKind {
    /// 0: the lock: `number` is its last token (0: none), `since_us` the clock, `shared` whether it is busy, `until_us`
    /// until when a late request may come.
    Lock,
    /// 1: a grant; `number` is its token.
    Holder,
    /// 2: a place in the part of the line that was read; `number` is its ticket.
    Waiter,
    /// 3: the place of one who was asked about.
    AskedAbout,
    /// 4: one who was asked about was thrown out.
    Revoked,
    /// 5: `number` is the length of the line, `since_us` its highest ticket (0: none).
    Count,
    /// 6: the grant in the row of the lock itself; `number` is its token.
    Seat,
}

impl RowKind {
    /// The kind with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::Lock, Self::Holder, Self::Waiter, Self::AskedAbout, Self::Revoked, Self::Count, Self::Seat]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

/// One row of the reading statement; the same columns in every dialect.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the columns of the tables, which the schema describes")]
pub struct Row {
    pub kind: RowKind,
    pub owner: Option<String>,
    pub number: i64,
    pub shared: bool,
    pub label: String,
    pub since_us: i64,
    pub until_us: i64,
    pub kept_us: i64,
    pub attempt: i64,
    pub actor: Option<String>,
    pub ask_number: Option<i64>,
    pub ask_by: Option<String>,
    pub ask_note: Option<String>,
    pub inbox: Option<String>,
}

impl Row {
    /// A row of this kind with nothing in it.
    pub fn empty(kind: RowKind) -> Self {
        Self {
            kind,
            owner: None,
            number: 0,
            shared: false,
            label: String::new(),
            since_us: 0,
            until_us: 0,
            kept_us: 0,
            attempt: 0,
            actor: None,
            ask_number: None,
            ask_by: None,
            ask_note: None,
            inbox: None,
        }
    }
}

/// A place in line, and where its owner hears.
#[derive(Clone, Debug)]
struct Line {
    queued: Queued,
    inbox: Option<String>,
}

/// The page cannot answer: more of the line has to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Short;

/// The rows of one lock.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The database's clock when they were read.
    pub now_us: i64,
    last: Option<FencingToken>,
    /// All grants, wherever they are kept.
    holders: Vec<Held>,
    /// Whose grant is in the row of the lock.
    seat: Option<Owner>,
    /// Whose grants are in the table of holders.
    seated_elsewhere: Vec<Owner>,
    /// As the row says it: there may be rows of this lock in the other tables.
    busy: bool,
    late_until_us: i64,
    /// The start of the line.
    line: BTreeMap<(FencingToken, Owner), Line>,
    /// There is more of it than was read.
    more: bool,
    /// Places behind that start, of those who were asked about.
    behind: BTreeMap<Owner, Line>,
    asked_about: Vec<Owner>,
    count: Option<u32>,
    /// The highest ticket, where the end of the line was not read.
    tail: Option<FencingToken>,
    revoked: Vec<Owner>,
}

impl Page {
    /// Puts rows together that were read as wanted.
    ///
    /// # Errors
    /// With what is wrong, if a row cannot be one of ours.
    pub fn of(rows: impl IntoIterator<Item = Row>, want: &Want) -> Result<Self, String> {
        let mut page = Self { asked_about: want.places.clone(), ..Self::default() };
        for row in rows {
            page.add(row)?;
        }
        let all_read = i64::try_from(page.line.len()).unwrap_or(i64::MAX) < want.line;
        // Where nothing of the line was read, the row still knows that there is none.
        page.more = !all_read && (page.busy || want.line > 0);
        if !page.more {
            page.count = Some(u32::try_from(page.line.len()).unwrap_or(u32::MAX));
        }
        let Self { line, behind, .. } = &mut page;
        behind.retain(|_, place| !line.contains_key(&rank(&place.queued)));
        Ok(page)
    }

    fn add(&mut self, row: Row) -> Result<(), String> {
        match row.kind {
            RowKind::Lock => {
                self.now_us = row.since_us;
                self.last = token(row.number).ok();
                (self.busy, self.late_until_us) = (row.shared, row.until_us);
            }
            RowKind::Seat => {
                let held = held(row)?;
                self.seat = Some(held.owner);
                self.holders.push(held);
            }
            RowKind::Holder => {
                let held = held(row)?;
                self.seated_elsewhere.push(held.owner);
                self.holders.push(held);
            }
            RowKind::Waiter => {
                let place = place(row)?;
                self.line.insert(rank(&place.queued), place);
            }
            RowKind::AskedAbout => {
                let place = place(row)?;
                self.behind.insert(place.queued.owner, place);
            }
            RowKind::Revoked => self.revoked.push(owner(row.owner.as_deref())?),
            RowKind::Count => {
                self.count = Some(u32::try_from(row.number).unwrap_or(u32::MAX));
                self.tail = token(row.since_us).ok();
            }
        }
        Ok(())
    }

    /// What the database's clock said, for the table.
    pub fn now(&self) -> Now {
        let since_1970 = Duration::from_micros(self.now_us.unsigned_abs());
        Now { moment: moment(self.now_us), clock: FencingToken::at(UNIX_EPOCH + since_1970), quarantined: None }
    }

    /// Several hold it, or somebody is or may be in line: no step can do without looking at the other tables.
    pub(crate) fn is_busy(&self) -> bool {
        self.holders.len() > 1 || self.more || !self.line.is_empty() || !self.behind.is_empty()
    }

    /// Nobody has it but, perhaps, one of these.
    pub(crate) fn is_only_of(&self, owners: &[Owner]) -> bool {
        self.holders.iter().all(|held| owners.contains(&held.owner))
    }

    /// Whether this owner is the first in line.
    pub fn is_head(&self, owner: &Owner) -> bool {
        self.line.keys().next().is_some_and(|(_, head)| head == owner)
    }
}

/// A page at work.
pub(crate) struct OpenPage<'a> {
    pub(crate) page: &'a mut Page,
    pub(crate) changes: Changes,
    pub(crate) hub: &'a Hub,
}

impl<'a> OpenPage<'a> {
    pub(crate) fn new(page: &'a mut Page, hub: &'a Hub) -> Self {
        let changes = Changes { now_us: page.now_us, ..Changes::default() };
        Self { page, changes, hub }
    }

    /// What is to be written. `late_us`: until then a request of ours may still come that was given up.
    pub(crate) fn close(self, late_us: i64) -> Changes {
        let Self { page, mut changes, .. } = self;
        let (late_until_us, busy, several) = (page.late_until_us.max(late_us), page.is_busy(), page.holders.len() > 1);
        if changes.is_empty() && late_until_us == page.late_until_us {
            return changes;
        }
        // One grant is kept in the row of the lock, several in a table.
        let seat = page.holders.first().filter(|_| !several).cloned();
        let is_kept = |owner: &Owner| several && page.holders.iter().any(|held| held.owner == *owner);
        changes.drop_holders = page.seated_elsewhere.iter().filter(|owner| !is_kept(owner)).copied().collect();
        if several {
            let is_new = |held: &&Held| !page.seated_elsewhere.contains(&held.owner);
            let moved = |held: &&Held| is_new(held) || changes.holders.contains_key(&held.owner);
            changes.put_holders = page.holders.iter().filter(moved).cloned().collect();
        }
        let moved = seat.as_ref().map(|held| held.owner) != page.seat;
        let marked = busy != page.busy || late_until_us != page.late_until_us;
        if moved || marked || changes.touches_lock() {
            changes.row = Some(LockRow { seat, busy, late_until_us });
        }
        changes
    }

    fn place(&self, owner: &Owner) -> Option<&Line> {
        self.page.behind.get(owner).or_else(|| self.page.line.values().find(|place| place.queued.owner == *owner))
    }

    /// The same, if it can be known.
    fn known_place(&self, owner: &Owner) -> Result<Option<&Line>, Short> {
        match self.place(owner) {
            None if self.page.more && !self.page.asked_about.contains(owner) => Err(Short),
            place => Ok(place),
        }
    }
}

impl Shelf for OpenPage<'_> {
    type Error = Short;

    fn holders(&mut self) -> Result<Vec<Held>, Short> {
        Ok(self.page.holders.clone())
    }

    fn put_holder(&mut self, held: &Held) -> Result<(), Short> {
        self.page.holders.retain(|other| other.owner != held.owner);
        self.page.holders.push(held.clone());
        self.changes.holders.insert(held.owner, Some(held.clone()));
        Ok(())
    }

    fn remove_holder(&mut self, owner: &Owner) -> Result<(), Short> {
        self.page.holders.retain(|held| held.owner != *owner);
        self.changes.holders.insert(*owner, None);
        Ok(())
    }

    fn last(&mut self) -> Result<Option<FencingToken>, Short> {
        Ok(self.page.last)
    }

    fn set_last(&mut self, last: FencingToken) -> Result<(), Short> {
        self.page.last = Some(last);
        self.changes.last = Some(last);
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Queued>, Short> {
        match self.page.line.values().next() {
            None if self.page.more => Err(Short),
            head => Ok(head.map(|place| place.queued.clone())),
        }
    }

    fn tail(&mut self) -> Result<Option<FencingToken>, Short> {
        if self.page.more && self.page.tail.is_none() {
            return Err(Short);
        }
        // One that joined in this very step may be behind what was read.
        let behind = self.page.behind.values().map(|place| place.queued.ticket).max();
        let read = self.page.line.keys().next_back().map(|(ticket, _)| *ticket);
        Ok(self.page.tail.max(read).max(behind))
    }

    fn waiter(&mut self, owner: &Owner) -> Result<Option<Queued>, Short> {
        Ok(self.known_place(owner)?.map(|place| place.queued.clone()))
    }

    fn waiters(&mut self, limit: u32) -> Result<Vec<Queued>, Short> {
        if self.page.more && self.page.line.len() < limit as usize {
            return Err(Short);
        }
        Ok(self.page.line.values().take(limit as usize).map(|place| place.queued.clone()).collect())
    }

    fn waiter_count(&mut self) -> Result<u32, Short> {
        self.page.count.ok_or(Short)
    }

    fn put_waiter(&mut self, queued: &Queued) -> Result<(), Short> {
        let inbox = self.hub.inbox(&queued.owner);
        if self.known_place(&queued.owner)?.is_none() {
            self.page.count = self.page.count.map(|count| count + 1);
        }
        let place = Line { queued: queued.clone(), inbox: inbox.clone() };
        let beyond = self.page.line.keys().next_back().is_none_or(|last| *last < rank(queued));
        if self.page.more && beyond {
            self.page.behind.insert(queued.owner, place);
        } else {
            self.page.line.insert(rank(queued), place);
        }
        self.changes.waiters.insert(queued.owner, Some((queued.clone(), inbox)));
        Ok(())
    }

    fn remove_waiter(&mut self, owner: &Owner) -> Result<bool, Short> {
        let known = self.known_place(owner)?.map(|place| rank(&place.queued));
        let Some(rank) = known else { return Ok(false) };
        self.page.line.remove(&rank);
        self.page.behind.remove(owner);
        self.page.count = self.page.count.map(|count| count.saturating_sub(1));
        self.changes.waiters.insert(*owner, None);
        Ok(true)
    }

    fn revoked(&mut self, owner: &Owner) -> Result<bool, Short> {
        Ok(self.page.revoked.contains(owner))
    }

    fn set_revoked(&mut self, owner: &Owner) -> Result<(), Short> {
        self.changes.revoked.push(*owner);
        Ok(())
    }

    fn record(&mut self) -> Result<Option<Kept>, Short> {
        unreachable!("BUG: a record is not on the page of its lock")
    }

    fn put_record(&mut self, _: &Kept) -> Result<(), Short> {
        unreachable!("BUG: a record is not on the page of its lock")
    }

    /// One of ours who has left is known to be gone; of others we cannot know.
    fn tell(&mut self, to: &Queued, notice: Notice) -> Result<bool, Short> {
        if self.hub.listens(&to.owner) {
            self.changes.told.push((to.owner, to.attempt, notice));
            return Ok(true);
        }
        let Some(inbox) = self.place(&to.owner).and_then(|place| place.inbox.clone()) else { return Ok(true) };
        if self.hub.is_ours(&inbox) {
            return Ok(false);
        }
        self.changes.letters.extend(Hub::letter(&inbox, to.attempt, notice));
        Ok(true)
    }
}

fn rank(queued: &Queued) -> (FencingToken, Owner) {
    (queued.ticket, queued.owner)
}

fn held(row: Row) -> Result<Held, String> {
    let asked = row.ask_number.map(|number| {
        let (by, note) = (row.ask_by.unwrap_or_default(), row.ask_note.unwrap_or_default());
        YieldRequest::new(number.cast_unsigned(), by, note)
    });
    Ok(Held {
        owner: owner(row.owner.as_deref())?,
        token: token(row.number)?,
        mode: mode(row.shared),
        label: row.label,
        since: moment(row.since_us),
        until: moment(row.until_us),
        attempt: u32::try_from(row.attempt).unwrap_or(u32::MAX),
        actor: row.actor.as_deref().and_then(ActorId::parse),
        asked,
    })
}

fn place(row: Row) -> Result<Line, String> {
    let queued = Queued {
        owner: owner(row.owner.as_deref())?,
        ticket: token(row.number)?,
        mode: mode(row.shared),
        label: row.label,
        since: moment(row.since_us),
        until: moment(row.until_us),
        kept_for: Duration::from_micros(row.kept_us.unsigned_abs()),
        attempt: u32::try_from(row.attempt).unwrap_or(u32::MAX),
        actor: row.actor.as_deref().and_then(ActorId::parse),
    };
    Ok(Line { queued, inbox: row.inbox })
}

fn owner(text: Option<&str>) -> Result<Owner, String> {
    text.and_then(Owner::from_exposed).ok_or_else(|| "a row has no owner of ours".to_owned())
}

fn token(number: i64) -> Result<FencingToken, String> {
    let token = u64::try_from(number).ok().and_then(FencingToken::from_number);
    token.ok_or_else(|| format!("{number} is no token"))
}

fn mode(shared: bool) -> Mode {
    if shared { Mode::Shared } else { Mode::Exclusive }
}

fn moment(us: i64) -> Moment {
    Moment::from_nanos(us.unsigned_abs().saturating_mul(1000))
}
