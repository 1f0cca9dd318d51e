//! The limit of the stack (`ulimit -s`): beyond it the kernel ends a process in the middle of whatever it does, as it does where a stack
//! grows and there is no memory to be had. `main` asks first of all, since to read the command line takes more than anything that follows.

use anyhow::bail;
use howdah_sys::heap::have_stack;
use howdah_sys::shortage::with_way_out;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A start takes 184 KiB, and serving no more; arguments and environment lie there, too.
const LEAST: u64 = 512 << 10;

/// Of it, what the kernel is to give at once.
const AT_ONCE: usize = 192 << 10;

/// Raises the limit as far as the system lets us, where it is that low, and has the stack that is needed.
///
/// # Errors
/// It stays too low, or there is no memory; the message says what to raise.
pub(crate) fn suffice() -> anyhow::Result<()> {
    raise()?;
    if let Err(error) = have_stack(AT_ONCE) {
        bail!("cannot have {} KiB of stack: {}", AT_ONCE >> 10, with_way_out(&error));
    }
    Ok(())
}

fn raise() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Stack);
    let Some(wanted) = raised(limit) else { return Ok(()) };
    match wanted.current {
        Some(most) if most < LEAST => bail!(
            "the limit of the stack is {} KiB, and howdah needs {}: raise it (ulimit -s, systemd's LimitSTACK=)",
            most >> 10,
            LEAST >> 10
        ),
        _ => Ok(setrlimit(Resource::Stack, wanted)?),
    }
}

/// What the limit is to be; none where it may stay. It is no higher than the hard one.
fn raised(limit: Rlimit) -> Option<Rlimit> {
    let is_low = limit.current.is_some_and(|bytes| bytes < LEAST);
    is_low.then(|| Rlimit { current: Some(limit.maximum.map_or(LEAST, |most| most.min(LEAST))), ..limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_raised_up_to_the_hard_one() {
        let kib = |limit: Option<u64>| limit.map(|kib| kib << 10);
        for (current, maximum, wanted) in [
            (Some(8192), None, None),
            (None, None, None),
            (Some(512), Some(512), None),
            (Some(64), None, Some(512)),
            (Some(64), Some(8192), Some(512)),
            (Some(64), Some(100), Some(100)),
            (Some(64), Some(64), Some(64)),
        ] {
            let raised = raised(Rlimit { current: kib(current), maximum: kib(maximum) });
            assert_eq!(
                raised.map(|limit| limit.current),
                wanted.map(|wanted| kib(Some(wanted))),
                "{current:?} {maximum:?}"
            );
        }
    }
}
