//! The report of `howdah leaks` for people, and in the words of Devel::Leak::Object.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::leaks::{Kind, Objects, Place, Report, Route};
use crate::records::one_line;

/// For people.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = head(report);
    let (grow, stay): (Vec<_>, Vec<_>) = report.objects.iter().partition(|one| one.grows);
    let closures = report.kinds.iter().filter(|kind| kind.place.is_some());
    let foreign = || report.kinds.iter().filter(|kind| kind.place.is_none());
    // Of those that Perl code has blessed some were not noted.
    let noted = foreign().any(|kind| report.objects.iter().any(|one| one.class == kind.class));
    let foreign_title = match noted {
        true => "Objects that C code has blessed, or that were not noted, and that become more:",
        false => "Objects that C code has blessed, and that become more:",
    };
    section(&mut text, "Objects that outlive their requests, and become more:", grow.into_iter().map(object));
    section(&mut text, "Closures that become more:", closures.map(kind));
    section(&mut text, foreign_title, foreign().map(kind));
    section(
        &mut text,
        "Routes that leave something behind, in the newer half of their requests:",
        report.routes.iter().map(route),
    );
    if !report.leaks() {
        text.push_str("\nNothing becomes more.\n");
    }
    section(&mut text, "Objects that are left, but do not become more:", stay.into_iter().map(object));
    text
}

fn head(report: &Report) -> String {
    let Report { pool, workers, requests, seconds, blessed, .. } = report;
    let plural = if *workers == 1 { "worker" } else { "workers" };
    let mut text = format!(
        "{pool}: {requests} requests on {workers} {plural} in {seconds:.1} s, {blessed} objects blessed\n"
    );
    for note in &report.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.map(|line| one_line(&line) + "\n").collect();
    if !lines.is_empty() {
        let _ = write!(text, "\n{title}\n\n{lines}");
    }
}

fn object(one: &Objects) -> String {
    let Objects { class, objects, requests, route, place, caller, .. } = one;
    let from = if *requests == 1 { "request" } else { "requests" };
    let source = caller.as_ref().unwrap_or(place);
    let inside = caller.as_ref().map(|_| format!(" (blessed at {})", shown(place))).unwrap_or_default();
    format!("{objects:>8}  {class}  from {}{inside}, by {requests} {from} of {route}", shown(source))
}

fn kind(kind: &Kind) -> String {
    let (more, at) = (kind.end - kind.start, kind.place.as_ref());
    let what = at.map_or_else(|| kind.class.clone(), |place| format!("from {}", shown(place)));
    format!("{more:>8}  {what}, {} at the start, {} at the end", kind.start, kind.end)
}

fn route(route: &Route) -> String {
    let bytes = route.bytes.map(|bytes| format!(", {bytes:.0} bytes of memory")).unwrap_or_default();
    format!("{:>8.1}  values{bytes} a request, {} requests of {}", route.values, route.requests, route.route)
}

fn shown(place: &Place) -> String {
    match place.line {
        0 => place.file.clone(),
        line => format!("{} line {line}", place.file),
    }
}

/// As Devel::Leak::Object prints it with `$TRACKSOURCELINES`.
#[must_use]
pub fn devel_leak_object(report: &Report) -> String {
    let mut classes: BTreeMap<&str, BTreeMap<&Place, u64>> = BTreeMap::new();
    for one in &report.objects {
        *classes.entry(&one.class).or_default().entry(&one.place).or_default() += one.objects;
    }
    let mut text = "Tracked objects by class:\n".to_owned();
    for (class, places) in &classes {
        let _ = writeln!(text, "\t{:<40} {}", one_line(class), places.values().sum::<u64>());
    }
    text.push_str("\nSources of leaks:\n");
    for (class, places) in classes {
        let _ = writeln!(text, "{}", one_line(class));
        for (Place { file, line }, objects) in places {
            let _ = writeln!(text, "{objects:>6} from {} line: {line}", one_line(file));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> Place {
        Place { file: "/srv/app.psgi".to_owned(), line }
    }

    fn report() -> Report {
        let xxx = Objects {
            class: "XXX".to_owned(),
            place: place(3),
            route: "/cart".to_owned(),
            objects: 100,
            requests: 100,
            grows: true,
            ..Objects::default()
        };
        let library = Place { file: "/usr/share/perl5/Base.pm".to_owned(), line: 7 };
        let once = Objects {
            class: "Once".to_owned(),
            place: library,
            caller: Some(place(9)),
            objects: 1,
            requests: 1,
            grows: false,
            ..xxx.clone()
        };
        let handle = Kind { class: "DBI::st".to_owned(), place: None, start: 2, middle: 50, end: 102 };
        let closure =
            Kind { class: "CODE".to_owned(), place: Some(place(5)), start: 2, middle: 50, end: 102 };
        let route = Route { route: "/cart".to_owned(), requests: 50, values: 4.0, bytes: Some(812.4) };
        Report {
            pool: "/".to_owned(),
            workers: 1,
            requests: 100,
            seconds: 30.0,
            blessed: 300,
            notes: vec!["worker 2 (pid 7) has not answered".to_owned()],
            objects: vec![xxx, once],
            kinds: vec![handle, closure],
            routes: vec![route],
        }
    }

    #[test]
    fn people_read_what_grows_first() {
        let expected = "\
/: 100 requests on 1 worker in 30.0 s, 300 objects blessed
note: worker 2 (pid 7) has not answered

Objects that outlive their requests, and become more:

     100  XXX  from /srv/app.psgi line 3, by 100 requests of /cart

Closures that become more:

     100  from /srv/app.psgi line 5, 2 at the start, 102 at the end

Objects that C code has blessed, and that become more:

     100  DBI::st, 2 at the start, 102 at the end

Routes that leave something behind, in the newer half of their requests:

     4.0  values, 812 bytes of memory a request, 50 requests of /cart

Objects that are left, but do not become more:

       1  Once  from /srv/app.psgi line 9 (blessed at /usr/share/perl5/Base.pm line 7), by 1 request of /cart
";
        assert_eq!(render(&report()), expected);
    }

    #[test]
    fn a_class_of_any_name_is_one_line() {
        let mut report = report();
        report.objects.truncate(1);
        report.objects[0].class = "a\nb".to_owned();
        let text = render(&report);
        assert!(text.contains("\n     100  a\\x0ab  from /srv/app.psgi line 3, by "), "{text}");
        let text = devel_leak_object(&report);
        assert!(text.contains("\n\ta\\x0ab ") && text.contains("\na\\x0ab\n   100 from "), "{text}");
    }

    #[test]
    fn where_not_all_was_noted_nobody_is_blamed() {
        let mut report = report();
        report.kinds[0].class = "XXX".to_owned();
        let text = render(&report);
        assert!(
            text.contains("blessed, or that were not noted, and that become more:\n\n     100  XXX, "),
            "{text}"
        );
    }

    #[test]
    fn where_nothing_grows_that_is_said() {
        let text = render(&Report { pool: "/shop".to_owned(), ..Report::default() });
        assert_eq!(
            text,
            "/shop: 0 requests on 0 workers in 0.0 s, 0 objects blessed\n\nNothing becomes more.\n"
        );
    }

    #[test]
    fn the_other_form_is_that_of_devel_leak_object() {
        let expected = "Tracked objects by class:\n\
            \tOnce                                     1\n\
            \tXXX                                      100\n\
            \n\
            Sources of leaks:\n\
            Once\n     1 from /usr/share/perl5/Base.pm line: 7\n\
            XXX\n   100 from /srv/app.psgi line: 3\n";
        assert_eq!(devel_leak_object(&report()), expected);
    }
}
