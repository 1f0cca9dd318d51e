//! Small charts as SVG, without axes: the shape tells, the numbers stand beside it.

use crate::number::put;

/// Size in the units of the paths, which are whole numbers; the style sheet stretches it.
const WIDTH: usize = 298;
const HEIGHT: usize = 400;
/// Kept free above and below the lines.
const MARGIN: f64 = 16.0;
/// Charts always span this many seconds: what is not yet measured stays empty, on the left.
const SPAN: usize = 300;
/// Points drawn: each the maximum of the seconds that it stands for, so that no spike is lost.
const DRAWN: usize = 150;

/// A line of a chart: its class in the style sheet, and its values.
pub(super) type Line = (&'static str, Vec<f64>);

/// Draws lines over one another on one scale, the first with its area filled. An empty one draws nothing.
pub(super) fn put_chart(out: &mut String, label: &str, lines: &[Line]) {
    let top = lines.iter().flat_map(|(_, line)| line).copied().fold(0.0, f64::max);
    put(
        out,
        format_args!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{label}, last five minutes\">"
        ),
    );
    for (at, (class, line)) in lines.iter().enumerate() {
        let points = points(line, top);
        if let Some((left, _)) = points.first() {
            let path = path(&points);
            if at == 0 {
                put(out, format_args!("<path class=\"area\" d=\"{path}V{HEIGHT}H{left}Z\"/>"));
            }
            put(out, format_args!("<path class=\"line {class}\" d=\"{path}\"/>"));
        }
    }
    out.push_str("</svg>");
}

/// Points after the first command of a path belong to lines.
fn path(points: &[(usize, usize)]) -> String {
    let mut path = String::with_capacity(points.len() * 8);
    for (at, (x, y)) in points.iter().enumerate() {
        let mut digits = itoa::Buffer::new();
        path.push(if at == 0 { 'M' } else { ' ' });
        path.push_str(digits.format(*x));
        path.push(' ');
        path.push_str(digits.format(*y));
    }
    path
}

fn points(values: &[f64], top: f64) -> Vec<(usize, usize)> {
    let values = &values[values.len().saturating_sub(SPAN)..];
    let groups: Vec<f64> =
        values.rchunks(SPAN / DRAWN).rev().map(|group| group.iter().copied().fold(0.0, f64::max)).collect();
    let start = DRAWN - groups.len();
    let step = WIDTH / (DRAWN - 1);
    groups.iter().enumerate().map(|(at, value)| ((start + at) * step, height(*value, top))).collect()
}

/// Counted from above, as SVG does.
fn height(value: f64, top: f64) -> usize {
    let share = if top > 0.0 { value / top } else { 0.0 };
    (HEIGHT as f64 - MARGIN - share * (HEIGHT as f64 - 2.0 * MARGIN)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_at_the_right_edge_and_the_highest_at_the_top() {
        assert_eq!(points(&[0.0, 10.0, 5.0, 20.0], 20.0), [(296, 200), (298, 16)]);
        assert_eq!(points(&[1.0; 1000], 1.0).len(), DRAWN);
    }

    #[test]
    fn no_values_and_only_zeros_draw_no_nonsense() {
        assert_eq!(points(&[], 0.0), []);
        assert_eq!(points(&[0.0, 0.0], 0.0), [(298, 384)]);
        let mut out = String::new();
        put_chart(&mut out, "x", &[("", vec![]), ("second", vec![])]);
        assert!(!out.contains("<path"), "{out}");
    }
}
