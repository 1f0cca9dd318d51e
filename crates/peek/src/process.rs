//! The memory of one worker, as far as perl's state lies in it.
//!
//! The process tells by a [`PerlLayout`] where things are. Both it and all that is read by it belong to another process,
//! which may change them at any time or may have been written over: numbers are bounded before they are used, and an
//! address that leads nowhere is an error or nothing, never more.

use std::fs;
use std::io;
use std::sync::Arc;

use howdah_sys::Pid;
use howdah_sys::remote::{self, Piece};
use howdah_wire::{PERL_LAYOUT_MAGIC, PerlLayout};

/// As xs/layout.c calls it.
const MAPPING: &str = "/memfd:howdah-perl (deleted)";
/// Words of a layout: all of its fields are 4 or 8 bytes long.
const LAYOUT: usize = size_of::<PerlLayout>();
/// Longest structure that is believed.
const LARGEST: u32 = 4096;
/// Longest name or path that is read.
const LONGEST: usize = 1024;

/// A process with a perl inside.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pid: Pid,
    /// Where things are.
    pub(crate) layout: Arc<PerlLayout>,
}

impl Process {
    /// Looks for the layout in `pid`.
    ///
    /// # Errors
    /// PermissionDenied where the kernel does not let us look, NotFound when the process is gone, InvalidData when it is
    /// no worker or one of another version.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        // Files that are mapped may be called anything.
        let maps = fs::read(format!("/proc/{pid}/maps"))?;
        let at = mapping(&String::from_utf8_lossy(&maps)).ok_or_else(|| strange(pid))?;
        let mut bytes = vec![0; LAYOUT];
        let whole = remote::read(number, &mut [(at, &mut bytes)])?;
        let layout = (whole == 1).then(|| decode(&bytes)).flatten().ok_or_else(|| strange(pid))?;
        Ok(Self { pid: number, layout: Arc::new(layout) })
    }

    /// Fills pieces of memory at once; false when one of them is not there.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn fill(&self, pieces: &mut [Piece<'_>]) -> io::Result<bool> {
        let mut there = true;
        for part in pieces.chunks_mut(remote::MOST_PIECES) {
            there &= remote::read(self.pid, part)? == part.len();
        }
        Ok(there)
    }

    /// Bytes at `address`, if that many are there.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut room = vec![0; length];
        self.fill(&mut [(address, &mut room)]).is_ok_and(|there| there).then_some(room)
    }

    /// The address that stands at `address`, unless it is 0.
    pub(crate) fn pointer(&self, address: u64) -> Option<u64> {
        let bytes = self.bytes(address, 8)?;
        Some(word64(&bytes, 0)).filter(|&pointer| pointer != 0)
    }

    /// 32 bits at `address`.
    pub(crate) fn number(&self, address: u64) -> Option<u32> {
        Some(word32(&self.bytes(address, 4)?, 0))
    }

    /// A string that ends with NUL.
    pub(crate) fn string(&self, address: u64) -> Option<String> {
        // A page may end behind it.
        let to_end = 4096 - (address % 4096) as usize;
        let first = self.bytes(address, to_end.min(LONGEST))?;
        let bytes = match first.contains(&0) || to_end >= LONGEST {
            true => first,
            false => self.bytes(address, LONGEST).unwrap_or(first),
        };
        let end = bytes.iter().position(|&byte| byte == 0)?;
        Some(name(&bytes[..end]))
    }

    /// A string of known length.
    pub(crate) fn text(&self, address: u64, length: usize) -> Option<String> {
        let bytes = self.bytes(address, (length <= LONGEST).then_some(length)?)?;
        Some(name(&bytes))
    }
}

/// What perl calls something, as text that ends no line. What is not UTF-8 is Latin-1: so perl has names that need no more.
fn name(bytes: &[u8]) -> String {
    let latin1 = |_| bytes.iter().map(|&byte| char::from(byte)).collect();
    str::from_utf8(bytes).map_or_else(latin1, str::to_owned).replace('\n', "\\x0a")
}

/// 32 bits of a copy; 0 beyond its end.
pub(crate) fn word32(bytes: &[u8], at: u32) -> u32 {
    let part = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    part.map_or(0, |part| u32::from_ne_bytes(*part))
}

/// 64 bits of a copy; 0 beyond its end.
pub(crate) fn word64(bytes: &[u8], at: u32) -> u64 {
    let part = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    part.map_or(0, |part| u64::from_ne_bytes(*part))
}

