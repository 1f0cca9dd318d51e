//! What a task does that could go on for long without having to wait.

use std::cell::Cell;
use std::pin::pin;
use std::task::Context;

thread_local! {
    /// What the thread sees to before it sleeps. It does not sleep while a task goes on.
    static TURN: Cell<fn()> = const { Cell::new(nothing) };
}

fn nothing() {}

/// Has this seen to whenever a task of the calling thread lets others go first.
pub(crate) fn see_to(turn: fn()) {
    TURN.set(turn);
}

/// Lets others have their turn: other connections, and workers.
pub(crate) async fn let_others() {
    TURN.get()();
    tokio::task::yield_now().await;
}

/// The same for who waits anyway: has the present task polled again when the others have had their turn. One that wakes itself would go
/// on before anybody looks at their sockets: tokio polls some sixty tasks first.
pub(crate) fn come_back_behind(context: &mut Context<'_>) {
    let _ = pin!(let_others()).poll(context);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    thread_local! {
        static SEEN: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn whoever_lets_others_go_first_has_their_thread_see_to_its_workers() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let_others().await;
            see_to(|| SEEN.set(SEEN.get() + 1));
            let_others().await;
            assert_eq!(SEEN.get(), 1);
            let mut came_back = false;
            poll_fn(|context| {
                if std::mem::replace(&mut came_back, true) {
                    return Poll::Ready(());
                }
                come_back_behind(context);
                Poll::Pending
            })
            .await;
            assert_eq!(SEEN.get(), 2);
        });
    }
}
