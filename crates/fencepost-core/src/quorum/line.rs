//! The process's own line: of all claims on one lock in this process, the first contends in the store.
//!
//! The others cost the store nothing. A claim keeps the ticket of its arrival and goes with the release of the one
//! before it, so the order over all processes stays.
//!
//! Claims for others stand in a second line of this kind, their *guest list*: each contends by itself, and the list only
//! tells whom a release may take along.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::course::Course;
use crate::name::LockName;
use crate::state::Holder;

/// The first guest is nearly always at rest: no need to look at all.
const FEW: usize = 4;

#[derive(Default)]
pub(super) struct Line {
    lines: Mutex<HashMap<LockName, VecDeque<Arc<Course>>>>,
}

impl Line {
    /// Joins. `true`: it is the first, and may contend.
    pub(super) fn enter(&self, course: &Arc<Course>) -> bool {
        let mut lines = self.lines();
        let line = lines.entry(course.claim.name.clone()).or_default();
        line.push_back(course.clone());
        line.len() == 1
    }

    /// Leaves. Answers who is the first from now on, if that has changed.
    pub(super) fn leave(&self, course: &Arc<Course>) -> Option<Arc<Course>> {
        let mut lines = self.lines();
        let line = lines.get_mut(&course.claim.name)?;
        let at = line.iter().position(|other| other.id == course.id)?;
        line.remove(at);
        let next = line.front().filter(|_| at == 0).cloned();
        if line.is_empty() {
            lines.remove(&course.claim.name);
        }
        next
    }

    /// Who comes after the first, if that is this course.
    pub(super) fn after(&self, first: &Course) -> Option<Arc<Course>> {
        let lines = self.lines();
        let line = lines.get(&first.claim.name)?;
        line.front().filter(|front| front.id == first.id)?;
        line.get(1).cloned()
    }

    /// The first few, for whoever does not mind which.
    pub(super) fn first_few(&self, name: &LockName) -> Vec<Arc<Course>> {
        self.lines().get(name).map(|line| line.iter().take(FEW).cloned().collect()).unwrap_or_default()
    }

    /// Who contends in the store.
    pub(super) fn first(&self, name: &LockName) -> Option<Arc<Course>> {
        self.lines().get(name)?.front().cloned()
    }

    /// Who has the lock, as far as the first in line knows.
    pub(super) fn holder(&self, name: &LockName, asking: u64) -> Option<Holder> {
        self.first(name).filter(|first| first.id != asking)?.holder()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<LockName, VecDeque<Arc<Course>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
