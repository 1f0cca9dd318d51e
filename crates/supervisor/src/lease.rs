//! The lease of a guest (`guest.rs`): whoever has asked for one holds it. When it is dropped, in whatever state the guest is,
//! the guest drains and its zygote ends.

use std::sync::{Arc, Weak};

use crate::call::{Call, Reply};
use crate::notice::{Mailbox, Notice};

/// Has a guest stay.
#[derive(Debug)]
pub struct Lease {
    token: Option<Arc<()>>,
    mailbox: Mailbox,
}

impl Lease {
    pub(crate) fn new(mailbox: Mailbox) -> (Self, Weak<()>) {
        let token = Arc::new(());
        let weak = Arc::downgrade(&token);
        (Self { token: Some(token), mailbox }, weak)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.token = None;
        // Only so that the supervisor looks.
        let _ = self.mailbox.send(Notice::Call(Call::Look));
    }
}

/// What a guest's generation knows of it.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Dead when nobody wants the guest any more.
    pub(crate) lease: Weak<()>,
    /// Who waits for its worker, until that is ready.
    pub(crate) reply: Option<Reply<Result<u16, String>>>,
    /// A worker was asked for: there will be no other.
    pub(crate) forked: bool,
}

impl Guest {
    /// Once.
    pub(crate) fn answer(&mut self, outcome: Result<u16, String>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(outcome);
        }
    }
}
