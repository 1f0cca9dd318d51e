//! A picture of what a perl does at one moment, taken from outside while it runs: which statement, in which subs.
//!
//! All that belongs together is copied by one system call, by addresses that the last picture had: some hundred
//! nanoseconds lie between its first byte and its last. What tells the depth is read at both ends. If it is the same, the
//! picture is exact; if not, it has as many frames as were there both times: then the innermost frame may be that of a
//! neighbour, and the picture says so. Whoever wants to know where perl is has it taken again until it is exact. Whoever counts
//! must not: loops hold still for longer than what calls subs, and would be all that is counted.

use std::io;

use crate::process::{Process, word32, word64};

/// Pictures taken before there is none, or an inexact one will do.
const ATTEMPTS: usize = 6;
/// Contexts of one stack that are looked at, the innermost ones.
const MOST_CONTEXTS: u64 = 4096;
/// More of them than were there last: it may have grown.
const MARGIN: u64 = 16;
/// Stacks within stacks: sort, tie, overload, destructors.
const MOST_STACKS: usize = 16;

/// A sub that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Address of its CV.
    pub(crate) cv: u64,
    /// Address of the statement that called it.
    pub(crate) caller: u64,
}

/// What was there. Numbers of another process, nothing more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// Address of the operation that runs.
    pub(crate) op: u64,
    /// Address of the statement.
    pub(crate) statement: u64,
    /// Address of the pad.
    pub(crate) pad: u64,
    /// What the worker knows of its request.
    pub(crate) exchange: Vec<u8>,
    /// The innermost first.
    pub(crate) calls: Vec<Call>,
    /// There are more around them, which were not looked at.
    pub(crate) cut: bool,
    /// Nothing changed meanwhile.
    pub(crate) exact: bool,
}

/// Which picture will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// One that is exact, if that can be had.
    Exact,
    /// The first, so that each moment is as likely as any other.
    AnyMoment,
}

impl Aim {
    /// Of several attempts the one that will do; none when nothing was seen in any.
    fn choose<T>(
        self,
        mut attempt: impl FnMut() -> io::Result<Option<T>>,
        is_exact: impl Fn(&T) -> bool,
    ) -> io::Result<Option<T>> {
        let mut best = None;
        for _ in 0..ATTEMPTS {
            let Some(seen) = attempt()? else { continue };
            let will_do = self == Self::AnyMoment || is_exact(&seen);
            best = Some(seen);
            if will_do {
                break;
            }
        }
        Ok(best)
    }
}

/// Takes pictures of one process, and knows from the last one where to look.
#[derive(Debug)]
pub(crate) struct Camera {
    process: Process,
    stack: Stack,
}

/// Where the innermost stack is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stack {
    at: u64,
    contexts: u64,
    /// The first that is looked at.
    first: u64,
    /// How many.
    count: u64,
    /// Those in use, from the outermost on.
    depth: u64,
    /// The stack below it.
    below: u64,
}

/// Copies of one system call, in its order.
struct Film {
    head: [u8; 32],
    exchange: Vec<u8>,
    stack: Vec<u8>,
    contexts: Vec<u8>,
    stack_again: Vec<u8>,
    head_again: [u8; 32],
}

impl Camera {
    /// For a process.
    pub(crate) fn new(process: Process) -> Self {
        Self { process, stack: Stack::default() }
    }

    /// Whom it looks at.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Takes a picture; none when it did not hold still at all.
    ///
    /// # Errors
    /// The kernel's: PermissionDenied, or that the process is gone.
    pub(crate) fn take(&mut self, aim: Aim) -> io::Result<Option<Picture>> {
        let Some((mut picture, below)) = aim.choose(|| self.try_once(), |(picture, _)| picture.exact)? else {
            return Ok(None);
        };
        self.add_below(&mut picture, below);
        Ok(Some(picture))
    }

    /// A picture of the innermost stack, and the stack below it.
    fn try_once(&mut self) -> io::Result<Option<(Picture, u64)>> {
        let Some(film) = self.expose()? else { return Ok(None) };
        Ok(self.develop(&film).map(|picture| (picture, self.stack.below)))
    }

    /// One system call; none when something has moved, and it is known where to.
    fn expose(&mut self) -> io::Result<Option<Film>> {
        let layout = &self.process.layout;
        let size = layout.si_size as usize;
        let mut film = Film {
            head: [0; 32],
            exchange: vec![0; layout.exchange_size as usize],
            stack: vec![0; size],
            contexts: vec![0; (self.stack.count * u64::from(layout.context_size)) as usize],
            stack_again: vec![0; size],
            head_again: [0; 32],
        };
        let contexts = self.stack.contexts.wrapping_add(self.stack.first * u64::from(layout.context_size));
        let words = [layout.op_at, layout.curcop_at, layout.stackinfo_at, layout.curpad_at];
        let Film { head, exchange, stack, contexts: room, stack_again, head_again } = &mut film;
        let mut pieces = Vec::with_capacity(12);
        pieces.extend(words.into_iter().zip(head.chunks_exact_mut(8)));
        pieces.push((layout.exchange_at, exchange));
        let known = self.stack.at != 0;
        if known {
            pieces.push((self.stack.at, stack));
            pieces.push((contexts, room));
            pieces.push((self.stack.at, stack_again));
        }
        pieces.extend(words.into_iter().zip(head_again.chunks_exact_mut(8)));
        let there = self.process.fill(&mut pieces)?;
        let at = word64(&film.head, 16);
        if known && there && at == self.stack.at && self.covers(&film) {
            return Ok(Some(film));
        }
        self.stack = self.locate(at).unwrap_or_default();
        Ok(None)
    }

