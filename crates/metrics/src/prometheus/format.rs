//! The two text formats, which differ in little: OpenMetrics names a counter's family without `_total`, declares
//! units and ends with `# EOF`.

use crate::number::put;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Chooses by an Accept field: OpenMetrics for those who name it with a weight above zero that is no less than
    /// text/plain's.
    pub(crate) fn wanted(accept: &str) -> Self {
        let open = weight(accept, "application/openmetrics-text");
        let plain = weight(accept, "text/plain").or(weight(accept, "*/*")).unwrap_or(0.0);
        match open {
            Some(weight) if weight > 0.0 && weight >= plain => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The highest weight of a media type in an Accept field (RFC 9110 12.5.1); none when it is not named.
fn weight(accept: &str, media_type: &str) -> Option<f64> {
    let ranges = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().filter(|name| name.eq_ignore_ascii_case(media_type))?;
        let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        q.map_or(Some(1.0), |q| q.parse().ok())
    });
    ranges.reduce(f64::max)
}

/// A text in the making: families, each followed by its samples.
#[derive(Debug)]
pub(crate) struct Exposition {
    out: String,
    format: Format,
    /// Name of the family whose samples follow.
    family: &'static str,
}

impl Exposition {
    pub(crate) fn new(format: Format) -> Self {
        Self { out: String::with_capacity(24 * 1024), format, family: "" }
    }

    /// Samples follow with `_total`.
    pub(crate) fn counter(&mut self, name: &'static str, unit: &str, help: &str) {
        let shown = if self.format == Format::Prometheus { "_total" } else { "" };
        self.open(name, shown, "counter", unit, help);
    }

    pub(crate) fn gauge(&mut self, name: &'static str, unit: &str, help: &str) {
        self.open(name, "", "gauge", unit, help);
    }

    /// Samples follow with `_bucket`, `_sum` and `_count`.
    pub(crate) fn histogram(&mut self, name: &'static str, unit: &str, help: &str) {
        self.open(name, "", "histogram", unit, help);
    }

    /// A sample follows with `_info`.
    pub(crate) fn info(&mut self, name: &'static str, help: &str) {
        match self.format {
            Format::Prometheus => self.open(name, "_info", "gauge", "", help),
            Format::OpenMetrics => self.open(name, "", "info", "", help),
        }
    }

    fn open(&mut self, name: &'static str, suffix: &str, kind: &str, unit: &str, help: &str) {
        self.family = name;
        put(&mut self.out, format_args!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
        if self.format == Format::OpenMetrics && !unit.is_empty() {
            put(&mut self.out, format_args!("# UNIT {name}{suffix} {unit}\n"));
        }
    }

    pub(crate) fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.out.push_str(self.family);
        self.out.push_str(suffix);
        for (at, (name, text)) in labels.iter().enumerate() {
            put(&mut self.out, format_args!("{}{name}=\"", if at == 0 { '{' } else { ',' }));
            escape(&mut self.out, text);
            self.out.push('"');
        }
        self.out.push_str(if labels.is_empty() { " " } else { "} " });
        put(&mut self.out, format_args!("{value}\n"));
    }

    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str(r"\\"),
            '"' => out.push_str(r#"\""#),
            '\n' => out.push_str(r"\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask() {
        let scraper =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let classic = "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5";
        let cases = [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            (scraper, Format::OpenMetrics),
            (classic, Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; q=0", Format::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Prometheus),
        ];
        for (accept, format) in cases {
            assert_eq!(Format::wanted(accept), format, "{accept}");
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::new(Format::Prometheus);
        out.gauge("x", "", "An x");
        out.sample("", &[("a", "1\"}\n2\\"), ("b", "é")], 1.5);
        assert_eq!(out.finish(), "# HELP x An x\n# TYPE x gauge\nx{a=\"1\\\"}\\n2\\\\\",b=\"é\"} 1.5\n");
    }

    #[test]
    fn the_two_formats_of_a_counter() {
        let show = |format| {
            let mut out = Exposition::new(format);
            out.counter("x_bytes", "bytes", "Some");
            out.sample("_total", &[], 3.0);
            out.finish()
        };
        assert_eq!(
            show(Format::Prometheus),
            "# HELP x_bytes_total Some\n# TYPE x_bytes_total counter\nx_bytes_total 3\n"
        );
        assert_eq!(
            show(Format::OpenMetrics),
            "# HELP x_bytes Some\n# TYPE x_bytes counter\n# UNIT x_bytes bytes\nx_bytes_total 3\n# EOF\n"
        );
    }
}
