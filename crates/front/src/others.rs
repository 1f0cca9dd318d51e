//! What a task does that could go on for long without having to wait.

use std::pin::pin;
use std::task::Context;

/// Has the present task polled again when the others have had their turn. One that wakes itself would go on before anybody looks at
/// their sockets: tokio polls some sixty tasks first.
pub(crate) fn come_back_behind(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}
