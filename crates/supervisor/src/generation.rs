//! One load of the application: a zygote and the workers forked from it.

use std::time::Instant;

use howdah_sys::Moment;

use crate::backoff::Backoff;
use crate::lease::Guest;
use crate::zygote::Zygote;

/// What a generation is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its zygote loads the application.
    Loading,
    /// Its workers are being started beside those of the serving generation.
    Filling,
    /// It keeps the crew full.
    Serving,
    /// It has one worker beside them, for somebody who looks at that.
    Guest,
    /// Its workers drain; it ends with them.
    Leaving,
}

/// One load of the application.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) number: u32,
    pub(crate) role: Role,
    pub(crate) zygote: Zygote,
    /// Workers that die before they serve.
    pub(crate) crashes: Backoff,
    /// The last of those had been ready: another one might serve a request that waits.
    pub(crate) crashed_ready: bool,
    /// A worker of it has been ready.
    pub(crate) proven: bool,
    /// The end of its zygote has been dealt with.
    pub(crate) orphaned: bool,
    pub(crate) started: Instant,
    /// The log has been told that its load takes long.
    pub(crate) told_long: bool,
    /// Since when requests go to it.
    pub(crate) serving: Option<Moment>,
    /// How often a worker has left the next zygote behind since the application was loaded.
    pub(crate) reforks: u32,
    /// Who wants a guest, and what became of it.
    pub(crate) guest: Option<Guest>,
}

impl Generation {
    pub(crate) fn new(number: u32, zygote: Zygote) -> Self {
        Self {
            number,
            role: Role::Loading,
            zygote,
            crashes: Backoff::default(),
            crashed_ready: false,
            proven: false,
            orphaned: false,
            started: Instant::now(),
            told_long: false,
            serving: None,
            reforks: 0,
            guest: None,
        }
    }

    /// Requests go to it from now on.
    pub(crate) fn serve(&mut self) {
        self.role = Role::Serving;
        self.serving = Some(Moment::now());
    }

    /// Requests are to go to it once it is able.
    pub(crate) fn is_coming(&self) -> bool {
        matches!(self.role, Role::Loading | Role::Filling)
    }

    /// Is to have as many workers as are wanted.
    pub(crate) fn is_staffed(&self) -> bool {
        matches!(self.role, Role::Filling | Role::Serving)
    }

    /// Somebody looks at its guest; one that leaves is nobody's.
    pub(crate) fn has_guest(&self) -> bool {
        let wanted = self.guest.as_ref().is_some_and(|guest| guest.lease.strong_count() > 0);
        self.role == Role::Guest && wanted
    }

    /// How many it is to have, when `target` are wanted of the one that serves.
    pub(crate) fn wants(&self, target: usize) -> usize {
        match &self.guest {
            Some(guest) if self.role == Role::Guest => usize::from(self.zygote.has_loaded() && !guest.forked),
            _ if self.is_staffed() => target,
            _ => 0,
        }
    }

    /// For the log.
    pub(crate) fn age(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
