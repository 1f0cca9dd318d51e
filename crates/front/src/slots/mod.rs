//! Between exchanges and workers: this thread's slots in the segment of one application.

mod inspect;
mod recover;
mod ring;
mod wake;
mod mate;
mod dispatch;
mod looks;
mod body;
mod own;

pub(crate) use body::{BodyFile, Extent, Extents, Spool};
pub(crate) use dispatch::{Dispatch, Mate};
pub(crate) use own::Position;
pub(crate) use ring::{Look, Ring};
pub(crate) use wake::SPIN_NS;
