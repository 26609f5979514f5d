//! Pictures: lines over a few places, with a logarithmic scale upwards.

use std::fmt::Write;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 420.0;
/// Of the field that the lines are in.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 360.0;

/// Told apart also by who cannot tell red from green.
const COLOURS: [&str; 11] = [
    "#444444", "#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#66c2a5", "#8c6d31", "#9467bd",
    "#999999",
];

/// A line for each name: its value at each place, if it has one.
pub(super) fn lines(title: &str, at: &str, places: &[String], lines: &[(&str, Vec<Option<f64>>)]) -> String {
    let values = || lines.iter().flat_map(|(_, values)| values.iter().flatten());
    let low = values().copied().fold(f64::INFINITY, f64::min).log10().floor();
    let high = values().copied().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let x = |place: usize| LEFT + (RIGHT - LEFT) * (place as f64 + 0.5) / places.len().max(1) as f64;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value.log10() - low) / (high - low);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{title}</text>\n"
    );
    let (mut power, middle) = (low, f64::midpoint(LEFT, RIGHT));
    while power <= high {
        let (height, label) = (y(10_f64.powf(power)), 10_f64.powf(power));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {height:.1}H{RIGHT}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            height + 4.0
        );
        power += 1.0;
    }
    for (number, place) in places.iter().enumerate() {
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{place}</text>", x(number), BOTTOM + 18.0);
    }
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{at}</text>", BOTTOM + 40.0);
    for (number, (name, values)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let width = if name.starts_with("ours") { 4.0 } else { 1.5 };
        let points: Vec<(f64, f64)> =
            values.iter().enumerate().filter_map(|(place, value)| Some((x(place), y((*value)?)))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            path.join(" ")
        );
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
        let height = TOP + 20.0 * number as f64;
        let (from, word) = (RIGHT + 20.0, if points.is_empty() { " (none)" } else { "" });
        let _ = writeln!(
            svg,
            "<path d=\"M{from} {height}h24\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\
             <text x=\"{}\" y=\"{}\">{name}{word}</text>",
            from + 30.0,
            height + 4.0
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_much_is_one_line_higher() {
        let svg = lines("t", "x", &["1".into(), "2".into()], &[("ours", vec![Some(10.0), Some(100.0)])]);
        assert!(svg.contains(&format!("points=\"202.5,{BOTTOM:.1} 467.5,{TOP:.1}\"")), "{svg}");
    }

    #[test]
    fn who_has_no_value_is_named_all_the_same() {
        let svg = lines("t", "x", &["1".into()], &[("ours", vec![Some(10.0)]), ("other", vec![None])]);
        assert!(svg.contains(">other (none)</text>"), "{svg}");
    }
}
