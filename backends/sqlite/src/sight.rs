//! What a waiter finds when it looks at its lock: pure.

use std::time::Duration;

use fencepost_core::store::table::{Held, Queued};
use fencepost_core::store::{Event, Mode, Moment};

/// When the head of the line does not take a free lock for so long, the others wake the line.
const GRACE: Duration = Duration::from_millis(100);

/// What to do for one who waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// Tell it.
    Tell(Event),
    /// Look again then; `None`: there is nothing to wait for.
    Later(Option<Moment>),
}

/// Judges what the file says: all grants of the lock, the head of its line, and the one who looks.
pub(crate) fn judge(
    holders: &[Held],
    head: Option<&Queued>,
    me: Option<&Queued>,
    mine: Option<&Held>,
    now: Moment,
) -> Sight {
    if let Some(mine) = mine.filter(|mine| mine.until > now) {
        return Sight::Tell(Event::HandedOver { token: mine.token, attempt: mine.attempt });
    }
    let Some(me) = me else { return Sight::Later(None) };
    let live = || holders.iter().filter(|held| held.until > now);
    let is_free = live().next().is_none();
    let admits = is_free || (me.mode == Mode::Shared && live().all(|held| held.mode == Mode::Shared));
    let is_next = head.is_none_or(|head| head.owner == me.owner || head.until <= now);
    let freed_at = holders.iter().map(|held| held.until).max();
    match freed_at {
        _ if admits && is_next => Sight::Tell(Event::MayPay),
        Some(freed_at) if is_free && now < freed_at.plus(GRACE) => Sight::Later(Some(freed_at.plus(GRACE))),
        _ if is_free => Sight::Tell(Event::MayPay),
        _ => Sight::Later(live().map(|held| held.until).min()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_core::store::{FencingToken, Owner};

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::from_number(number).expect("a token")
    }

    fn held(mode: Mode, until_ms: u64) -> Held {
        let owner = Owner::random().expect("random");
        Held {
            owner,
            token: token(7),
            mode,
            label: String::new(),
            since: at(0),
            until: at(until_ms),
            attempt: 3,
            actor: None,
            asked: None,
        }
    }

    fn queued(mode: Mode) -> Queued {
        let owner = Owner::random().expect("random");
        let (since, until, kept_for) = (at(0), at(3000), Duration::from_secs(3));
        Queued { owner, ticket: token(1), mode, label: String::new(), since, until, kept_for, attempt: 1, actor: None }
    }

    #[test]
    fn a_grant_is_told_with_the_token_and_attempt_in_the_file() {
        let mine = held(Mode::Exclusive, 100);
        let sight = judge(std::slice::from_ref(&mine), None, None, Some(&mine), at(50));
        assert_eq!(sight, Sight::Tell(Event::HandedOver { token: token(7), attempt: 3 }));
    }

    #[test]
    fn whoever_is_not_in_line_is_told_nothing() {
        assert_eq!(judge(&[held(Mode::Exclusive, 100)], None, None, None, at(200)), Sight::Later(None));
    }

    #[test]
    fn the_next_look_is_when_the_holder_expires_and_the_head_tries_at_once() {
        let (holder, me) = (held(Mode::Exclusive, 100), queued(Mode::Exclusive));
        let look = |now| judge(std::slice::from_ref(&holder), Some(&me), Some(&me), None, now);
        assert_eq!(look(at(50)), Sight::Later(Some(at(100))));
        assert_eq!(look(at(100)), Sight::Tell(Event::MayPay));
    }

    #[test]
    fn the_others_wake_the_line_only_when_the_head_does_not() {
        let (holder, head, me) = (held(Mode::Exclusive, 100), queued(Mode::Exclusive), queued(Mode::Exclusive));
        let look = |now| judge(std::slice::from_ref(&holder), Some(&head), Some(&me), None, now);
        assert_eq!(look(at(150)), Sight::Later(Some(at(200))));
        assert_eq!(look(at(200)), Sight::Tell(Event::MayPay));
    }

    #[test]
    fn a_reader_at_the_head_joins_readers_and_one_behind_a_writer_waits() {
        let (reader, writer, me) = (held(Mode::Shared, 100), queued(Mode::Exclusive), queued(Mode::Shared));
        let look = |head| judge(std::slice::from_ref(&reader), Some(head), Some(&me), None, at(50));
        assert_eq!(look(&me), Sight::Tell(Event::MayPay));
        assert_eq!(look(&writer), Sight::Later(Some(at(100))));
    }
}
