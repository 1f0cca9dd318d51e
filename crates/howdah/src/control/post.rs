//! Where the control socket is answered: from the start of the server, whose application may take long to load, to the
//! moment at which another process takes over. `serve` makes it and heeds what comes by it.

use howdah_sys::shortage::with_way_out;
use howdah_sys::watch::unwatched;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use super::server::{self, Desk};
use super::socket::ControlSocket;
use crate::operations::Operations;
use crate::status::Observer;
use crate::wish::Wish;

/// See the module.
#[derive(Debug)]
pub(crate) struct Post {
    desk: Desk,
    wishes: UnboundedReceiver<Wish>,
    accepts: Option<AbortHandle>,
}

impl Post {
    /// Of a server that starts: it tells its state, and can be stopped.
    pub(crate) fn new(observer: Observer) -> Self {
        let (sender, wishes) = unbounded_channel();
        Self { desk: Desk { observer, operations: None, wishes: sender }, wishes, accepts: None }
    }

    /// From the next [`Post::open`] on everything can be asked for.
    pub(crate) fn operate(&mut self, operations: Operations) {
        self.desk.operations = Some(operations);
    }

    /// Answers on `socket` from now on.
    pub(crate) fn open(&mut self, socket: Option<&ControlSocket>) {
        self.close();
        let Some(socket) = socket else { return };
        match socket.listener().and_then(|listener| server::start(listener, self.desk.clone())) {
            Ok(accepts) => self.accepts = Some(accepts),
            Err(error) => {
                tracing::error!("the control socket does not work: {}", with_way_out(&unwatched(error)));
            }
        }
    }

    /// Who connects from now on waits, for the next to open it.
    pub(crate) fn close(&mut self) {
        if let Some(accepts) = self.accepts.take() {
            accepts.abort();
        }
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Option<Wish> {
        self.wishes.recv().await
    }
}
