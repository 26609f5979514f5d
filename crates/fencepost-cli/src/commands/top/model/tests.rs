use super::super::book::tests::{free, held, picture};
use super::*;

fn options() -> Options {
    let (store, prefix) = ("sqlite:locks.db".into(), String::new());
    Options { store, prefix, delay: Duration::from_secs(1), limit: 10_000, read_only: false, all: false }
}

/// A screen of 80 by 24 on these locks.
fn model(states: Vec<LockState>) -> (Model, Instant) {
    let (mut model, now) = (Model::new(options(), (80, 24)), Instant::now());
    model.fit(10, 0);
    model.hear(Told::Picture(picture(states, now)), now);
    (model, now)
}

fn three() -> (Model, Instant) {
    let states = ["a", "b", "c"].map(|name| held(name, &format!("run-{name}"), 7, 30, &[]));
    model(states.to_vec())
}

fn press(model: &mut Model, keys: &[Key], now: Instant) -> Option<Effect> {
    keys.iter().map(|key| model.press(*key, now)).last().flatten()
}

fn letters(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

#[test]
fn the_bar_moves_and_stays_within_the_rows() {
    let names: Vec<LockState> = (0..100).map(|n| held(&format!("{n:02}"), "x", 1, 30, &[])).collect();
    let (mut model, now) = model(names);
    for (key, at, first) in [
        (Key::Up, 0, 0),
        (Key::Down, 1, 0),
        (Key::PageDown, 11, 2),
        (Key::End, 99, 90),
        (Key::Down, 99, 90),
        (Key::PageUp, 89, 89),
        (Key::Home, 0, 0),
    ] {
        model.press(key, now);
        assert_eq!((model.at, model.first), (at, first), "{key:?}");
    }
    press(&mut model, &[Key::End], now);
    model.fit(30, 0);
    assert_eq!((model.at, model.first), (99, 70), "a higher terminal shows more");
    model.fit(1, 0);
    assert_eq!(model.first, 99);
}

#[test]
fn the_bar_stays_on_its_lock_when_rows_move() {
    let (mut model, now) = three();
    press(&mut model, &[Key::Down], now);
    assert_eq!(model.chosen(), Some("b"));
    let contended = vec![held("a", "x", 7, 30, &[]), held("b", "x", 7, 30, &[]), held("c", "x", 7, 30, &["w"])];
    model.hear(Told::Picture(picture(contended, now)), now);
    assert_eq!((model.chosen(), model.at), (Some("b"), 2), "c waits and comes first");
    model.hear(Told::Picture(picture(vec![held("a", "x", 7, 30, &[])], now)), now);
    assert_eq!((model.chosen(), model.at), (Some("a"), 0), "b is gone");
    model.hear(Told::Picture(picture(Vec::new(), now)), now);
    assert_eq!(model.chosen(), None);
    for key in [Key::Down, Key::Enter, Key::Char('k'), Key::Char('a'), Key::End, Key::Char('/'), Key::Char('x')] {
        model.press(key, now);
    }
    assert_eq!(model.page, Page::Locks);
}

#[test]
fn a_search_goes_to_the_next_and_round() {
    let (mut model, now) = three();
    press(&mut model, &[Key::Function(3)], now);
    press(&mut model, &letters("RUN-"), now);
    assert_eq!(model.at, 0);
    press(&mut model, &[Key::Function(3)], now);
    assert_eq!(model.at, 1);
    press(&mut model, &[Key::Function(3), Key::Function(3)], now);
    assert_eq!(model.at, 0, "round");
    press(&mut model, &letters("c"), now);
    assert_eq!(model.at, 2);
    press(&mut model, &letters("q"), now);
    assert_eq!((model.at, model.note(now)), (2, Some("nothing found")));
    assert_eq!(press(&mut model, &[Key::Enter, Key::Enter], now), Some(Effect::Ask(Question::Watch(Some("c".into())))));
}

#[test]
fn a_filter_hides_others_until_escape() {
    let (mut model, now) = three();
    press(&mut model, &[Key::Char('\\'), Key::Char('b')], now);
    assert_eq!((model.order.len(), model.chosen()), (1, Some("b")), "as it is typed");
    press(&mut model, &[Key::Backspace], now);
    assert_eq!(model.order.len(), 3);
    press(&mut model, &[Key::Char('c'), Key::Enter], now);
    assert_eq!((model.filter.as_str(), model.order.len()), ("c", 1));
    press(&mut model, &[Key::Escape], now);
    assert_eq!((model.order.len(), model.chosen()), (3, Some("c")));
}

#[test]
fn the_order_is_chosen_from_a_list_by_a_letter_and_turned_round() {
    let (mut model, now) = three();
    assert_eq!(model.sort, Sort::by(Column::Line));
    press(&mut model, &[Key::Function(6), Key::Home, Key::Enter], now);
    assert_eq!(model.sort, Sort::by(Column::Name));
    press(&mut model, &[Key::Char('I')], now);
    assert_eq!((model.chosen(), model.at), (Some("c"), 0));
    press(&mut model, &[Key::Char('T')], now);
    assert_eq!(model.sort, Sort::by(Column::Left));
    press(&mut model, &[Key::Char('>'), Key::End, Key::Escape], now);
    assert_eq!((model.sort, model.prompt), (Sort::by(Column::Left), None));
}

#[test]
fn a_lock_is_opened_watched_and_left() {
    let (mut model, now) = three();
    let watch = |name: Option<&str>| Some(Effect::Ask(Question::Watch(name.map(ToOwned::to_owned))));
    assert_eq!(press(&mut model, &[Key::Down, Key::Enter], now), watch(Some("b")));
    model.hear(Told::State(held("b", "other", 9, 30, &["w"]), now), now);
    assert_eq!(model.book.find("b").map(|entry| entry.state.waiters.len()), Some(1));
    assert_eq!(press(&mut model, &[Key::Escape], now), watch(None));
    assert_eq!((model.page.clone(), model.chosen()), (Page::Locks, Some("b")));
    for key in [Key::Function(1), Key::Char('n')] {
        assert_eq!(press(&mut model, &[key], now), None);
        assert_ne!(model.page, Page::Locks);
        assert_eq!(press(&mut model, &[Key::Char('q')], now), None, "q leaves a page, not the program");
        assert_eq!(model.page, Page::Locks);
    }
    for key in [Key::Char('q'), Key::Function(10), Key::Control('c')] {
        assert_eq!(press(&mut model, &[key], now), Some(Effect::Quit));
    }
}

#[test]
fn nothing_is_done_to_a_holder_without_a_yes() {
    let (mut model, now) = three();
    for no in [Key::Char('n'), Key::Enter, Key::Escape, Key::Char('k'), Key::Char(' ')] {
        assert_eq!(press(&mut model, &[Key::Char('k')], now), None);
        let Some(Prompt::Confirm(deed)) = &model.prompt else { panic!("no question") };
        assert_eq!((deed.name.as_str(), deed.holder.label.as_str()), ("a", "run-a"));
        assert_eq!(press(&mut model, &[no], now), None, "{no:?}");
        assert_eq!((&model.prompt, model.note(now)), (&None, Some("nothing was done")));
    }
    let (done, asked) = (Key::Function(9), Key::Char('a'));
    for (key, act) in [(done, Act::ForceRelease), (asked, Act::AskToYield)] {
        let effect = press(&mut model, &[key, Key::Char('y')], now);
        let Some(Effect::Ask(Question::Do(deed))) = effect else { panic!("nothing was done") };
        assert_eq!((deed.act, deed.name.as_str()), (act, "a"));
    }
}

#[test]
fn the_lock_of_a_question_stays_the_one_that_was_shown() {
    let (mut model, now) = three();
    press(&mut model, &[Key::Char('k')], now);
    model.hear(Told::Picture(picture(vec![held("c", "x", 9, 30, &["w"])], now)), now);
    let Some(Effect::Ask(Question::Do(deed))) = press(&mut model, &[Key::Char('y')], now) else { panic!("not asked") };
    assert_eq!((deed.name.as_str(), deed.holder.label.as_str()), ("a", "run-a"));
}

#[test]
fn a_view_only_and_a_free_lock_refuse_to_act() {
    let (mut model, now) = three();
    model.options.read_only = true;
    for key in [Key::Char('k'), Key::Function(9), Key::Char('a')] {
        assert_eq!(press(&mut model, &[key, Key::Char('y')], now), None);
        assert_eq!(model.prompt, None);
    }
    press(&mut model, &[Key::Char('k')], now);
    assert!(model.note(now).is_some_and(|note| note.contains("--read-only")));
    let (mut model, now) = self::model(vec![free("f", 3)]);
    press(&mut model, &[Key::Tab, Key::Tab, Key::Char('k')], now);
    assert_eq!((model.note(now), &model.prompt), (Some("f is free"), &None));
}

#[test]
fn a_pause_stops_the_reading_and_the_time() {
    let (mut model, now) = three();
    assert_eq!(press(&mut model, &[Key::Char(' ')], now), Some(Effect::Ask(Question::Pause(true))));
    let later = now + Duration::from_secs(9);
    assert_eq!(model.now(later), now);
    model.hear(Told::Picture(picture(Vec::new(), later)), later);
    assert_eq!(model.order.len(), 3, "what was under way comes too late");
    assert_eq!(press(&mut model, &[Key::Char('p')], later), Some(Effect::Ask(Question::Pause(false))));
    assert_eq!(model.now(later), later);
}

#[test]
fn the_delay_goes_by_steps_between_its_ends() {
    let (mut model, now) = three();
    let ask = |ms| Some(Effect::Ask(Question::Delay(Duration::from_millis(ms))));
    assert_eq!(press(&mut model, &[Key::Char('+')], now), ask(2000));
    assert_eq!(press(&mut model, &[Key::Char('-')], now), ask(1000));
    (0..20).for_each(|_| drop(model.press(Key::Char('-'), now)));
    assert_eq!(model.options.delay, Duration::from_millis(100));
    assert_eq!(press(&mut model, &[Key::Char('-')], now), None);
    (0..20).for_each(|_| drop(model.press(Key::Char('+'), now)));
    assert_eq!(press(&mut model, &[Key::Char('+')], now), None);
}

#[test]
fn trouble_is_told_since_when_it_began_until_an_answer_comes() {
    let (mut model, now) = three();
    let (first, second) = (now + Duration::from_secs(1), now + Duration::from_secs(7));
    model.hear(Told::Asking, now);
    assert_eq!(model.silent_since(first), None);
    assert_eq!(model.silent_since(second), Some(now));
    model.hear(Told::Failed { why: "list failed: \u{1b}[2J".into(), is_away: true }, first);
    assert_eq!(model.trouble.as_ref().map(|trouble| trouble.why.as_str()), Some("list failed: \\u{1b}[2J"));
    model.hear(Told::Failed { why: "list failed again".into(), is_away: true }, second);
    assert_eq!(model.trouble.as_ref().map(|trouble| trouble.since), Some(first));
    assert_eq!((model.order.len(), model.silent_since(second)), (3, None), "what was known stays");
    model.hear(Told::Picture(picture(Vec::new(), second)), second);
    assert!(model.trouble.is_none());
}

#[test]
fn what_others_say_is_made_harmless() {
    let (mut model, now) = three();
    model.hear(Told::Done("a was held by \u{1b}[2J".into()), now);
    assert_eq!(model.note(now), Some("a was held by \\u{1b}[2J"));
    assert_eq!(model.note(now + Duration::from_secs(60)), None, "and is not said for ever");
    model.hear(Told::Circles(Err("\u{7}".into())), now);
    assert!(matches!(&model.circles, Circles::Failed(why) if why == "\\u{7}"));
}
