//! A profile for other programs: folded stacks, as flame graph tools read them, and speedscope's JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::tally::Tally;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A line for each stack, the outermost frame first: `main;My::App::show;[regex] app.psgi:7 1250`, in microseconds.
#[must_use]
pub fn folded(tally: &Tally) -> String {
    let mut text = String::new();
    for (stack, time) in sorted(tally) {
        let names: Vec<String> =
            stack.iter().map(|&label| plain(&tally.labels[label as usize].name)).collect();
        let _ = writeln!(text, "{} {}", names.join(";"), time / 1000);
    }
    text
}

/// A separator inside a name would make two of it.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ',' } else { c }).collect()
}

/// In the order of their names, so that the same profile makes the same file.
pub(crate) fn sorted(tally: &Tally) -> Vec<(&[u32], u64)> {
    let mut stacks: Vec<(&[u32], u64)> =
        tally.stacks.iter().map(|(stack, time)| (&stack[..], *time)).collect();
    stacks.sort_by_key(|(stack, _)| {
        stack.iter().map(|&label| &tally.labels[label as usize]).collect::<Vec<_>>()
    });
    stacks
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared<'a>,
    profiles: [Sampled<'a>; 1],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<&'a [u32]>,
    weights: Vec<u64>,
}

/// For <https://www.speedscope.app>.
///
/// # Errors
/// None that is known: names are text, sums are numbers.
pub fn speedscope(tally: &Tally, title: &str) -> serde_json::Result<String> {
    let (samples, weights): (Vec<_>, Vec<_>) =
        sorted(tally).into_iter().map(|(stack, time)| (stack, time / 1000)).unzip();
    let frames = tally.labels.iter().map(|label| Frame { name: &label.name, file: &label.file }).collect();
    let profile = Sampled {
        kind: "sampled",
        name: title,
        unit: "microseconds",
        start_value: 0,
        end_value: weights.iter().sum(),
        samples,
        weights,
    };
    serde_json::to_string(&File {
        schema: SCHEMA,
        exporter: concat!("howdah ", env!("CARGO_PKG_VERSION")),
        name: title,
        shared: Shared { frames },
        profiles: [profile],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Frame;
    use crate::worker::Doing;

    fn tally() -> Tally {
        let frame = |sub: &str| Frame { sub: sub.into(), file: "/srv/app.psgi".into(), line: 7 };
        let mut tally = Tally::default();
        let nap = Doing::Waits("read".into(), [0; 6]);
        tally.add("/", &[frame("A::b"), frame("main::x;y\n")], &nap, 2_000_000);
        tally.add("/", &[frame("main::x;y\n")], &Doing::Stands, 1_000_000);
        tally
    }

    #[test]
    fn stacks_are_folded_into_lines() {
        assert_eq!(
            folded(&tally()),
            "main::x,y,;A::b;[syscall read] app.psgi:7 2000\nmain::x,y,;[kernel] app.psgi:7 1000\n"
        );
    }

    #[test]
    fn speedscope_gets_frames_stacks_and_their_times() {
        let file: serde_json::Value = serde_json::from_str(&speedscope(&tally(), "shop").unwrap()).unwrap();
        assert_eq!(file["$schema"], SCHEMA);
        assert_eq!(file["shared"]["frames"][1]["name"], "A::b");
        assert_eq!(file["shared"]["frames"][1]["file"], "/srv/app.psgi");
        let profile = &file["profiles"][0];
        assert_eq!((&profile["type"], &profile["endValue"]), (&"sampled".into(), &3000.into()));
        assert_eq!(profile["samples"], serde_json::json!([[0, 1, 2], [0, 3]]));
        assert_eq!(profile["weights"], serde_json::json!([2000, 1000]));
    }
}
