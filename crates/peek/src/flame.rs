//! A profile as a flame graph: one SVG that needs nothing else, to be opened in a browser.
//!
//! Each box is a sub, as wide as the time in it and in what it called, on top of the one that called it. What is not Perl
//! has a colour of its own. A click stretches what lies above a box over the whole width; one on the lowest shows all.

use std::fmt::Write;

use crate::shapes::sorted;
use crate::tally::Tally;

/// Script of the page, in which widths and margins stand as here.
const SCRIPT: &str = include_str!("flame.js");
const WIDTH: f64 = 1180.0;
const LEFT: f64 = 10.0;
const TOP: usize = 56;
const ROW: usize = 18;
/// Letters have this width, about.
const LETTER: f64 = 6.6;
/// Narrower boxes are left out: no eye sees them, and a browser has to keep each one.
const NARROWEST: f64 = 0.1;

/// A box.
#[derive(Debug)]
struct Piece<'a> {
    name: &'a str,
    depth: usize,
    start: u64,
    time: u64,
}

/// The page.
#[must_use]
pub fn flame_graph(tally: &Tally, title: &str) -> String {
    let pieces = pieces(tally);
    let scale = WIDTH / tally.total.max(1) as f64;
    let seen = |piece: &&Piece<'_>| piece.time as f64 * scale >= NARROWEST;
    let rows = pieces.iter().filter(seen).map(|piece| piece.depth).max().unwrap_or(0) + 1;
    let height = TOP + rows * ROW + 34;
    let mut page = head(height, title);
    for piece in pieces.iter().filter(seen) {
        draw(&mut page, piece, TOP + (rows - 1 - piece.depth) * ROW, scale, tally.total);
    }
    let _ = writeln!(page, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>");
    page
}

fn head(height: usize, title: &str) -> String {
    let title = escaped(title);
    let foot = height - 12;
    format!(
        r##"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 {height}" width="1200" height="{height}" font-family="monospace" font-size="11">
<style>g.f {{ cursor: pointer }} g.f:hover rect {{ stroke: #000; stroke-width: 0.8 }} g.hit rect {{ fill: #e0f }} text {{ pointer-events: none }} #find {{ pointer-events: all; cursor: pointer }}</style>
<rect width="1200" height="{height}" fill="#fffdf6"/>
<text x="600" y="24" text-anchor="middle" font-size="15">{title}</text>
<text x="10" y="44" fill="#555">wider is longer; click a box to stretch it, the lowest for all</text>
<text id="find" x="1190" y="24" text-anchor="end" fill="#15c">search</text>
<text id="count" x="1190" y="44" text-anchor="end"> </text>
<text id="status" x="10" y="{foot}"> </text>
"##
    )
}

/// All boxes: of neighbours with the same frames below, the same frame is one box.
fn pieces(tally: &Tally) -> Vec<Piece<'_>> {
    let mut done = Vec::new();
    let mut open: Vec<(u32, Piece<'_>)> = Vec::new();
    let mut at = 0;
    for (stack, time) in sorted(tally) {
        let same = open.iter().zip(stack).take_while(|((label, _), other)| label == *other).count();
        done.extend(open.drain(same..).rev().map(|(_, piece)| piece));
        for (_, piece) in &mut open {
            piece.time += time;
        }
        for (depth, &label) in stack.iter().enumerate().skip(same) {
            let name = &*tally.labels[label as usize].name;
            open.push((label, Piece { name, depth: depth + 1, start: at, time }));
        }
        at += time;
    }
    done.extend(open.into_iter().map(|(_, piece)| piece));
    done.push(Piece { name: "all", depth: 0, start: 0, time: at });
    done
}

fn draw(page: &mut String, piece: &Piece<'_>, y: usize, scale: f64, total: u64) {
    let (x, width) = (LEFT + piece.start as f64 * scale, piece.time as f64 * scale);
    let name = escaped(piece.name);
    let shown = escaped(&fitted(piece.name, ((width - 6.0) / LETTER) as usize));
    let (seconds, share) = (piece.time as f64 / 1e9, piece.time as f64 * 100.0 / total.max(1) as f64);
    let colour = colour(piece.name);
    let (height, text_x, text_y) = (ROW - 1, x + 3.0, y + 13);
    let _ = writeln!(
        page,
        r#"<g class="f" data-n="{name}"><title>{name}: {seconds:.3} s, {share:.1} %</title><rect x="{x:.3}" y="{y}" width="{width:.3}" height="{height}" rx="1" fill="{colour}"/><text x="{text_x:.3}" y="{text_y}">{shown}</text></g>"#
    );
}

/// As much of a name as there is room for.
fn fitted(name: &str, letters: usize) -> String {
    match name.chars().count() {
        _ if letters < 3 => String::new(),
        count if count <= letters => name.to_owned(),
        _ => name.chars().take(letters - 1).chain(['…']).collect(),
    }
}

/// Packages differ by shades of one warm colour; what is not Perl is of another.
fn colour(name: &str) -> String {
    let package = name.rsplit_once("::").map_or(name, |(package, _)| package);
    let hash = package.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    let (hue, saturation, light) = match name {
        "all" => (40, 10, 85),
        _ if name.starts_with("[regex]") => (285, 55, 74),
        _ if name.starts_with("[syscall") || name.starts_with("[kernel]") => (210, 60, 74),
        _ if name.starts_with("[xs") => (130, 45, 70),
        _ if name.starts_with(['[', '(']) => (0, 0, 78),
        _ => (16 + hash % 36, 78, 62 + hash / 36 % 12),
    };
    format!("hsl({hue},{saturation}%,{light}%)")
}

/// Names are the application's: nothing of them is markup, and what XML cannot say is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ if character.is_control() => out.push('?'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Frame;
    use crate::worker::Doing;

    fn tally() -> Tally {
        let frame = |sub: &str| Frame { sub: sub.into(), file: "/srv/app.psgi".into(), line: 7 };
        let mut tally = Tally::default();
        tally.add("/", &[frame("A::<b>"), frame("main")], &Doing::Idle, 3_000);
        tally.add("/", &[frame("C::d"), frame("main")], &Doing::Stands, 1_000);
        tally
    }

    #[test]
    fn boxes_stand_on_those_that_called_them() {
        let tally = tally();
        let mut found: Vec<_> =
            pieces(&tally).iter().map(|piece| (piece.depth, piece.start, piece.time, piece.name)).collect();
        found.sort_unstable();
        let expected = [
            (0, 0, 4_000, "all"),
            (1, 0, 4_000, "main"),
            (2, 0, 3_000, "A::<b>"),
            (2, 3_000, 1_000, "C::d"),
            (3, 3_000, 1_000, "[kernel] app.psgi:7"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let page = flame_graph(&tally(), "shop & co");
        assert!(page.contains("<title>A::&lt;b&gt;: 0.000 s, 75.0 %</title>"), "{page}");
        assert!(page.contains(">shop &amp; co</text>"));
        assert_eq!(page.matches("<g class=\"f\"").count(), 5);
        assert!(!page.contains("http") || page.matches("http").count() == 1, "only the name of SVG itself");
        assert_eq!(escaped("a\u{0}\u{1b}\"b"), "a??&quot;b");
    }

    #[test]
    fn a_name_is_cut_where_its_box_ends() {
        for (letters, shown) in [(2, ""), (4, "My:…"), (7, "My::App"), (9, "My::App")] {
            assert_eq!(fitted("My::App", letters), shown);
        }
    }

    #[test]
    fn a_profile_of_nothing_is_a_page_too() {
        assert_eq!(flame_graph(&Tally::default(), "nothing").matches("<g class=\"f\"").count(), 0);
    }
}
