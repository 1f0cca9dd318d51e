//! Capabilities: root without the power of root, and a program with file capabilities without those.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing at all.
    Nothing,
    /// CAP_KILL and CAP_DAC_OVERRIDE, as far as they are there.
    SignalsAndFiles,
}

impl Kept {
    fn set(self) -> CapabilitySet {
        match self {
            Self::Nothing => CapabilitySet::empty(),
            Self::SignalsAndFiles => CapabilitySet::KILL | CapabilitySet::DAC_OVERRIDE,
        }
    }
}

/// Drops every other capability of the calling thread, and from the sets that programs get theirs from, all.
///
/// # Errors
/// The kernel's; some may be gone by then.
pub fn keep_capabilities(kept: Kept) -> io::Result<()> {
    // The kernel may have more than the library knows.
    for capability in (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        if capability_is_in_bounding_set(capability) == Ok(true) {
            // Without CAP_SETPCAP there is no right to that; then there are no capabilities to lose either.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    // Linux before 4.3 has none.
    let _ = clear_ambient_capability_set();
    let rest = capabilities(None)?.permitted & kept.set();
    set_capabilities(
        None,
        CapabilitySets { effective: rest, permitted: rest, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}
