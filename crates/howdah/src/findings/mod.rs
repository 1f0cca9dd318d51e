//! What operators ask running workers of the application: each command has a file, in which a conversation with the workers
//! is begun, followed and ended. The control socket's server calls them; `howdah-find` makes reports of the answers.

pub(crate) mod heap;
pub(crate) mod leaks;
pub(crate) mod nytprof;
