//! The command line: every option is declared once, in the file of its group, with name, default, unit
//! and doc; `--help`, `man howdah`, the shell completions, the `HOWDAH_*` variables and `howdah check`
//! all come from that one declaration.
//!
//! `main` calls [`parse()`] and gets what is to be done; `configure` turns [`Serve`] into the settings of
//! the front and of the supervisor.

#[cfg(test)]
mod nonsense;
#[cfg(test)]
mod tests;

mod parse;
mod validate;
pub(crate) mod settings;
mod hints;
mod command;
mod environment;
mod foreign;
pub(crate) mod pools;
mod serve;
mod compat;
pub(crate) mod app;
pub(crate) mod cgi;
mod mounts;
pub(crate) mod status;
pub(crate) mod proxies;
pub(crate) mod http2;
pub(crate) mod tls;
pub(crate) mod acme;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod workers;
pub(crate) mod limits;
pub(crate) mod logs;
pub(crate) mod process;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod find;
pub(crate) mod inside;
pub(crate) mod instance;
pub(crate) mod values;
pub(crate) mod guide;

pub(crate) use command::command;
pub(crate) use environment::Inherited;
pub(crate) use parse::{Action, Parsed, parse};
pub(crate) use serve::Serve;