    /// What was copied of the contexts is all that there are.
    fn covers(&self, film: &Film) -> bool {
        let layout = &self.process.layout;
        let depth = depth(word32(&film.stack, layout.si_top), word32(&film.stack, layout.si_room));
        word64(&film.stack, layout.si_contexts) == self.stack.contexts
            && depth.is_some_and(|depth| {
                depth <= self.stack.first + self.stack.count && depth >= self.stack.first
            })
    }

    /// Where the stack at `at` has its contexts now.
    fn locate(&self, at: u64) -> Option<Stack> {
        let layout = &self.process.layout;
        let copy = self.process.bytes(at, layout.si_size as usize)?;
        let room = word32(&copy, layout.si_room);
        let depth = depth(word32(&copy, layout.si_top), room)?;
        let last = (depth + MARGIN).min(u64::from(room) + 1);
        let first = last.saturating_sub(MOST_CONTEXTS);
        let (contexts, below) = (word64(&copy, layout.si_contexts), word64(&copy, layout.si_prev));
        Some(Stack { at, contexts, first, count: last - first, depth, below })
    }

    fn develop(&self, film: &Film) -> Option<Picture> {
        let layout = &self.process.layout;
        let top = |copy: &[u8]| depth(word32(copy, layout.si_top), word32(copy, layout.si_room));
        let (before, after) = (top(&film.stack)?, top(&film.stack_again)?);
        let still = before == after && film.head[8..24] == film.head_again[8..24];
        let count = before.min(after).saturating_sub(self.stack.first);
        Some(Picture {
            op: word64(&film.head, 0),
            statement: word64(&film.head, 8),
            pad: word64(&film.head, 24),
            exchange: film.exchange.clone(),
            calls: self.calls(&film.contexts, count as usize),
            cut: self.stack.first > 0,
            exact: still,
        })
    }

    /// The subs among so many contexts, the innermost first.
    fn calls(&self, contexts: &[u8], count: usize) -> Vec<Call> {
        let layout = &self.process.layout;
        let is_sub = |context: &&[u8]| {
            let kind = context.get(layout.context_type as usize).copied().unwrap_or_default();
            let kind = u32::from(kind) & layout.context_type_mask;
            kind == layout.context_sub || kind == layout.context_format
        };
        let all = contexts.chunks_exact(layout.context_size as usize).take(count);
        let subs = all.filter(is_sub).map(|context| Call {
            cv: word64(context, layout.context_cv),
            caller: word64(context, layout.context_oldcop),
        });
        let mut calls: Vec<Call> = subs.collect();
        calls.reverse();
        calls
    }

    /// Stacks that wait for the innermost one do not change.
    fn add_below(&self, picture: &mut Picture, mut below: u64) {
        for _ in 0..MOST_STACKS {
            let Some(stack) = self.locate(below).filter(|_| below != 0) else { return };
            let size = u64::from(self.process.layout.context_size);
            let length = (stack.count * size) as usize;
            if let Some(contexts) =
                self.process.bytes(stack.contexts.wrapping_add(stack.first * size), length)
            {
                let count = stack.depth.saturating_sub(stack.first) as usize;
                picture.calls.extend(self.calls(&contexts, count));
                picture.cut |= stack.first > 0;
            }
            below = stack.below;
        }
    }
}

/// Contexts in use: the index of the topmost, which is -1 for none, and one. None when that cannot be true.
fn depth(top: u32, room: u32) -> Option<u64> {
    let depth = top.wrapping_add(1);
    (depth <= room.saturating_add(1)).then_some(u64::from(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an aim makes of attempts that see this, or nothing; exact is what is above 9.
    fn chosen(aim: Aim, attempts: &[Option<u32>]) -> Option<u32> {
        let mut left = attempts.iter().copied();
        aim.choose(|| Ok(left.next().flatten()), |seen| *seen > 9).unwrap()
    }

    #[test]
    fn who_asks_where_perl_is_has_an_exact_picture_and_who_counts_the_first_one() {
        let cases = [
            (&[Some(1), None, Some(2), Some(10), Some(11)][..], Some(10), Some(1)),
            (&[None, Some(1), Some(2)], Some(2), Some(1)),
            (&[None, None, Some(12)], Some(12), Some(12)),
            (&[None; ATTEMPTS + 1], None, None),
            (&[Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(10)], Some(6), Some(1)),
        ];
        for (attempts, exact, any) in cases {
            assert_eq!(chosen(Aim::Exact, attempts), exact, "{attempts:?}");
            assert_eq!(chosen(Aim::AnyMoment, attempts), any, "{attempts:?}");
        }
    }
}
