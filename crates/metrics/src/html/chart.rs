//! Small charts as SVG, without axes: the shape tells, the numbers stand beside it.

use crate::number::put;

/// Size in the units of the paths; the style sheet stretches it.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 40.0;
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
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            let path = path(&points);
            if at == 0 {
                let (left, right) = (first.0, last.0);
                put(
                    out,
                    format_args!(
                        "<path class=\"area\" d=\"{path}L{right:.0} {HEIGHT}L{left:.0} {HEIGHT}Z\"/>"
                    ),
                );
            }
            put(out, format_args!("<path class=\"line {class}\" d=\"{path}\"/>"));
        }
    }
    out.push_str("</svg>");
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 10);
    for (at, (x, y)) in points.iter().enumerate() {
        put(&mut path, format_args!("{}{x:.0} {y:.1}", if at == 0 { 'M' } else { 'L' }));
    }
    path
}

fn points(values: &[f64], top: f64) -> Vec<(f64, f64)> {
    let each = SPAN / DRAWN;
    let values = &values[values.len().saturating_sub(SPAN)..];
    let groups: Vec<f64> =
        values.rchunks(each).rev().map(|group| group.iter().copied().fold(0.0, f64::max)).collect();
    let step = WIDTH / (DRAWN - 1) as f64;
    let start = DRAWN - groups.len();
    let height =
        |value: f64| if top > 0.0 { HEIGHT - 1.0 - value / top * (HEIGHT - 4.0) } else { HEIGHT - 1.0 };
    groups.iter().enumerate().map(|(at, value)| ((start + at) as f64 * step, height(*value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_at_the_right_edge_and_the_highest_at_the_top() {
        let points = points(&[0.0, 10.0, 5.0, 20.0], 20.0);
        assert_eq!(points.len(), 2);
        assert!((points[1].0 - WIDTH).abs() < 1e-9 && (points[1].1 - 3.0).abs() < 1e-9, "{points:?}");
        assert!((points[0].1 - 21.0).abs() < 1e-9, "{points:?}");
    }

    #[test]
    fn no_values_and_only_zeros_draw_no_nonsense() {
        for values in [vec![], vec![0.0; 400]] {
            let mut out = String::new();
            put_chart(&mut out, "x", &[("", values.clone()), ("second", values)]);
            assert!(!out.contains("NaN") && !out.contains("inf"), "{out}");
        }
    }
}
