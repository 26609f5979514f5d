use std::time::Duration;

use fencepost::{LockState, StoreErrorKind, Vote};

use super::super::asker::Told;
use super::super::book::tests::{free, held, picture};
use super::super::keys::Key;
use super::super::model::Options;
use super::*;

fn model(size: (usize, usize)) -> (Model, Instant) {
    let (store, prefix) = ("redis://127.0.0.1:6379".into(), String::new());
    let options = Options { store, prefix, delay: Duration::from_secs(1), limit: 10_000, read_only: false, all: false };
    (Model::new(options, size), Instant::now())
}

fn shown(size: (usize, usize), states: Vec<LockState>, keys: &[Key]) -> Vec<String> {
    let (mut model, now) = model(size);
    model.hear(Told::Picture(picture(states, now)), now);
    fit(&mut model, now);
    for key in keys {
        model.press(*key, now);
        fit(&mut model, now);
    }
    screen(&model, now).iter().map(Line::plain).collect()
}

fn some() -> Vec<LockState> {
    vec![
        held("backup", "web-1:4711", 17, 30, &[]),
        held("order/42", "web-2:12", 1_763_425_000_123_456, 12, &["job-2", "job-3"]),
        free("old", 3),
    ]
}

#[test]
fn every_size_is_filled_and_never_exceeded() {
    let keys: [&[Key]; 8] = [
        &[],
        &[Key::Enter],
        &[Key::Function(1)],
        &[Key::Char('n')],
        &[Key::Char('d')],
        &[Key::Function(6)],
        &[Key::Char('k')],
        &[Key::Char('/'), Key::Char('b')],
    ];
    for columns in [1, 2, 5, 11, 20, 40, 60, 72, 80, 100, 132, 250] {
        for rows in [1, 2, 3, 4, 5, 6, 8, 12, 24, 60] {
            for keys in keys {
                let lines = shown((columns, rows), some(), keys);
                assert_eq!(lines.len(), rows, "{columns}x{rows} {keys:?}");
            }
        }
    }
}

#[test]
fn eighty_columns_have_who_how_long_what_is_left_and_who_waits() {
    let lines = shown((80, 24), some(), &[]);
    assert_eq!(lines.len(), 24);
    let row = |name: &str| lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{lines:#?}"));
    for word in ["NAME", "KIND", "HOLDER", "HELD", "TIME LEFT", "IN LINE▾"] {
        assert!(row("NAME").contains(word), "{word}: {lines:#?}");
    }
    for word in ["Lock", "web-2:12", "1m 35s", "[", "12s]", "2 job-2 › "] {
        assert!(row("order/42").contains(word), "{word}: {lines:#?}");
    }
    let place = |name: &str| lines.iter().position(|line| line.starts_with(name));
    assert!(place("order/42") < place("backup"), "who is waited for comes first: {lines:#?}");
    assert_eq!(place("old"), None, "what is free is not in use");
    assert!(lines[0].starts_with("fencepost top  redis://127.0.0.1:6379") && lines[0].ends_with("every 1s"));
    assert!(
        lines[1].starts_with("In use 2  Contended 1  Free 1  All 3") && lines[1].contains("acquired -"),
        "{lines:#?}"
    );
    assert!(lines[23].starts_with("F1Help F3Search"), "{}", lines[23]);
}

#[test]
fn narrow_terminals_keep_what_tells_most() {
    let lines = shown((40, 12), some(), &[]);
    let row = lines.iter().find(|line| line.starts_with("order/42")).expect("a row");
    for word in ["web-2:12", "12s", "2"] {
        assert!(row.contains(word), "{word}: {row}");
    }
    assert!(!lines.iter().any(|line| line.contains("KIND")), "{lines:#?}");
    let tiny = shown((12, 3), some(), &[]);
    assert!(tiny.iter().any(|line| line.starts_with("order/42")), "{tiny:#?}");
    let lock = shown((40, 12), some(), &[Key::Enter]).join("\n");
    assert!(lock.contains("last token\n1763425000123456"), "{lock}");
}

#[test]
fn wide_terminals_have_tokens_too() {
    let lines = shown((140, 24), some(), &[]);
    assert!(lines.iter().any(|line| line.contains("TOKEN")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("1763425000123456")), "{lines:#?}");
}

#[test]
fn a_lock_has_its_holders_and_its_line_in_order() {
    let mut state = held("order/42", "web-2", 17, 12, &["job-2", "job-3", ""]);
    state.waiters[1].shared = true;
    let text = shown((80, 24), vec![state], &[Key::Enter]).join("\n");
    for words in [
        "Lock · held · 3 wait · last token 17",
        "web-2",
        "mode       exclusive",
        "token      17",
        "held       1m 35s",
        "time left  [",
        "In line (3)",
        "   1  job-2     exclusive       3s",
        "   2  job-3     shared          3s",
        "   3  no label  exclusive       3s",
    ] {
        assert!(text.contains(words), "{words:?}:\n{text}");
    }
}

#[test]
fn hostile_names_and_labels_are_only_text() {
    let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}x";
    let mut state = held(evil, evil, 1, 30, &[evil]);
    state.holders[0].payload = Some(evil.into());
    for keys in [&[][..], &[Key::Enter], &[Key::Char('k')], &[Key::Char('a')], &[Key::Char('k'), Key::Char('y')]] {
        let text = shown((200, 40), vec![state.clone()], keys).concat();
        assert!(!text.chars().any(char::is_control) && !text.contains('\u{202e}'), "{keys:?}: {text:?}");
        assert!(text.contains("\\u{1b}]0;owned\\u{7}"), "{text}");
    }
}

