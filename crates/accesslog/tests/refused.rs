//! Formats that are refused at start: where, and with which way out.

use howdah_accesslog::{Compat, Source, compile};

#[test]
fn a_wrong_format_names_its_column_and_the_way_out() {
    let cases = [
        ("%h %Z", 4, "there is no directive %Z; write %% for a percent sign"),
        ("é%é", 2, "there is no directive %é"),
        ("%h 100%", 7, "the format ends within a directive; write %%"),
        ("%{Referer", 1, "no } closes the {"),
        ("%{Referer}", 1, "the format ends within"),
        ("%s %!200,304", 4, "the format ends within"),
        ("%i", 1, "%i needs a name, as in %{NAME}i"),
        ("%{}o", 1, "%o needs a name"),
        ("%{x}x", 1, "there is no directive %x"),
        ("%^FX", 1, "there is no directive %^FX"),
        ("%^", 1, "there is no directive %^"),
        ("%{ns}T", 1, "there are s, ms and us"),
        ("%{peer}p", 1, "there are canonical, local and remote"),
        ("%{ppid}P", 1, "none of pid, tid and hextid"),
        ("%h %{%Q %J}t", 4, "%J"),
        ("%99s", 1, "99 is no status"),
        ("%99999999999s", 1, "is no status"),
        ("Combined%", 9, "the format ends"),
        (
            "Combined",
            1,
            "'Combined' has no directive, so each line would be the same: name one of combined, common, ",
        ),
        ("", 1, "'' has no directive"),
    ];
    for (format, column, what) in cases {
        let error = compile(format, Compat::Apache).unwrap_err();
        assert_eq!(error.column, column, "{format}: {error}");
        assert!(error.what.contains(what), "{format}: {error}");
        assert!(error.to_string().starts_with(&format!("access log format, column {column}: ")), "{error}");
    }
}

#[test]
fn needs_name_each_value_once_and_nothing_else() {
    let format = compile(
        "%{Referer}i %{referer}i %{sid}C %{x}C %{X}o %u %{REMOTE_USER}e %{PATH}e %{path}e %h",
        Compat::Apache,
    );
    let format = format.unwrap();
    let needs: Vec<_> =
        format.needs().iter().map(|(_, source, name)| (source, String::from_utf8_lossy(name))).collect();
    let expected = [
        (Source::RequestHeader, "Referer"),
        (Source::RequestHeader, "Cookie"),
        (Source::ResponseHeader, "X"),
        (Source::Environment, "REMOTE_USER"),
        (Source::Environment, "PATH"),
        (Source::Environment, "path"),
    ];
    assert_eq!(needs, expected.map(|(source, name)| (source, name.into())));
    let (needs, none) = (format.needs(), compile("%h %t", Compat::Apache).unwrap());
    assert!(needs.any(Source::Environment) && !needs.any(Source::RequestTrailer));
    assert_eq!((needs.iter().count(), none.needs().iter().count()), (6, 0));
}
