//! Durations, counted in bounded memory: percentiles to one part in a hundred, and bars for a terminal.

use std::ops::Range;
use std::time::Duration;

/// What is below is counted exactly; above, three digits are kept.
const EXACT: u64 = 100;
/// Steps of each power of ten: 100 to 999.
const STEPS: u64 = 900;
/// Three years: what took longer is counted as this.
const LONGEST: u64 = 10u64.pow(17) - 1;
/// Where bars may begin, from coarse to fine, in each power of ten. The finest that does not need too many rows is taken.
const SCALES: [&[u64]; 5] = [
    &[100],
    &[100, 200, 500],
    &[100, 150, 200, 300, 500, 700],
    &[100, 120, 150, 200, 250, 300, 400, 500, 600, 800],
    &[
        100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200, 220, 240, 260, 280, 300, 350, 400, 450, 500, 600, 700,
        800, 900,
    ],
];

/// How often which durations were seen. It has at most some ten thousand counters, however many are recorded.
#[derive(Clone, Default, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// Durations from one to below another, and how many there were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Band {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) count: u64,
}

impl Histogram {
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(LONGEST).min(LONGEST);
        let index = index(nanos);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.least = if self.count == 0 { nanos } else { self.least.min(nanos) };
        self.most = self.most.max(nanos);
        self.sum += u128::from(nanos);
        self.count += 1;
    }

    /// Adds what another has seen.
    pub(crate) fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn min(&self) -> Duration {
        Duration::from_nanos(self.least)
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// Zero if nothing was recorded.
    pub(crate) fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// So many of a hundred took no longer, up to one part in a hundred; zero if nothing was recorded.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        let Some(index) = found else { return Duration::ZERO };
        // The upper end of its counter, which nobody may have reached.
        Duration::from_nanos((range(index).end - 1).clamp(self.least, self.most))
    }

    /// Everything that was seen, as finely as it is kept, in order. Their counts add up to [`count`](Self::count).
    pub(crate) fn bands(&self) -> Vec<Band> {
        let seen = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        seen.map(|(index, &count)| band(range(index), count)).collect()
    }

    /// The same in at most so many rows, or one per power of ten if that is more. Their ends are round numbers; those
    /// between the first and the last may be empty. One slow outlier makes the rows coarse: that is the price of seeing
    /// it.
    pub(crate) fn rows(&self, at_most: usize) -> Vec<Band> {
        if self.count == 0 {
            return Vec::new();
        }
        let all: Vec<Vec<u64>> = SCALES.iter().map(|scale| self.edges(scale)).collect();
        let fits = |edges: &&Vec<u64>| edges.len() <= at_most + 1;
        let edges = all.iter().rev().find(fits).unwrap_or(&all[0]);
        let mut rows: Vec<Band> = edges.windows(2).map(|ends| band(ends[0]..ends[1], 0)).collect();
        for seen in self.bands() {
            let row = rows.partition_point(|row| row.to <= seen.from).min(rows.len() - 1);
            rows[row].count += seen.count;
        }
        rows
    }

    /// Ends of rows around everything that was seen.
    fn edges(&self, scale: &[u64]) -> Vec<u64> {
        let powers = (0..16).map(|power| 10u64.pow(power));
        let all = powers.flat_map(|power| scale.iter().map(move |step| step * power));
        let all: Vec<u64> = std::iter::once(0).chain(all).collect();
        let first = all.partition_point(|&edge| edge <= self.least).saturating_sub(1);
        let last = all.partition_point(|&edge| edge <= self.most).min(all.len() - 1);
        all[first..=last].to_vec()
    }

    /// Rows with bars for a terminal so many columns wide, each with its count and share, and marks where percentiles lie.
    pub(crate) fn bars(&self, columns: usize) -> String {
        const ROWS_MAX: usize = 14;
        let rows = self.rows(ROWS_MAX);
        let highest = rows.iter().map(|row| row.count).max().unwrap_or(0);
        let digits = highest.to_string().len();
        // Two ends of 7 with a dash, the count, a share of 8, and three marks of 3 with blanks between.
        let width = columns.saturating_sub(2 + 7 + 3 + 7 + 2 + 1 + digits + 1 + 8 + 2 + 11).clamp(10, 60);
        let marks =
            [(50.0, "p50"), (90.0, "p90"), (99.0, "p99")].map(|(percent, name)| (self.percentile(percent), name));
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let is_last = number + 1 == rows.len();
            let inside = |value: Duration| value >= row.from && (value < row.to || is_last);
            let names: Vec<&str> = marks.iter().filter(|(value, _)| inside(*value)).map(|(_, name)| *name).collect();
            let (from, to) = (spoken(row.from), spoken(row.to));
            let bar = bar(row.count, highest, width);
            let share = format!("{:.1} %", 100.0 * row.count as f64 / self.count as f64);
            let line =
                format!("  {from:>7} - {to:>7}  {bar:width$} {:>digits$} {share:>8}  {}", row.count, names.join(" "));
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A duration with three digits: `840 ns`, `12.3 µs`, `1.20 ms`, `4.56 s`, `75.2 s`.
pub(crate) fn spoken(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    let (value, unit) = match nanos {
        _ if nanos < 999.5 => return format!("{nanos:.0} ns"),
        _ if nanos < 999.5e3 => (nanos / 1e3, "µs"),
        _ if nanos < 999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    match value {
        _ if value < 9.995 => format!("{value:.2} {unit}"),
        _ if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// As long as its share of the highest; what was seen at all shows.
fn bar(count: u64, highest: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if count == 0 {
        return String::new();
    }
    let eighths = (count as f64 / highest as f64 * width as f64 * 8.0).round().max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn index(nanos: u64) -> usize {
    if nanos < EXACT {
        return nanos as usize;
    }
    let power = nanos.ilog10() - EXACT.ilog10();
    (EXACT + u64::from(power) * STEPS + nanos / 10u64.pow(power) - EXACT) as usize
}

/// What a counter counts, in nanoseconds.
fn range(index: usize) -> Range<u64> {
    let index = index as u64;
    if index < EXACT {
        return index..index + 1;
    }
    let (power, step) = ((index - EXACT) / STEPS, (index - EXACT) % STEPS + EXACT);
    let unit = 10u64.pow(u32::try_from(power).expect("BUG: a u64 has twenty digits"));
    step * unit..(step + 1).saturating_mul(unit)
}

fn band(nanos: Range<u64>, count: u64) -> Band {
    Band { from: Duration::from_nanos(nanos.start), to: Duration::from_nanos(nanos.end), count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        nanos.into_iter().for_each(|nanos| histogram.record(Duration::from_nanos(nanos)));
        histogram
    }

    #[test]
    fn every_duration_lies_in_the_range_of_its_counter_and_ranges_leave_no_gap() {
        for nanos in (0..5000).chain([99_949, 99_999, 100_000, 123_456_789, 3_600_000_000_000, LONGEST]) {
            let range = range(index(nanos));
            assert!(range.contains(&nanos), "{nanos} is not in {range:?}");
            assert!(range.end - range.start <= nanos / 99 + 1, "{range:?} is too wide");
        }
        for index in 0..9_000 {
            assert_eq!(range(index).end, range(index + 1).start, "after {index}");
        }
    }

    #[test]
    fn percentiles_are_right_to_one_part_in_a_hundred() {
        let histogram = of((1..=100_000).map(|number| number * 1_000));
        for percent in [0.1, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99] {
            let (found, exact) = (histogram.percentile(percent).as_nanos() as f64, percent * 1e6);
            assert!((found / exact - 1.0).abs() <= 0.011, "p{percent}: {found} and not {exact}");
        }
        assert_eq!(histogram.percentile(100.0), histogram.max());
        assert_eq!(histogram.mean(), Duration::from_nanos(50_000_500));
    }

    #[test]
    fn nothing_recorded_is_nothing_and_one_is_itself() {
        let nothing = Histogram::default();
        assert_eq!(
            (nothing.percentile(99.0), nothing.mean(), nothing.bars(80)),
            (Duration::ZERO, Duration::ZERO, String::new())
        );
        let one = of([1_234_567]);
        assert_eq!(one.percentile(50.0), Duration::from_nanos(1_234_567));
        assert_eq!((one.min(), one.max()), (one.percentile(0.0), one.percentile(100.0)));
    }

    #[test]
    fn two_together_are_as_if_one_had_seen_all() {
        let (mut left, right) = (of([5, 700, 80_000]), of([1, 9_000_000]));
        left.add(&right);
        left.add(&Histogram::default());
        let all = of([5, 700, 80_000, 1, 9_000_000]);
        assert_eq!(
            (left.bands(), left.min(), left.max(), left.mean()),
            (all.bands(), all.min(), all.max(), all.mean())
        );
        let mut nothing = Histogram::default();
        nothing.add(&right);
        assert_eq!(nothing.min(), right.min());
    }

    #[test]
    fn rows_cover_everything_are_few_and_miss_nothing() {
        for seen in [of([0]), of([1, 1_000_000_000_000]), of(100_000..130_000), of([100_000; 3]), of([u64::MAX])] {
            let rows = seen.rows(14);
            assert!((1..=16).contains(&rows.len()), "{} rows", rows.len());
            assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), seen.count());
            assert!(rows[0].from <= seen.min());
            assert!(rows.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }

    #[test]
    fn bars_fit_the_terminal_and_name_percentiles() {
        let many = (0..99_999u64).map(|number| 100_000 + number * number % 5_000_000);
        let text = of(many.chain([80_000_000])).bars(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for words in ["p50", "p90", "p99", "µs", "ms", "%", "▏"] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
        let close = of(std::iter::repeat_n(5_000, 9_999).chain([80_000_000])).bars(80);
        let longest = close.lines().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(80), "all marks in one row:\n{close}");
    }

    #[test]
    fn durations_have_three_digits() {
        let spoken = |nanos| spoken(Duration::from_nanos(nanos));
        let all = [0, 840, 999, 12_345, 999_949, 999_999, 1_200_000, 99_960_000, 4_560_000_000, 75_200_000_000];
        let told =
            ["0 ns", "840 ns", "999 ns", "12.3 µs", "1000 µs", "1.00 ms", "1.20 ms", "100 ms", "4.56 s", "75.2 s"];
        assert_eq!(all.map(spoken), told.map(|text| text.replace("1000 µs", "1.00 ms")));
    }
}
