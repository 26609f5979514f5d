//! What a stock in rows promises, in transactions of whatever driver.

/// Tests of `fence::StockRows` with one driver. The file has beside them: `open()` (the tables on a
/// server), `connect(&place)`, `begin(&mut connection)` (a transaction), and `stock!(transaction, item)`.
#[macro_export]
macro_rules! stock_rows {
    () => {
        use std::time::Duration;

        use fencepost_core::fence::{Settled, StockRowsError};

        const HOUR: Duration = Duration::from_secs(3600);
        const SEATS: u32 = 10;

        /// A change in a transaction of its own.
        macro_rules! commit {
            ($connection:expr, $item:expr, $stock:ident => $change:expr) => {{
                let mut transaction = begin(&mut $connection).await;
                let changed = {
                    let mut $stock = stock!(transaction, $item);
                    $change.await
                };
                transaction.commit().await.expect("committed");
                changed.expect("changed")
            }};
        }

        fn run<F: Future>(test: F) -> F::Output {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(test)
        }

        #[test]
        fn forty_buyers_reserve_ten_seats_and_none_twice() {
            let place = open();
            run(async {
                let mut office = connect(&place).await;
                commit!(office, "crowded", stock => stock.set(SEATS));
                let mut buyers = tokio::task::JoinSet::new();
                for buyer in 0..40_u32 {
                    let mut connection = connect(&place).await;
                    buyers.spawn(async move {
                        let id = format!("order {buyer}");
                        let mut transaction = begin(&mut connection).await;
                        let reserved = stock!(transaction, "crowded").reserve(&id, 1, HOUR).await.expect("an answer");
                        // Some think better of it: it never was.
                        if buyer % 4 == 0 {
                            transaction.rollback().await.expect("rolled back");
                            return (0, 0);
                        }
                        transaction.commit().await.expect("committed");
                        if !reserved {
                            return (0, 0);
                        }
                        let ended = match buyer % 4 {
                            1 => commit!(connection, "crowded", stock => stock.cancel(&id)),
                            _ => commit!(connection, "crowded", stock => stock.confirm(&id)),
                        };
                        (1, u32::from(ended == Settled::Confirmed))
                    });
                }
                let all = buyers.join_all().await;
                let (reserved, sold) = all.iter().fold((0, 0), |(all, done), (one, sold)| (all + one, done + sold));
                let left = commit!(office, "crowded", stock => stock.left());
                assert!(sold <= SEATS && reserved >= SEATS, "{sold} sold of {reserved} reserved");
                assert_eq!(sold + left, SEATS, "{reserved} reserved");
            });
        }

        #[test]
        fn what_expired_returns_once_and_cannot_be_confirmed() {
            let place = open();
            run(async {
                let mut office = connect(&place).await;
                commit!(office, "expiring", stock => stock.set(3));
                let soon = Duration::from_millis(50);
                assert!(commit!(office, "expiring", stock => stock.reserve("soon over", 3, soon)));
                loop {
                    match commit!(office, "expiring", stock => stock.left()) {
                        3 => break,
                        left => assert_eq!(left, 0),
                    }
                }
                assert!(commit!(office, "expiring", stock => stock.reserve("next", 2, HOUR)), "it is back");
                for _ in 0..2 {
                    assert_eq!(commit!(office, "expiring", stock => stock.confirm("soon over")), Settled::Expired);
                    assert_eq!(commit!(office, "expiring", stock => stock.confirm("nobody's")), Settled::Expired);
                    assert_eq!(commit!(office, "expiring", stock => stock.left()), 1);
                }
                // One that nobody has put back yet is told too, and put back by that.
                assert!(commit!(office, "expiring", stock => stock.reserve("again", 1, Duration::from_millis(1))));
                while commit!(office, "expiring", stock => stock.left()) == 0 {}
                assert_eq!(commit!(office, "expiring", stock => stock.cancel("again")), Settled::Expired);
                assert_eq!(commit!(office, "expiring", stock => stock.left()), 1);
                assert_eq!(commit!(office, "expiring", stock => stock.confirm("next")), Settled::Confirmed);
                assert_eq!(commit!(office, "expiring", stock => stock.forget(Duration::ZERO)), 2, "that of an hour stays");
                assert_eq!(commit!(office, "expiring", stock => stock.confirm("next")), Settled::Confirmed);
                assert_eq!(commit!(office, "expiring", stock => stock.cancel("soon over")), Settled::Expired);
            });
        }

        #[test]
        fn a_reservation_ends_once_by_whoever_ends_it_first() {
            let place = open();
            run(async {
                let mut office = connect(&place).await;
                commit!(office, "ending", stock => stock.set(3));
                for id in ["sold", "returned"] {
                    assert!(commit!(office, "ending", stock => stock.reserve(id, 1, HOUR)));
                }
                for (id, first) in [("sold", Settled::Confirmed), ("returned", Settled::Cancelled)] {
                    for how in [first, Settled::Confirmed, Settled::Cancelled] {
                        let ended = match how {
                            Settled::Confirmed => commit!(office, "ending", stock => stock.confirm(id)),
                            _ => commit!(office, "ending", stock => stock.cancel(id)),
                        };
                        assert_eq!(ended, first, "{id}");
                    }
                }
                assert_eq!(commit!(office, "ending", stock => stock.left()), 2);
                let mut transaction = begin(&mut office).await;
                assert!(stock!(transaction, "ending").reserve("undone", 2, HOUR).await.expect("an answer"));
                transaction.rollback().await.expect("rolled back");
                assert_eq!(commit!(office, "ending", stock => stock.left()), 2);
                assert_eq!(commit!(office, "ending", stock => stock.confirm("undone")), Settled::Expired);
            });
        }

        #[test]
        fn names_are_values_and_bad_ones_are_refused() {
            let place = open();
            run(async {
                let mut office = connect(&place).await;
                let long = "x".repeat(255);
                let names = ["x'; DROP TABLE fencepost_stock; --", "\"`\\", "{1}$1?", "ü 🎫", "Seats", "seats", "seats ", &long];
                for (number, name) in names.iter().enumerate() {
                    commit!(office, *name, stock => stock.set(number as u32 + 1));
                }
                for (number, name) in names.iter().enumerate() {
                    assert_eq!(commit!(office, *name, stock => stock.left()), number as u32 + 1, "{name}");
                    for id in names {
                        let reserved = commit!(office, *name, stock => stock.reserve(id, 1, HOUR));
                        let ended = commit!(office, *name, stock => stock.cancel(id));
                        assert!(reserved && ended == Settled::Cancelled, "{name} {id}");
                    }
                }
                assert_eq!(commit!(office, "of nobody", stock => stock.left()), 0);
                assert!(!commit!(office, "of nobody", stock => stock.reserve("order", 1, HOUR)));
                let mut transaction = begin(&mut office).await;
                for (item, id, count, hold_for, field) in [
                    ("", "order", 1, HOUR, "item"),
                    ("seats", "a\0b", 1, HOUR, "id"),
                    ("seats", &format!("{long}x"), 1, HOUR, "id"),
                    ("seats", "order", 0, HOUR, "count"),
                    ("seats", "order", 1, Duration::ZERO, "hold_for"),
                    ("seats", "order", 1, Duration::MAX, "hold_for"),
                ] {
                    match stock!(transaction, item).reserve(id, count, hold_for).await {
                        Err(StockRowsError::Invalid(invalid)) => assert_eq!(invalid.field, field),
                        other => panic!("{other:?}"),
                    }
                }
                assert!(stock!(transaction, "seats").reserve("order", 1, HOUR).await.expect("the transaction goes on"));
                transaction.commit().await.expect("committed");
            });
        }

        /// Neighbours in an index, of which some expire all the time.
        #[test]
        fn sales_of_different_items_never_deadlock() {
            let place = open();
            run(async {
                let mut office = connect(&place).await;
                let items = ["a", "b", "c", "d"];
                for item in items {
                    commit!(office, item, stock => stock.set(2));
                }
                let mut buyers = tokio::task::JoinSet::new();
                for buyer in 0..8 {
                    let mut connection = connect(&place).await;
                    buyers.spawn(async move {
                        for order in 0..25 {
                            let (item, id) = (items[(buyer + order) % items.len()], format!("{buyer}/{order}"));
                            let hold_for = Duration::from_millis(if order % 2 == 0 { 1 } else { 60_000 });
                            if commit!(connection, item, stock => stock.reserve(&id, 1, hold_for)) && order % 2 == 1 {
                                commit!(connection, item, stock => stock.cancel(&id));
                            }
                        }
                    });
                }
                buyers.join_all().await;
                for item in items {
                    while commit!(office, item, stock => stock.left()) != 2 {}
                    assert!(commit!(office, item, stock => stock.reserve("last", 2, HOUR)), "all are back");
                }
            });
        }
    };
}