fn strange(pid: u32) -> io::Error {
    let message = format!(
        "process {pid} does not tell where a perl keeps its state: it has none, as those that run scripts, or front and Perl \
         modules are of two versions; then install both anew"
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Where /proc/PID/maps has the layout.
fn mapping(maps: &str) -> Option<u64> {
    let line = maps.lines().find(|line| line.ends_with(MAPPING))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// What stands in the mapping, field by field, in the order in which it is declared.
fn decode(bytes: &[u8]) -> Option<PerlLayout> {
    let mut at = 0;
    let mut long = || {
        at += 8;
        word64(bytes, at - 8)
    };
    let (magic, op_at, curcop_at, stackinfo_at) = (long(), long(), long(), long());
    let (curpad_at, op_names_at, exchange_at) = (long(), long(), long());
    let mut short = || {
        at += 4;
        word32(bytes, at - 4)
    };
    let layout = PerlLayout {
        magic,
        op_at,
        curcop_at,
        stackinfo_at,
        curpad_at,
        op_names_at,
        exchange_at,
        op_names: short(),
        exchange_size: short(),
        exchange_progress: short(),
        exchange_serial: short(),
        exchange_request: short(),
        exchange_used: short(),
        exchange_control: short(),
        op_type: short(),
        op_type_mask: short(),
        op_moresib_mask: short(),
        op_targ: short(),
        op_sibling: short(),
        op_first: short(),
        op_value: short(),
        gv_in_pad: short(),
        cop_size: short(),
        cop_line: short(),
        cop_file: short(),
        cop_file_is_gv: short(),
        si_size: short(),
        si_contexts: short(),
        si_prev: short(),
        si_top: short(),
        si_room: short(),
        context_size: short(),
        context_type: short(),
        context_type_mask: short(),
        context_sub: short(),
        context_format: short(),
        context_oldcop: short(),
        context_cv: short(),
        sv_any: short(),
        sv_flags: short(),
        sv_u: short(),
        sv_rok: short(),
        pv_cur: short(),
        cv_flags: short(),
        cv_gv: short(),
        cv_stash: short(),
        cv_start: short(),
        cv_anon: short(),
        cv_named: short(),
        cv_is_xsub: short(),
        gv_name: short(),
        gv_stash: short(),
        gp_cv: short(),
        hv_max: short(),
        hv_name: short(),
        hv_name_count: short(),
        hv_aux_behind: short(),
        hek_length: short(),
        hek_key: short(),
    };
    is_sound(&layout).then_some(layout)
}

/// Sizes that are used to make room.
fn is_sound(layout: &PerlLayout) -> bool {
    let sizes = [layout.exchange_size, layout.cop_size, layout.si_size, layout.context_size];
    layout.magic == PERL_LAYOUT_MAGIC
        && layout.op_names <= LARGEST
        && sizes.iter().all(|&size| (1..=LARGEST).contains(&size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_is_found_by_its_name() {
        let maps = "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1   /usr/bin/perl\n\
                    7f0010203000-7f0010204000 r--p 00000000 00:01 2                      /memfd:howdah-perl (deleted)\n";
        assert_eq!(mapping(maps), Some(0x7f00_1020_3000));
        assert_eq!(
            mapping("7f0010203000-7f0010204000 r--p 00000000 00:01 2   /memfd:howdah (deleted)\n"),
            None
        );
    }

    #[test]
    fn a_layout_is_read_whole() {
        // Each field has the number of its place.
        let count = u32::try_from((LAYOUT - 7 * 8) / 4).unwrap();
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend(PERL_LAYOUT_MAGIC.to_ne_bytes());
        (1..7u64).for_each(|word| bytes.extend(word.to_ne_bytes()));
        (0..count).for_each(|word| bytes.extend((word + 100).to_ne_bytes()));
        bytes.resize(LAYOUT, 0);
        let layout = decode(&bytes).unwrap();
        assert_eq!((layout.op_at, layout.exchange_at, layout.op_names), (1, 6, 100));
        assert_eq!(layout.exchange_control, 106);
        let last = std::mem::offset_of!(PerlLayout, hek_key);
        assert_eq!(layout.hek_key as usize, 100 + (last - 7 * 8) / 4);
        bytes[0] ^= 1;
        assert_eq!(decode(&bytes), None, "another version");
    }

    #[test]
    fn strings_are_read_up_to_their_end_and_never_beyond_what_is_there() {
        let process =
            Process { pid: Pid::from_raw(std::process::id().cast_signed()).unwrap(), layout: Arc::default() };
        let text = b"app.psgi\0rest";
        assert_eq!(process.string(text.as_ptr() as u64).as_deref(), Some("app.psgi"));
        assert_eq!(process.text(text.as_ptr() as u64, 3).as_deref(), Some("app"));
        assert_eq!(process.text(text.as_ptr() as u64, usize::MAX), None);
        assert_eq!(process.string(8), None);
        for (bytes, shown) in [
            (&b"Shop::gr\xf6\xdfe"[..], "Shop::größe"),
            ("größe".as_bytes(), "größe"),
            (b"a\nb\tc", "a\\x0ab\tc"),
        ] {
            assert_eq!(process.text(bytes.as_ptr() as u64, bytes.len()).as_deref(), Some(shown));
        }
        assert_eq!(process.pointer(8), None);
    }
}
