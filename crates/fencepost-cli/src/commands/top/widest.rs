//! How much room the texts of many locks want: looked for once per reading, so that columns stand still in between.

use super::book::Entry;
use super::text::width_of;

/// A name or a label gets no more, however long it is: the page of the lock has it all.
const TEXT_MAX: usize = 48;
/// What several holders want more than one.
const OTHERS: usize = 20;

/// How wide names, labels and tokens are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Widest {
    pub(super) name: usize,
    pub(super) holder: usize,
    pub(super) token: usize,
}

impl Widest {
    /// Of the entries at these places.
    pub(super) fn of(entries: &[Entry], places: &[usize]) -> Self {
        let mut widest = Self::default();
        for entry in places.iter().map(|place| &entries[*place]) {
            widest.name = widest.name.max(width_of(&entry.state.name));
            if let Some(holder) = entry.first() {
                // Of several, how many there are and some of the others stand beside the first.
                let others = if entry.state.holders.len() > 1 { OTHERS } else { 0 };
                widest.holder = widest.holder.max(width_of(&holder.label) + others);
                let digits = holder.token.map_or(0, |token| token.as_u64().max(1).ilog10() as usize + 1);
                // A reader's has an r before it.
                widest.token = widest.token.max(digits + usize::from(holder.shared));
            }
        }
        Self { name: widest.name.min(TEXT_MAX), holder: widest.holder.min(TEXT_MAX), ..widest }
    }
}
