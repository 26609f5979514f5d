//! The resource that the locks protect: a number per lock, with a fence.

/// One number. Whoever reads or writes it shows a token; an older one than was seen is turned away.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cell {
    version: u64,
    seen: u64,
    /// The planted bug of a resource that looks at no token.
    open: bool,
}

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    pub(super) accepted: bool,
    /// The version that it met.
    pub(super) version: u64,
}

impl Cell {
    pub(super) fn without_fence(open: bool) -> Self {
        Self { open, ..Self::default() }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The read counts as seeing the token: a write of an older holder that comes between this and our own would
    /// otherwise be lost.
    pub(super) fn read(&mut self, token: u64) -> bool {
        let taken = self.open || token >= self.seen;
        if taken {
            self.seen = self.seen.max(token);
        }
        taken
    }

    pub(super) fn write(&mut self, token: u64) -> Met {
        let (accepted, version) = (self.read(token), self.version);
        self.version += u64::from(accepted);
        Met { accepted, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_is_turned_away_once_a_newer_one_was_seen() {
        let mut cell = Cell::default();
        assert!(cell.read(5));
        assert_eq!(cell.write(5), Met { accepted: true, version: 0 });
        assert!(cell.read(7));
        assert_eq!(cell.write(5), Met { accepted: false, version: 1 });
        assert_eq!(cell.write(7), Met { accepted: true, version: 1 });
        assert_eq!(cell.version(), 2);
    }

    #[test]
    fn without_a_fence_everything_is_accepted() {
        let mut cell = Cell::without_fence(true);
        assert!(cell.read(7) && cell.write(5).accepted);
    }
}
