//! Pages that the front answers by itself, and who may see them.

mod challenge;
mod redirect;
mod page;
mod audience;

pub(crate) use challenge::{answer, challenge};
pub use page::{Answer, OwnPage, OwnPages, PagePath, Question};
pub(crate) use page::{Found, PageJob};
pub(crate) use redirect::redirect;
