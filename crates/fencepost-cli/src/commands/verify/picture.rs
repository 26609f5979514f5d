//! Who held what, when: one lane per client, violations in red, faults marked.

use fencepost::store::Moment;
use fencepost_history::checker::Hold;

use super::Plan;
use super::faults::Struck;
use super::reds::{Red, reds};
use super::verdict::Judgement;
use crate::args::Fault;
use crate::page::{Anchor, Svg};

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 14.0;
/// Legend, and the names of broken rules below it.
const TOP: f64 = 44.0;
const BOTTOM: f64 = 26.0;
/// Locks are told apart by so many colours, none of them like the red of violations.
const COLOURS: usize = 4;
/// Columns of the picture of the whole run, each shaded by how much of it the client held a lock.
const COLUMN: f64 = 2.0;
const SHADES: usize = 4;

/// A part of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Moment,
    pub(super) until: Moment,
}

impl Window {
    fn nanos(self) -> f64 {
        (self.until.as_nanos().saturating_sub(self.from.as_nanos())).max(1) as f64
    }

    fn shows(self, from: Moment, until: Moment) -> bool {
        from <= self.until && until >= self.from
    }
}

/// A picture in the making.
struct Timeline<'a> {
    judgement: &'a Judgement,
    window: Window,
    svg: Svg,
    clients: usize,
    lane: f64,
}

/// The whole run: too much for single holds, so each lane is shaded by how busy it was.
pub(super) fn overview(plan: &Plan, judgement: &Judgement, window: Window) -> Svg {
    let mut timeline = Timeline::new(plan, judgement, window, "The whole run: who held a lock when");
    timeline.legend(&[("bar s0", "holds a lock, stronger for more of the time")]);
    timeline.lanes(plan);
    timeline.axis();
    timeline.faults();
    timeline.shades();
    timeline.kills();
    timeline.late_writes();
    timeline.reds(false);
    timeline.svg
}

/// A part of the run, hold by hold.
pub(super) fn closer(plan: &Plan, judgement: &Judgement, window: Window, label: &str) -> Svg {
    let mut timeline = Timeline::new(plan, judgement, window, label);
    let locks: Vec<(String, String)> =
        (0..plan.names.len().min(COLOURS)).map(|lock| (format!("bar s{lock}"), format!("lock {}", lock + 1))).collect();
    let mut entries: Vec<(&str, &str)> = locks.iter().map(|(class, name)| (class.as_str(), name.as_str())).collect();
    entries.push(("wait", "waits for one"));
    timeline.legend(&entries);
    timeline.lanes(plan);
    timeline.axis();
    timeline.faults();
    timeline.holds();
    timeline.fault_names();
    timeline.kills();
    timeline.late_writes();
    timeline.reds(true);
    timeline.svg
}

impl<'a> Timeline<'a> {
    fn new(plan: &Plan, judgement: &'a Judgement, window: Window, label: &str) -> Self {
        let lane = if plan.clients > 16 { 15.0 } else { 24.0 };
        let height = TOP + lane * plan.clients as f64 + BOTTOM;
        let svg = Svg::new((WIDTH, height), label);
        Self { judgement, window, svg, clients: plan.clients, lane }
    }

    fn x(&self, at: Moment) -> f64 {
        let since = at.as_nanos() as f64 - self.window.from.as_nanos() as f64;
        let x = LEFT + since / self.window.nanos() * (WIDTH - LEFT - RIGHT);
        x.clamp(LEFT, WIDTH - RIGHT)
    }

    fn y(&self, client: usize) -> f64 {
        TOP + self.lane * client as f64
    }

    fn bottom(&self) -> f64 {
        self.y(self.clients)
    }

    /// What the colours mean, in one line above the lanes.
    fn legend(&mut self, entries: &[(&str, &str)]) {
        let mut all: Vec<(&str, &str)> = entries.to_vec();
        all.push(("struck", "paused or cut off"));
        all.push(("kill", "killed"));
        all.push(("late", "late write, refused"));
        all.push(("bad", "violation"));
        let mut x = LEFT;
        for (class, name) in all {
            match class {
                "late" => self.svg.dot(class, (x + 6.0, 11.0), 4.0, ""),
                "kill" => self.cross((x + 6.0, 11.0), ""),
                _ => self.svg.rect(class, (x, 6.0), (12.0, 10.0), ""),
            }
            self.svg.text((x + 17.0, 15.0), Anchor::Start, name);
            x += 36.0 + 6.1 * name.chars().count() as f64;
        }
    }

