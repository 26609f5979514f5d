//! What the servers of one connection say of the set that it means.
//!
//! A node that forgot everything votes again when its probation is over, in the set of whoever asks: it cannot know
//! whether that set was closed meanwhile, and another one opened. So the asker has to vouch for its set: it has heard a
//! majority, and nobody who votes elsewhere. Else nodes that forget one after the other would bring a closed set back.

use std::sync::{Arc, Mutex, PoisonError};

/// What a server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// It votes in our set.
    Ours,
    /// It knows of no set.
    Nothing,
    /// It votes in others, or has left ours.
    Others,
}

/// What each of the servers said last.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Who is in which set: of each a majority has to be heard.
    sets: Vec<Vec<usize>>,
    said: Mutex<Vec<Option<Says>>>,
}

impl Standing {
    /// Of so many servers, all in one set unless these are named.
    pub(crate) fn new(servers: usize, sets: &[Vec<usize>]) -> Self {
        let all = || vec![(0..servers).collect()];
        let sets = if sets.is_empty() { all() } else { sets.to_vec() };
        Self { sets, said: Mutex::new(vec![None; servers]) }
    }

    pub(crate) fn vouches(&self) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = |set: &Vec<usize>| set.iter().filter(|server| said[**server].is_some()).count() > set.len() / 2;
        !said.contains(&Some(Says::Others)) && self.sets.iter().all(heard)
    }
}

/// One server's place in it.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    pub(crate) standing: Arc<Standing>,
    pub(crate) server: usize,
}

impl Voice {
    pub(crate) fn says(&self, says: Says) {
        self.set(Some(says));
    }

    /// It is gone. Who voted elsewhere does so until it is heard again.
    pub(crate) fn falls_silent(&self) {
        self.set(None);
    }

    fn set(&self, says: Option<Says>) {
        let mut said = self.standing.said.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut said[self.server];
        if says.is_some() || *place != Some(Says::Others) {
            *place = says;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vouches(servers: usize, sets: &[Vec<usize>], said: &[(usize, Says)]) -> bool {
        let standing = Arc::new(Standing::new(servers, sets));
        for (server, says) in said {
            Voice { standing: standing.clone(), server: *server }.says(*says);
        }
        standing.vouches()
    }

    #[test]
    fn whoever_has_heard_a_majority_and_nobody_else_vouches() {
        use Says::{Nothing, Others, Ours};
        assert!(!vouches(3, &[], &[(0, Nothing)]), "too few");
        assert!(vouches(3, &[], &[(0, Nothing), (2, Ours)]));
        assert!(vouches(3, &[], &[(0, Nothing), (2, Nothing)]), "all were started anew");
        assert!(!vouches(3, &[], &[(0, Nothing), (1, Ours), (2, Others)]), "the set may be closed");
        let sets = [vec![0, 1, 2], vec![2, 3, 4]];
        assert!(!vouches(5, &sets, &[(0, Ours), (1, Ours), (2, Ours)]), "too few of the second");
        assert!(vouches(5, &sets, &[(0, Ours), (2, Ours), (3, Nothing)]));
    }

    #[test]
    fn who_votes_elsewhere_is_remembered_until_it_says_otherwise() {
        let standing = Arc::new(Standing::new(1, &[]));
        let voice = Voice { standing: standing.clone(), server: 0 };
        voice.says(Says::Others);
        voice.falls_silent();
        assert!(!standing.vouches());
        voice.says(Says::Nothing);
        assert!(standing.vouches());
        voice.falls_silent();
        assert!(!standing.vouches());
    }
}
