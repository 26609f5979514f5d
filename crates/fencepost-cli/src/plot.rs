//! Curves between two axes, drawn on a page.

use std::time::Duration;

use crate::histogram::spoken;
use crate::page::{Anchor, Svg};

/// Of the whole picture.
const SIZE: (f64, f64) = (520.0, 256.0);
/// Around the field: for numbers at the left and below, for the last number at the right, for a title above.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 26.0;
const ABOVE: f64 = 28.0;
const BELOW: f64 = 46.0;
/// Numbers along an axis, at most: more run into each other.
const TICKS_MAX: usize = 7;

/// From where to where, by which scale, and where numbers stand.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    title: String,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
    scale: fn(f64) -> f64,
}

impl Axis {
    /// From zero to a round number.
    pub(crate) fn amounts(title: &str, most: f64) -> Self {
        let raw = if most > 0.0 { most / 4.0 } else { 1.0 };
        let unit = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= raw * 0.999);
        let step = step.unwrap_or(10.0 * unit);
        let count = (most / step).ceil().max(1.0) as usize;
        let ticks = (0..=count).map(|number| (number as f64 * step, amount(number as f64 * step))).collect();
        Self { title: title.to_owned(), from: 0.0, to: count as f64 * step, ticks, scale: |value| value }
    }

    /// Whole numbers from 1.
    pub(crate) fn numbers(title: &str, last: usize) -> Self {
        let step = last.div_ceil(10).max(1);
        let ticks = (1..=last.max(1)).step_by(step).map(|number| (number as f64, number.to_string())).collect();
        Self { title: title.to_owned(), from: 0.5, to: last.max(1) as f64 + 0.5, ticks, scale: |value| value }
    }

    /// Logarithmic, in nanoseconds.
    pub(crate) fn durations(title: &str, least: Duration, most: Duration) -> Self {
        let (least, most) = (least.as_nanos().max(1) as f64, most.as_nanos().max(2) as f64);
        let (from, to) = (least * 0.9, (most * 1.1).max(least * 1.8));
        let all = |steps: &[f64]| -> Vec<f64> {
            let powers = (0..18).map(|power| 10f64.powi(power));
            let all = powers.flat_map(|power| steps.iter().map(move |step| step * power).collect::<Vec<_>>());
            all.filter(|value| (from..=to).contains(value)).collect()
        };
        let choices: [&[f64]; 5] = [
            &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0, 3.0],
            &[1.0],
        ];
        let found = choices.map(all).into_iter().find(|ticks| ticks.len() <= TICKS_MAX);
        // From nanoseconds to days there is room for every third power of ten.
        let ticks = found.unwrap_or_else(|| all(&[1.0]).into_iter().step_by(3).collect());
        let ticks = ticks.into_iter().map(|value| (value, round(value))).collect();
        Self { title: title.to_owned(), from, to, ticks, scale: f64::ln }
    }

    /// Percent, drawn by how many are left above: each nine takes as much room as the last.
    pub(crate) fn percentiles(title: &str, nines: f64) -> Self {
        let all = [(0.0, "0"), (50.0, "50"), (90.0, "90"), (99.0, "99"), (99.9, "99.9"), (99.99, "99.99")];
        let to = 100.0 - 10f64.powf(2.0 - nines);
        let ticks = all.into_iter().filter(|(percent, _)| *percent <= to + 1e-9);
        let ticks = ticks.map(|(percent, name)| (percent, name.to_owned())).collect();
        Self { title: title.to_owned(), from: 0.0, to, ticks, scale: |percent| -(1.0 - percent / 100.0).log10() }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let (from, to) = ((self.scale)(self.from), (self.scale)(self.to));
        (((self.scale)(value) - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// A picture with two axes.
#[derive(Debug)]
pub(crate) struct Plot {
    x: Axis,
    y: Axis,
    svg: Svg,
}

impl Plot {
    /// The label is read to those who do not see it.
    pub(crate) fn new(label: &str, x: Axis, y: Axis) -> Self {
        let mut plot = Self { x, y, svg: Svg::new(SIZE, label) };
        plot.frame();
        plot
    }

    fn frame(&mut self) {
        let (bottom, right) = (SIZE.1 - BELOW, SIZE.0 - RIGHT);
        for (value, name) in self.y.ticks.clone() {
            let y = self.at(self.x.from, value).1;
            self.svg.line("grid", (LEFT, y), (right, y));
            self.svg.text((LEFT - 6.0, y + 4.0), Anchor::End, &name);
        }
        for (value, name) in self.x.ticks.clone() {
            let x = self.at(value, self.y.from).0;
            self.svg.line("grid", (x, ABOVE), (x, bottom));
            self.svg.text((x, bottom + 18.0), Anchor::Middle, &name);
        }
        self.svg.line("axis", (LEFT, bottom), (right, bottom));
        self.svg.text((LEFT + (right - LEFT) / 2.0, SIZE.1 - 8.0), Anchor::Middle, &self.x.title);
        self.svg.text((6.0, 13.0), Anchor::Start, &self.y.title);
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = (SIZE.0 - LEFT - RIGHT, SIZE.1 - ABOVE - BELOW);
        (LEFT + self.x.place(x) * width, ABOVE + (1.0 - self.y.place(y)) * height)
    }

    /// A line through these, in the colour of a series.
    pub(crate) fn curve(&mut self, series: usize, points: &[(f64, f64)]) {
        let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
        self.svg.path(&format!("line s{series}"), &points);
    }

    /// The same with a dot for each, and what it says under the pointer.
    pub(crate) fn dots(&mut self, series: usize, points: &[(f64, f64, String)]) {
        let line: Vec<(f64, f64)> = points.iter().map(|&(x, y, _)| (x, y)).collect();
        self.curve(series, &line);
        for (x, y, tip) in points {
            self.svg.dot(&format!("dot s{series}"), self.at(*x, *y), 3.2, tip);
        }
    }

    /// Bars side by side, `(from, to, height, tip)`: filled faintly, with a line over them.
    pub(crate) fn steps(&mut self, series: usize, bars: &[(f64, f64, f64, String)]) {
        let mut line = Vec::new();
        for (from, to, height, tip) in bars {
            let ((left, top), (right, bottom)) = (self.at(*from, *height), self.at(*to, self.y.from));
            if *height > 0.0 {
                let size = ((right - left).max(0.5), bottom - top);
                self.svg.rect(&format!("area s{series}"), (left, top), size, tip);
            }
            line.extend([(left, top), (right, top)]);
        }
        if let (Some(&(first, _)), Some(&(last, _))) = (line.first(), line.last()) {
            let bottom = self.at(self.x.from, self.y.from).1;
            line.insert(0, (first, bottom));
            line.push((last, bottom));
            self.svg.path(&format!("line s{series}"), &line);
        }
    }

    pub(crate) fn finish(self) -> Svg {
        self.svg
    }
}

/// A number for an axis: no more digits than it needs.
fn amount(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e4 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

/// A round duration without what is not needed: `50 µs`, `1.5 ms`.
fn round(nanos: f64) -> String {
    let text = spoken(Duration::from_nanos(nanos.round() as u64));
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn axes_have_few_round_numbers_and_reach_what_is_shown() {
        assert_eq!(names(&Axis::amounts("", 9.0)), ["0", "2.5", "5", "7.5", "10"]);
        assert_eq!(names(&Axis::amounts("", 0.0)), ["0", "1"]);
        assert_eq!(names(&Axis::amounts("", 41_000.0)), ["0", "20k", "40k", "60k"]);
        let (least, most) = (Duration::from_micros(80), Duration::from_millis(9));
        assert_eq!(names(&Axis::durations("", least, most)), ["100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]);
        let span = |least, most| Axis::durations("", Duration::from_nanos(least), Duration::from_nanos(most));
        for axis in [span(0, 0), span(1, 10u64.pow(16)), span(1000, 1001), span(250_000, 400_000)] {
            assert!(axis.ticks.len() <= 18, "{axis:?}");
            assert!(!axis.ticks.is_empty(), "{axis:?}");
        }
        assert_eq!(names(&Axis::percentiles("", 3.0)), ["0", "50", "90", "99", "99.9"]);
        assert_eq!(names(&Axis::numbers("", 3)), ["1", "2", "3"]);
    }

    #[test]
    fn values_are_placed_between_the_ends() {
        let axis = Axis::percentiles("", 3.0);
        assert!((axis.place(90.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((axis.place(0.0), axis.place(100.0)), (0.0, 1.0));
        assert_eq!(Axis::amounts("", 10.0).place(f64::INFINITY), 1.0);
    }
}
