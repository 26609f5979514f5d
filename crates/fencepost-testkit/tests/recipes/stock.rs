//! Stock.

use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_core::{Blocking, Settled};

use crate::{HOUR, MS, SECOND, World, memory};

#[test]
fn a_stock_is_never_oversold_by_many_threads() {
    let (locks, sold) = (memory(), AtomicU32::new(0));
    let seats = locks.stock("seats").wait_at_most(HOUR);
    seats.set(20).block().expect("set");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (seats, sold) = (&seats, &sold);
            scope.spawn(move || {
                for buyer in 0..10 {
                    let Some(mine) = seats.reserve(1, HOUR).block().expect("an answer") else { continue };
                    // Every third one changes its mind.
                    let settled = match (thread + buyer) % 3 {
                        0 => seats.cancel(&mine.id).block(),
                        _ => seats.confirm(&mine.id).block(),
                    };
                    if settled.expect("an answer") == Settled::Confirmed {
                        sold.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let (sold, left) = (sold.into_inner(), seats.left().block().expect("an answer"));
    assert_eq!(sold + left, 20, "{sold} sold and {left} left");
}

#[test]
fn a_reservation_ends_once_by_whoever_ends_it_first() {
    let world = World::of(1);
    let stock = || world.locks().stock("seats");
    stock().set(3).block().expect("set");
    let reserve = || stock().reserve(1, 60 * SECOND).block().expect("an answer").expect("there is one").id;
    let (sold, returned, expired) = (reserve(), reserve(), reserve());
    assert_eq!(stock().reserve(1, SECOND).block().expect("an answer"), None);
    for (id, first, second, settled) in [
        (&sold, Settled::Confirmed, Settled::Cancelled, Settled::Confirmed),
        (&returned, Settled::Cancelled, Settled::Confirmed, Settled::Cancelled),
    ] {
        for how in [first, second] {
            let ended = match how {
                Settled::Confirmed => stock().confirm(id).block(),
                _ => stock().cancel(id).block(),
            };
            assert_eq!(ended.expect("an answer"), settled);
        }
    }
    assert_eq!(stock().left().block().expect("an answer"), 1);
    world.clock.turn(60 * SECOND - MS);
    assert_eq!(stock().left().block().expect("an answer"), 1);
    world.clock.turn(MS);
    assert_eq!(stock().left().block().expect("an answer"), 2);
    for _ in 0..2 {
        assert_eq!(stock().confirm(&expired).block().expect("an answer"), Settled::Expired);
    }
    assert_eq!(stock().confirm("nobody's").block().expect("an answer"), Settled::Expired);
    assert_eq!(stock().left().block().expect("an answer"), 2);
}

#[test]
fn time_goes_on_for_a_stock_that_changes_all_the_time() {
    let world = World::of(1);
    let stock = world.locks().stock("seats");
    stock.set(1).block().expect("set");
    let _held = stock.reserve(1, 20 * MS).block().expect("an answer").expect("there is one");
    // A store tells time by the millisecond or finer, and never loses or gains one per change.
    for _ in 0..190 {
        world.clock.turn(MS / 10);
        assert_eq!(stock.reserve(1, MS).block().expect("an answer"), None);
    }
    for _ in 0..10 {
        world.clock.turn(MS / 10);
        let _ = stock.reserve(2, MS).block().expect("an answer");
    }
    assert!(stock.reserve(1, MS).block().expect("an answer").is_some(), "after 20 ms");
}
