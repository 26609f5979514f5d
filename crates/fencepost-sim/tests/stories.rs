//! What everybody tells about distributed locks, each beside its control: the wrong way fails.

use fencepost_sim::{Control, Flaw, Plan, Run, Story, all, campaign, explain, run};
use fencepost_testkit::checker::Rule;

fn told(story: Story, flaw: Option<Flaw>) -> Run {
    run(&Plan::story(story, flaw), true)
}

fn rules(run: &Run) -> Vec<Rule> {
    run.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_write_after_a_pause_of_20_s_is_rejected_by_the_fence_and_done_without_it() {
    let fenced = told(Story::LongPause, None);
    assert_eq!((rules(&fenced), fenced.grants, fenced.writes), (vec![], 2, [1, 0, 0]), "{}", fenced.log);
    let unfenced = told(Story::LongPause, Some(Flaw::NoFence));
    assert_eq!((unfenced.writes[2], rules(&unfenced)[0]), (1, Rule::C4), "{}", unfenced.log);
}

#[test]
fn a_read_that_shows_its_token_protects_the_write_after_it() {
    let fenced = told(Story::PauseBetween, None);
    assert_eq!((rules(&fenced), fenced.grants, fenced.writes), (vec![], 2, [1, 1, 0]), "{}", fenced.log);
    let unfenced = told(Story::PauseBetween, Some(Flaw::ReadsWithoutToken));
    assert_eq!(rules(&unfenced), [Rule::C4], "{}", unfenced.log);
}

#[test]
fn a_forgotten_token_of_the_near_future_is_outrun_by_the_window_of_the_nodes() {
    let run = told(Story::ForgottenFence, None);
    assert_eq!(rules(&run), [], "{}", run.log);
    for flaw in [Flaw::NoLowerBound, Flaw::NoUpperBound] {
        let run = told(Story::ForgottenFence, Some(flaw));
        assert!(rules(&run).contains(&Rule::C2), "{flaw:?}: {}", run.log);
    }
}

#[test]
fn two_that_reach_the_nodes_in_opposite_order_both_get_their_turn() {
    let run = told(Story::OppositeOrder, None);
    assert_eq!((rules(&run), run.grants), (vec![], 2), "{}", run.log);
}

#[test]
fn a_node_that_restarts_empty_within_the_ttl_does_not_make_a_second_holder() {
    let run = told(Story::RestartWithinTtl, None);
    assert_eq!(rules(&run), [], "{}", run.log);
    let hasty = told(Story::RestartWithinTtl, Some(Flaw::NoQuarantine));
    assert_eq!(rules(&hasty)[0], Rule::C1, "{}", hasty.log);
}

#[test]
fn a_clock_jump_on_all_nodes_makes_two_holders_with_rising_tokens() {
    let run = told(Story::ClockJump, None);
    assert_eq!((rules(&run), run.overlaps, run.grants), (vec![], 1, 2), "{}", run.log);
    // Its control: with the wrong renewal the first holder never hears of the second.
    let wrong = told(Story::ClockJump, Some(Flaw::RenewalKeepsAnybody));
    assert!(!rules(&wrong).is_empty(), "{}", wrong.log);
}

#[test]
fn a_late_request_does_not_bring_a_holder_back_that_another_followed() {
    let run = told(Story::LateRequest, None);
    assert_eq!((rules(&run), run.grants), (vec![], 2), "{}", run.log);
    assert!(run.log.contains("Lost(TakenOver)"), "the first holder is told: {}", run.log);
    let wrong = told(Story::LateRequest, Some(Flaw::RenewalKeepsNewer));
    assert_eq!(rules(&wrong).first(), Some(&Rule::C11), "{}", wrong.log);
}

#[test]
fn ten_thousand_pauses_of_holders_let_no_stale_write_through_and_many_without_the_fence() {
    let enough = |tally: &fencepost_sim::Tally| tally.pauses >= 10_000;
    let fenced = campaign(0..1_000, |seed| Plan::pauses_only(seed, None), enough);
    println!("{} pauses, fenced: {:?} writes accepted, late, accepted late", fenced.pauses, fenced.writes);
    if let Some((seed, ..)) = fenced.violations.first() {
        panic!("{}", explain(&Plan::pauses_only(*seed, None)).unwrap_or_default());
    }
    let unfenced = campaign(0..1_000, |seed| Plan::pauses_only(seed, Some(Flaw::NoFence)), enough);
    println!("{} pauses, without: {:?}", unfenced.pauses, unfenced.writes);
    assert!(fenced.writes[1] > 100 && fenced.writes[2] == 0, "{:?}", fenced.writes);
    assert!(unfenced.writes[2] > 100, "{:?}", unfenced.writes);
}

#[test]
fn other_ways_to_lock_fail_in_the_same_worlds() {
    for control in [Control::PlainRedlock, Control::SentinelIncr] {
        let tally = campaign(0..1_000, |seed| Plan::controlled(seed, control), all);
        println!(
            "{}: {} of {} seeds go wrong: {:?}",
            control.describe(),
            tally.violations.len(),
            tally.seeds,
            tally.rules()
        );
        let order = tally.rules().iter().any(|(rule, _)| matches!(rule, Rule::C2 | Rule::C3));
        assert!(order, "{control:?}: {:?}", tally.rules());
    }
    // Ours on the same servers loses exclusion, as documented, and never the order of tokens.
    let tally = campaign(0..1_000, |seed| Plan::controlled(seed, Control::OursOnSentinel), all);
    println!("{}: {:?}", Control::OursOnSentinel.describe(), tally.rules());
    let exclusion = |rule: &Rule| matches!(rule, Rule::C1 | Rule::C9 | Rule::C11);
    assert!(tally.rules().iter().all(|(rule, _)| exclusion(rule)), "{:?}", tally.violations.first());
}
