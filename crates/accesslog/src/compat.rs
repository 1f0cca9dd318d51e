//! Whose words a format speaks.

/// Whose meaning a directive has where Apache httpd and Apache::LogFormat::Compiler (which Plack's AccessLog uses)
/// differ.
///
/// With `Plack`: `%t` is the time of the end, `%{fmt}t` stands in brackets, `%U` is PATH_INFO, `%b` prints 0 for an
/// empty body, `%V` has the port that Host has, `%q` drops a lone `?`, an empty header is `-`, `%{X}o` is whole
/// (Apache drops the parameters of Content-Type) and is one field even for Set-Cookie. What that module refuses has Apache's meaning, and escaping is always Apache's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Apache httpd 2.4.
    #[default]
    Apache,
    /// Apache::LogFormat::Compiler 0.36.
    Plack,
}
