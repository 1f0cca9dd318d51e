//! Connections of HTTP/2 from outside, by what their clients say and hear: all files of this folder together.

mod requests;
mod responses;
mod priorities;
mod leaving;

use crate::sample::frames::frames;
use crate::transport::scripted::Scripted;

/// The frames of one stream's body.
pub(super) fn data(script: &Scripted) -> Vec<Vec<u8>> {
    let data = frames(script).into_iter().filter(|(kind, ..)| *kind == 0);
    data.map(|(.., bytes)| bytes).collect()
}
