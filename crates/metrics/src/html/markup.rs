//! Text in HTML, and tables.

use std::fmt;

use crate::number::put;

/// Text that stays text, in an element or in a quoted attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'t>(pub(super) &'t str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// A panel with a table of names and values.
pub(super) fn pairs(out: &mut String, title: &str, rows: &[(String, String)]) {
    if rows.is_empty() {
        return;
    }
    open(out, title, &[]);
    for (name, value) in rows {
        put(
            out,
            format_args!(
                "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td></tr>",
                Text(name),
                Text(value)
            ),
        );
    }
    close(out);
}

/// A panel with a table of numbers: a name and a row of values.
pub(super) fn grid(out: &mut String, title: &str, columns: &[&str], rows: &[(String, Vec<String>)]) {
    if rows.is_empty() {
        return;
    }
    open(out, title, columns);
    for (name, values) in rows {
        put(out, format_args!("<tr><th scope=\"row\">{}</th>", Text(name)));
        for value in values {
            put(out, format_args!("<td class=\"n\">{}</td>", Text(value)));
        }
        out.push_str("</tr>");
    }
    close(out);
}

fn open(out: &mut String, title: &str, columns: &[&str]) {
    put(out, format_args!("<section class=\"panel\"><h2>{}</h2><table>", Text(title)));
    if !columns.is_empty() {
        out.push_str("<thead><tr><th></th>");
        for column in columns {
            put(out, format_args!("<th scope=\"col\" class=\"n\">{}</th>", Text(column)));
        }
        out.push_str("</tr></thead>");
    }
    out.push_str("<tbody>");
}

fn close(out: &mut String) {
    out.push_str("</tbody></table></section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "\"'><script>alert(1)</script>&lt;é";
        let expected = "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;lt;é";
        assert_eq!(Text(hostile).to_string(), expected);
        assert_eq!(Text("").to_string(), "");
    }
}
