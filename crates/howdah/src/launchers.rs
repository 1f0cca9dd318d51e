//! Tells the operator what becomes of the launchers (`howdah_sys::launcher`). `serve` has them attended to once the front
//! is confined; the supervisor looks at their condition by itself.

use anyhow::Context;
use howdah_sys::launcher::{self, Condition, News};
use howdah_sys::shortage::with_way_out;

/// Has the launchers asked and watched from now on.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn attend() -> anyhow::Result<()> {
    launcher::attend(tell).context("cannot attend to the launchers")
}

fn tell(news: News) {
    match news {
        News::Ended(pid) => {
            tracing::warn!(pid = pid.as_raw_pid(), "a launcher has ended");
        }
        News::Silent(pid) => {
            tracing::warn!(pid = pid.as_raw_pid(), "a launcher does not answer; it may have been stopped");
        }
        News::Replaced(pid) => {
            tracing::info!(pid = pid.as_raw_pid(), "there is another launcher in its place");
        }
        News::NotReplaced(error) => {
            let why = with_way_out(&error);
            tracing::error!("there is one launcher only, since no other can be had: {why}");
        }
        News::Condition(Condition::Well) => tracing::info!("the launchers answer again"),
        News::Condition(Condition::Silent) => tracing::error!("no launcher answers: {WITHOUT}; send it CONT"),
        News::Condition(Condition::Gone) => tracing::error!("no launcher is left: {WITHOUT}; restart howdah"),
    }
}

/// What the server has to do without then.
const WITHOUT: &str =
    "no reload, no upgrade, no new zygote, no command of a piped log, and --max-memory replaces nobody";