    fn lanes(&mut self, plan: &Plan) {
        for client in 0..self.clients {
            let y = self.y(client);
            let buggy = plan.bug.is_some() && client == 0;
            let name = format!("client {}{}", client + 1, if buggy { " (bug)" } else { "" });
            self.svg.text((LEFT - 8.0, y + self.lane / 2.0 + 4.0), Anchor::End, &name);
            self.svg.rect("lane", (LEFT, y + 1.0), (WIDTH - LEFT - RIGHT, self.lane - 2.0), "");
        }
    }

    /// What was done to clients in this part of the run.
    fn struck(&self, kills: bool) -> Vec<&'a Struck> {
        let all = self.judgement.seen.struck.iter().filter(|struck| (struck.kind == Fault::KillClient) == kills);
        all.filter(|struck| self.window.shows(struck.from, struck.until)).collect()
    }

    fn faults(&mut self) {
        for struck in self.struck(false) {
            let (from, until, y) = (self.x(struck.from), self.x(struck.until), self.y(struck.client));
            let lasted = struck.until.since(struck.from).as_millis();
            let tip = format!("{} for {lasted} ms", fate(struck));
            self.svg.rect("struck", (from, y + 1.0), ((until - from).max(1.5), self.lane - 2.0), &tip);
        }
    }

    /// Where there is room for them.
    fn fault_names(&mut self) {
        for struck in self.struck(false) {
            let (from, until, y) = (self.x(struck.from), self.x(struck.until), self.y(struck.client));
            let name = if struck.kind == Fault::Pause { "paused" } else { "cut off" };
            if until - from > 90.0 {
                self.svg.text((until - 12.0, y + self.lane / 2.0 + 4.0), Anchor::End, name);
            }
        }
    }

    fn kills(&mut self) {
        for struck in self.struck(true) {
            let at = (self.x(struck.from), self.y(struck.client) + self.lane / 2.0);
            self.cross(at, &fate(struck));
        }
    }

    fn cross(&mut self, (x, y): (f64, f64), tip: &str) {
        self.svg.line("kill", (x - 4.0, y - 4.0), (x + 4.0, y + 4.0));
        self.svg.line("kill", (x - 4.0, y + 4.0), (x + 4.0, y - 4.0));
        self.svg.rect("hint", (x - 5.0, y - 5.0), (10.0, 10.0), tip);
    }

    fn shades(&mut self) {
        let columns = ((WIDTH - LEFT - RIGHT) / COLUMN) as usize;
        let per_column = self.window.nanos() / columns as f64;
        for client in 0..self.clients {
            let mut held = vec![0.0_f64; columns];
            for hold in self.of(client) {
                let start = hold.from.as_nanos().saturating_sub(self.window.from.as_nanos()) as f64 / per_column;
                let end = hold.until.as_nanos().saturating_sub(self.window.from.as_nanos()) as f64 / per_column;
                let last = (end.ceil() as usize).min(columns);
                for (column, held) in held.iter_mut().enumerate().take(last).skip(start as usize) {
                    *held += (end.min(column as f64 + 1.0) - start.max(column as f64)).max(0.0);
                }
            }
            let shade = |held: f64| (held * SHADES as f64).ceil().clamp(0.0, SHADES as f64) as usize;
            let y = self.y(client) + 4.0;
            let mut begin = 0;
            while begin < columns {
                let level = shade(held[begin]);
                let run = held[begin..].iter().take_while(|held| shade(**held) == level).count();
                if level > 0 {
                    let (at, size) = ((LEFT + COLUMN * begin as f64, y), (COLUMN * run as f64, self.lane - 8.0));
                    self.svg.rect(&format!("bar s0 o{level}"), at, size, "");
                }
                begin += run;
            }
        }
    }

    fn of(&self, client: usize) -> impl Iterator<Item = &'a Hold> {
        let judgement = self.judgement;
        judgement.holds.iter().filter(move |hold| hold.process as usize == client + 1)
    }

    fn holds(&mut self) {
        for client in 0..self.clients {
            let y = self.y(client);
            let inside: Vec<&Hold> = self.of(client).filter(|hold| self.window.shows(hold.asked, hold.until)).collect();
            for hold in inside {
                let (asked, from, until) = (self.x(hold.asked), self.x(hold.from), self.x(hold.until));
                if from - asked > 0.5 {
                    self.svg.rect("wait", (asked, y + self.lane / 2.0 - 2.0), (from - asked, 4.0), "");
                }
                let lock = hold.lock as usize;
                let tip = format!(
                    "client {} held lock {} under token {} from {} to {}",
                    client + 1,
                    lock + 1,
                    hold.token,
                    seconds(hold.from, 4),
                    seconds(hold.until, 4)
                );
                let class = format!("bar s{}", lock % COLOURS);
                if self.window.shows(hold.from, hold.until) {
                    self.svg.rect(&class, (from, y + 4.0), ((until - from).max(1.0), self.lane - 8.0), &tip);
                }
            }
        }
    }

    fn late_writes(&mut self) {
        let (judgement, window) = (self.judgement, self.window);
        let late = judgement.seen.book.written.iter().filter(|write| !write.accepted);
        for write in late.filter(|write| window.shows(write.at, write.at)) {
            let at = (self.x(write.at), self.y(write.client) + self.lane / 2.0);
            let when = seconds(write.at, 4);
            let tip =
                format!("client {} wrote under {} at {when}: refused by the fence", write.client + 1, write.token);
            self.svg.dot("late", at, 4.0, &tip);
        }
    }

    fn reds(&mut self, told: bool) {
        // Rules that would be written over each other stand beside each other, each once.
        let mut labels: Vec<(f64, Vec<String>)> = Vec::new();
        for Red { rule, at, spans, what } in reds(self.judgement) {
            let whole = spans.iter().fold((at, at), |(from, until), span| (from.min(span.1), until.max(span.2)));
            if !self.window.shows(whole.0, whole.1) {
                continue;
            }
            for (client, from, until) in spans {
                let (start, end, y) = (self.x(from), self.x(until), self.y(client));
                let inset = if told { 4.0 } else { 2.0 };
                let size = ((end - start).max(3.0), self.lane - 2.0 * inset);
                self.svg.rect("bad", (start, y + inset), size, &what);
            }
            if !self.window.shows(at, at) {
                continue;
            }
            let x = self.x(at);
            self.svg.line("bad line", (x, TOP - 6.0), (x, self.bottom()));
            match labels.last_mut().filter(|(at, rules)| x - at < 30.0 * rules.len() as f64) {
                Some((_, rules)) if rules.contains(&rule) => {}
                Some((_, rules)) => rules.push(rule),
                None => labels.push((x, vec![rule])),
            }
        }
        for (x, rules) in labels {
            let anchor = if x > WIDTH - 60.0 { Anchor::End } else { Anchor::Middle };
            self.svg.text((x, TOP - 9.0), anchor, &rules.join(" "));
        }
    }

    /// Seconds since the start of the run.
    fn axis(&mut self) {
        let bottom = self.bottom() + 2.0;
        self.svg.line("axis", (LEFT, bottom), (WIDTH - RIGHT, bottom));
        let step = step(self.window.nanos() / 10.0);
        let digits = 9_usize.saturating_sub(step.ilog10() as usize);
        let mut at = self.window.from.as_nanos().div_ceil(step) * step;
        while at <= self.window.until.as_nanos() {
            let x = self.x(Moment::from_nanos(at));
            self.svg.line("grid", (x, TOP), (x, bottom));
            self.svg.line("axis", (x, bottom), (x, bottom + 4.0));
            let anchor = if x > WIDTH - 40.0 { Anchor::End } else { Anchor::Middle };
            self.svg.text((x, bottom + 16.0), anchor, &seconds(Moment::from_nanos(at), digits));
            at += step;
        }
    }
}

/// What was done to whom, and when.
fn fate(struck: &Struck) -> String {
    format!("client {} was {} at {}", struck.client + 1, struck.what, seconds(struck.from, 3))
}

/// The smallest of 1, 2, 5, 10, … that is not below this.
fn step(least: f64) -> u64 {
    let mut power = 1;
    loop {
        if let Some(step) = [power, 2 * power, 5 * power].into_iter().find(|step| *step as f64 >= least) {
            return step;
        }
        power *= 10;
    }
}

pub(super) fn seconds(at: Moment, digits: usize) -> String {
    format!("{:.digits$} s", at.as_nanos() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_axis_are_round() {
        for (least, round) in
            [(0.5, 1), (1.0, 1), (1.5, 2), (3.0, 5), (7.0, 10), (12e6, 20_000_000), (6e9, 10_000_000_000)]
        {
            assert_eq!(step(least), round, "{least}");
        }
    }
}
