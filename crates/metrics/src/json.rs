//! `?json`, `howdah status --json`, and what the control socket answers: the snapshot, and what follows from it, under
//! names that stay. Beside its pools stand all of them together, for those who do not tell them apart.

use serde::{Serialize, Serializer};

use crate::label::State;
use crate::pool::{Lifecycle, Queue, Upgrades, Workers};
use crate::snapshot::Snapshot;

#[derive(Serialize)]
struct Document<'s> {
    state: State,
    ready: bool,
    uptime_seconds: f64,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
    #[serde(flatten)]
    together: Together<'s>,
}

/// What stands in each pool, for all of them.
#[derive(Serialize)]
struct Together<'s> {
    trouble: Option<&'s str>,
    generation: u32,
    templates: u32,
    queue: Queue,
    upgrades: Upgrades,
    scoreboard: String,
    workers: &'s Workers,
    lifecycle: &'s Lifecycle,
}

/// Serializes the snapshot as the document that everybody gets; the snapshot can be read back from it.
///
/// # Errors
/// Those of `serializer`.
pub fn document<S: Serializer>(snapshot: &Snapshot, serializer: S) -> Result<S::Ok, S::Error> {
    let all = snapshot.together();
    let document = Document {
        state: all.state,
        ready: all.state.is_ready(),
        uptime_seconds: snapshot.times.uptime(),
        snapshot,
        together: Together {
            trouble: all.trouble.as_deref(),
            generation: all.generation,
            templates: all.templates,
            queue: all.queue,
            upgrades: all.upgrades,
            scoreboard: crate::apache::scoreboard(snapshot),
            workers: &all.workers,
            lifecycle: &all.lifecycle,
        },
    };
    document.serialize(serializer)
}

pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut out = Vec::with_capacity(32 * 1024);
    // No map has other keys than strings, and no number is refused: there is nothing to fail.
    let _ = document(snapshot, &mut serde_json::Serializer::new(&mut out));
    String::from_utf8(out).unwrap_or_default()
}
