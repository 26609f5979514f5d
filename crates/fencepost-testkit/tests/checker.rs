//! The checker against a brute-force search: on small histories the sweep finds something exactly when no order of
//! events explains what was seen.

use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;
use fencepost_testkit::checker::{Demands, Hold, Rule, check, holds};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::history::{Call, History, What, Write};

fn token(number: u64) -> FencingToken {
    FencingToken::from_number(number).expect("a token")
}

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

/// One hold of a made-up history.
#[derive(Clone, Copy, Debug)]
struct Span {
    asked: u64,
    from: u64,
    until: u64,
    token: u64,
    shared: bool,
}

fn history(spans: &[Span]) -> History {
    let mut history = History::new();
    let lock = history.lock("x");
    let mut notes = Vec::new();
    for (claim, span) in (1..).zip(spans) {
        notes.push((span.asked, claim, What::Asked));
        notes.push((span.from, claim, What::Acquired { token: token(span.token), until: at(span.until) }));
        if span.shared {
            history.readers.insert((lock, token(span.token)));
        }
    }
    notes.sort_by_key(|(at, ..)| *at);
    for (nanos, claim, what) in notes {
        history.note(at(nanos), 1, claim, lock, what);
    }
    history
}

/// Two points of a hold that have to be put in order.
#[derive(Clone, Copy)]
struct Point {
    earliest: u64,
    latest: u64,
}

/// Tries every order in which the holds may have taken effect: somewhere between question and answer, freed at or
/// after the end. Right is an order in which a writer is alone and every grant has a higher token than all before it.
fn is_explained(spans: &[Span], exclusion: bool) -> bool {
    let points: Vec<[Point; 2]> = spans
        .iter()
        .map(|span| {
            let end = if exclusion { span.until } else { span.from };
            [Point { earliest: span.asked, latest: span.from }, Point { earliest: end, latest: u64::MAX }]
        })
        .collect();
    search(spans, &points, &mut vec![0; spans.len()], 0, exclusion)
}

fn search(spans: &[Span], points: &[[Point; 2]], done: &mut [usize], newest: u64, exclusion: bool) -> bool {
    if done.iter().all(|done| *done > 0) {
        return true;
    }
    let inside = |done: &[usize]| -> Vec<bool> {
        spans.iter().zip(done).filter(|(_, done)| **done == 1).map(|(span, _)| span.shared).collect()
    };
    for next in 0..spans.len() {
        if done[next] == 2 {
            continue;
        }
        let point = points[next][done[next]];
        let others = (0..spans.len()).filter(|other| *other != next && done[*other] < 2);
        let due = others.map(|other| points[other][done[other]].latest).min().unwrap_or(u64::MAX);
        if point.earliest > due {
            continue;
        }
        let acquires = done[next] == 0;
        let there = inside(done);
        let admitted = there.is_empty() || (spans[next].shared && there.iter().all(|shared| *shared));
        if acquires && (spans[next].token <= newest || (exclusion && !admitted)) {
            continue;
        }
        done[next] += 1;
        let newest = if acquires { spans[next].token } else { newest };
        let found = search(spans, points, done, newest, exclusion);
        done[next] -= 1;
        if found {
            return true;
        }
    }
    false
}

fn random_spans(dice: &mut Dice) -> Vec<Span> {
    let count = 2 + dice.below(4) as usize;
    // No two things at one moment, so that both sides agree on what came first.
    let mut moments: Vec<u64> = (1..=3 * count as u64).collect();
    let mut draw = |dice: &mut Dice| {
        let at = dice.below(moments.len() as u64) as usize;
        moments.swap_remove(at)
    };
    let mut spans: Vec<Span> = (0..count)
        .map(|_| {
            let mut three = [draw(dice), draw(dice), draw(dice)];
            three.sort_unstable();
            Span { asked: three[0], from: three[1], until: three[2], token: 0, shared: dice.per_mille(300) }
        })
        .collect();
    // Mostly in order: a random order is nearly always wrong, and would show nothing.
    spans.sort_by_key(|span| span.from);
    for (number, span) in (1..).zip(&mut spans) {
        span.token = number * 2;
    }
    if dice.per_mille(400) {
        let (one, other) = (dice.below(count as u64) as usize, dice.below(count as u64) as usize);
        let kept = spans[one].token;
        spans[one].token = spans[other].token;
        spans[other].token = if dice.per_mille(200) { spans[one].token } else { kept };
    }
    spans
}

#[test]
fn the_sweep_agrees_with_a_brute_force_search_on_every_small_history() {
    let mut dice = Dice::new(1);
    let (mut good, mut bad, mut all) = ([0; 2], [0; 2], 0);
    while all < 30_000 {
        let spans = random_spans(&mut dice);
        all += 1;
        for exclusion in [true, false] {
            let findings = check(&history(&spans), &Demands { exclusion, ..Demands::default() });
            let explained = is_explained(&spans, exclusion);
            assert_eq!(findings.is_empty(), explained, "exclusion {exclusion}: {spans:?}: {findings:?}");
            if explained { good[usize::from(exclusion)] += 1 } else { bad[usize::from(exclusion)] += 1 }
        }
    }
    println!("{all} histories; right {good:?}, wrong {bad:?} (order alone, with exclusion)");
    assert!(good.iter().chain(&bad).all(|count| *count > 2_000), "right {good:?}, wrong {bad:?}: it shows little");
}