#[test]
fn a_question_names_the_lock_and_its_holder() {
    let lines = shown((80, 24), some(), &[Key::Char('k')]);
    let question = lines[21..].join(" ");
    assert!(question.contains("Release order/42 by force? Held by web-2:12, token 1763425000123456, for 1m 35s"));
    assert!(question.ends_with("[y/N]"), "{question}");
    assert!(shown((40, 12), some(), &[Key::Char('a')]).concat().contains("Ask for order/42? Held by web-2:12"));
}

#[test]
fn of_ten_thousand_locks_only_rows_in_sight_are_written() {
    let states = (0..10_000).map(|n| held(&format!("lock/{n:05}"), "x", 1, 30, &[])).collect();
    let lines = shown((80, 24), states, &[Key::End]);
    let rows = lines.iter().filter(|line| line.starts_with("lock/")).count();
    assert_eq!(rows, 18, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("lock/09999")), "{lines:#?}");
}

#[test]
fn nodes_are_named_where_there_is_room_and_else_those_that_are_away() {
    let (mut model, now) = model((80, 24));
    assert_eq!(screen(&model, now)[2].plain(), "Nodes  asking…");
    let vote = |name: &str, vote: Vote| (name.to_owned(), Duration::from_millis(2), vote);
    let away = || Vote::Failed(StoreErrorKind::Unreachable);
    model.health.take([vote("a:1", Vote::Granted), vote("b:2", away()), vote("c:3", Vote::Granted)], now);
    let line = |model: &Model| screen(model, now + Duration::from_secs(3))[2].plain();
    assert_eq!(line(&model), "Nodes  2 of 3 answer, 2 must  a:1 2ms  b:2 unreachable, for 3s  c:3 2ms");
    model.resize((60, 24));
    assert_eq!(line(&model), "Nodes  2 of 3 answer, 2 must  b:2 unreachable, for 3s");
    model.press(Key::Char('n'), now);
    let text = screen(&model, now).iter().map(Line::plain).collect::<Vec<_>>().join("\n");
    for words in ["2 of 3 answer, 2 must. Locks go on.", "a:1   answers          2ms", "b:2   unreachable        -"] {
        assert!(text.contains(words), "{words:?}:\n{text}");
    }
}

#[test]
fn a_circle_is_told_in_words() {
    let (mut model, now) = model((80, 24));
    model.press(Key::Char('d'), now);
    let text = |model: &Model| screen(model, now).iter().map(Line::plain).collect::<Vec<_>>().join("\n");
    assert!(text(&model).contains("Looking"), "{}", text(&model));
    model.hear(Told::Circles(Ok(Vec::new())), now);
    assert!(text(&model).contains("None, <1s ago"), "{}", text(&model));
    let circle = vec![held("a", "job-1", 1, 30, &["job-2"]), held("b", "job-2", 2, 30, &["job-1"])];
    model.hear(Told::Circles(Ok(vec![circle])), now);
    for words in ["One, ", "a → b → a", "held by job-1 for 1m 35s", "wanted by job-2 for 3s"] {
        assert!(text(&model).contains(words), "{words}: {}", text(&model));
    }
}

#[test]
fn the_list_of_columns_stands_beside_the_table() {
    let lines = shown((80, 24), some(), &[Key::Function(6)]);
    let text = lines.join("\n");
    for words in ["Sort by", "TIME LEFT   T", "IN LINE     W"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    assert!(lines.iter().any(|line| line.contains("order/42")), "{text}");
}

#[test]
fn a_page_is_scrolled_no_further_than_its_end() {
    let waiters: Vec<String> = (0..100).map(|n| format!("job-{n:02}")).collect();
    let line: Vec<&str> = waiters.iter().map(String::as_str).collect();
    let lines = shown((80, 24), vec![held("a", "x", 1, 30, &line)], &[Key::Enter, Key::End]);
    assert!(lines[22].contains("job-99"), "{lines:#?}");
    let back = shown((80, 24), vec![held("a", "x", 1, 30, &line)], &[Key::Enter, Key::End, Key::Up]);
    assert!(back[22].contains("job-98"), "{back:#?}");
}

#[test]
fn plain_text_has_every_lock() {
    let (mut model, now) = model((160, usize::MAX));
    (model.options.prefix, model.options.read_only) = ("a".into(), true);
    let states = (0..100).map(|n| held(&format!("a/{n:02}"), "x", 1, 30, &[])).collect();
    model.hear(Told::Picture(picture(states, now)), now);
    let text = plain(&model, now);
    assert_eq!(text.lines().filter(|line| line.starts_with("a/")).count(), 100);
    assert!(text.starts_with("fencepost top  redis://127.0.0.1:6379  names a…  read-only"), "{text}");
}