/// Holds in turn, by writers and readers.
fn a_good_history(holds: u64) -> History {
    let mut history = History::new();
    for number in 0..holds {
        let lock = history.lock(&format!("lock-{}", number % 50));
        let begin = number * 10;
        let claim = number + 1;
        history.note(at(begin), 1, claim, lock, What::Asked);
        history.note(at(begin + 1), 1, claim, lock, What::Waiting);
        let until = at(begin + 600);
        history.note(at(begin + 2), 1, claim, lock, What::Acquired { token: token(claim), until });
        history.renewals.push((at(begin + 3), lock, token(claim)));
        history.note(at(begin + 4), 1, claim, lock, What::Renewed { until: at(begin + 620) });
        let write =
            Write { at: at(begin + 5), lock, token: token(claim), accepted: true, read: number / 50, met: number / 50 };
        history.writes.push(write);
        history.note(at(begin + 5), 1, claim, lock, What::Releasing);
        history.note(at(begin + 6), 1, claim, lock, What::Released);
        let (took, limit) = (Duration::from_nanos(2), Duration::from_nanos(2));
        history.calls.push(Call { process: 1, what: "acquire", at: at(begin + 2), took, limit });
    }
    history
}

fn demands() -> Demands {
    let near = Some(Duration::from_nanos(100));
    Demands { exclusion: true, in_line: near, handed_over_within: near, ..Demands::default() }
}

fn rules(history: &History) -> Vec<Rule> {
    let mut rules: Vec<Rule> = check(history, &demands()).into_iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn nth(history: &mut History, nth: usize, wanted: fn(&What) -> bool) -> &mut What {
    history.notes.iter_mut().map(|note| &mut note.what).filter(|what| wanted(what)).nth(nth).expect("that many")
}

/// A fault put into a good history.
type Mistake = fn(&mut History);

#[test]
fn each_single_fault_in_a_large_history_is_found() {
    let good = a_good_history(20_000);
    assert_eq!(check(&good, &demands()), []);
    let cases: [(Rule, Mistake); 13] = [
        (Rule::C1, |history| *nth(history, 777, |what| *what == What::Releasing) = What::Waiting),
        (Rule::C2, |history| {
            let acquired = nth(history, 900, |what| matches!(what, What::Acquired { .. }));
            *acquired = What::Acquired { token: token(3), until: at(9_500) };
        }),
        (Rule::C3, |history| {
            let acquired = nth(history, 950, |what| matches!(what, What::Acquired { .. }));
            *acquired = What::Acquired { token: token(901), until: at(9_900) };
        }),
        (Rule::C4, |history| history.writes[4_000].token = token(1)),
        (Rule::C4, |history| history.writes[4_000].read -= 1),
        (Rule::C4, |history| history.writes[4_000].token = token(4_002)),
        (Rule::C5, |history| history.left.push((0, "a lock that nobody holds".into()))),
        (Rule::C6, |history| history.calls[7].took *= 2),
        (Rule::C6, |history| {
            // 1.51 waits while nobody holds, and is served late.
            let waiting = history.notes.iter().position(|note| note.claim == 51 && note.what == What::Waiting);
            let mut note = history.notes.remove(waiting.expect("it waits"));
            note.at = at(2);
            history.notes.insert(3, note);
        }),
        (Rule::C7, |history| {
            let lock = history.notes[0].lock;
            history.notes.insert(
                7,
                fencepost_testkit::history::Note { at: at(6), process: 2, claim: 1, lock, what: What::Waiting },
            );
        }),
        (Rule::C9, |history| {
            let first = history.notes[0].lock;
            history.readers.insert((first, token(1)));
            *nth(history, 0, |what| *what == What::Releasing) = What::Waiting;
            *nth(history, 0, |what| matches!(what, What::Renewed { .. })) = What::Renewed { until: at(620) };
        }),
        (Rule::C11, |history| {
            // The first holder renews after the next holder of its lock was granted, and released.
            let note = history.notes[3];
            let after = history.notes.iter().position(|note| note.at > at(520)).expect("that many");
            *nth(history, 0, |what| *what == What::Releasing) = What::Waiting;
            *nth(history, 0, |what| *what == What::Released) = What::Waiting;
            let renewed =
                fencepost_testkit::history::Note { at: at(520), what: What::Renewed { until: at(900) }, ..note };
            history.notes.insert(after, renewed);
            let after = history.renewals.iter().position(|(sent, ..)| *sent > at(515)).expect("that many");
            history.renewals.insert(after, (at(515), note.lock, token(1)));
        }),
        (Rule::C11, |history| history.renewals.insert(6, (at(58), history.notes[35].lock, token(6)))),
    ];
    for (number, (rule, mistake)) in cases.into_iter().enumerate() {
        let mut bad = good.clone();
        mistake(&mut bad);
        assert!(rules(&bad).contains(&rule), "fault {number}, {rule:?}, was not found: {:?}", rules(&bad));
    }
}

#[test]
fn more_holders_than_permits_are_found() {
    let span = |from: u64, token: u64| Span { asked: from - 1, from, until: from + 10, token, shared: true };
    let history = history(&[span(2, 1), span(5, 2), span(8, 3)]);
    let permits = |limit| Demands { exclusion: true, permits: vec![("x".into(), limit)], ..Demands::default() };
    assert_eq!(check(&history, &permits(3)), []);
    assert_eq!(check(&history, &permits(2))[0].rule, Rule::C8);
}

#[test]
fn a_hold_ends_with_its_process() {
    let mut history = history(&[Span { asked: 1, from: 2, until: 50, token: 1, shared: false }]);
    history.died(at(9), 1);
    let found: Vec<Hold> = holds(&history, &mut Vec::new());
    assert_eq!((found[0].from, found[0].until), (at(2), at(9)));
}

#[test]
fn two_hundred_thousand_holds_are_judged_in_one_sweep() {
    let history = a_good_history(200_000);
    assert_eq!(check(&history, &demands()), []);
}
