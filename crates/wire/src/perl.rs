//! Where the state of a perl lies in its memory, told by a process to whoever may read it from outside.
//!
//! Structures of perl differ with version and build. `xs/layout.c`, which is compiled against that perl, fills in a
//! [`PerlLayout`] before the first worker is forked and leaves it in a mapping of its own, called `/memfd:howdah-perl`;
//! `crates/peek` looks for that in `/proc/PID/maps`. Nobody else writes one or reads one.

/// First eight bytes of the mapping: `HWPERL01` where the lowest byte comes first, for what this is and its version.
pub const PERL_LAYOUT_MAGIC: u64 = 0x3130_4c52_4550_5748;

/// Addresses in the process that it stands in, and offsets in perl's structures, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerlLayout {
    /// [`PERL_LAYOUT_MAGIC`].
    pub magic: u64,
    /// Address of the pointer `PL_op`: the operation that runs.
    pub op_at: u64,
    /// Address of the pointer `PL_curcop`: the statement that runs.
    pub curcop_at: u64,
    /// Address of the pointer `PL_curstackinfo`.
    pub stackinfo_at: u64,
    /// Address of the pointer `PL_curpad`.
    pub curpad_at: u64,
    /// Address of the array of operations' names.
    pub op_names_at: u64,
    /// Address of what the worker knows of its present request.
    pub exchange_at: u64,
    /// Entries of the array of names.
    pub op_names: u32,
    /// Size of what it knows.
    pub exchange_size: u32,
    /// In there: an int that is 0 when there is no request.
    pub exchange_progress: u32,
    /// In there: the number of the request.
    pub exchange_serial: u32,
    /// In there: address of the `RequestRecord`.
    pub exchange_request: u32,
    /// In there: how many bytes of that count; 0 when it is not to be read.
    pub exchange_used: u32,
    /// In there: address of the `SlotControl`.
    pub exchange_control: u32,

    /// OP: the word that has its type.
    pub op_type: u32,
    /// OP: which bits of that word.
    pub op_type_mask: u32,
    /// OP: which bit of that word says that `op_sibling` is a sibling; 0 when it always is.
    pub op_moresib_mask: u32,
    /// OP: its target, a place in the pad.
    pub op_targ: u32,
    /// OP: next sibling.
    pub op_sibling: u32,
    /// OP with children: the first of them.
    pub op_first: u32,
    /// OP with a value: the value, or its place in the pad.
    pub op_value: u32,
    /// 1 when a GV is named by its place in the pad.
    pub gv_in_pad: u32,
    /// Size of an OP that is a statement.
    pub cop_size: u32,
    /// COP: its line.
    pub cop_line: u32,
    /// COP: its file.
    pub cop_file: u32,
    /// 1 when that is a GV that is named `_<FILE`, else it is a string.
    pub cop_file_is_gv: u32,

    /// Size of a stack's information.
    pub si_size: u32,
    /// Its contexts.
    pub si_contexts: u32,
    /// The stack below it.
    pub si_prev: u32,
    /// Index of the topmost context.
    pub si_top: u32,
    /// Index of the last context that there is room for.
    pub si_room: u32,

    /// Size of a context.
    pub context_size: u32,
    /// Context: a byte with its type.
    pub context_type: u32,
    /// Which bits of that.
    pub context_type_mask: u32,
    /// The type of a sub.
    pub context_sub: u32,
    /// The type of a format.
    pub context_format: u32,
    /// Context: the statement that entered it.
    pub context_oldcop: u32,
    /// Context of a sub: its CV.
    pub context_cv: u32,

    /// SV: its body.
    pub sv_any: u32,
    /// SV: its flags.
    pub sv_flags: u32,
    /// SV: string, or what it refers to.
    pub sv_u: u32,
    /// Flag: it is a reference.
    pub sv_rok: u32,
    /// Body of a string: its length.
    pub pv_cur: u32,
    /// Body of a CV: its flags.
    pub cv_flags: u32,
    /// Body of a CV: its GV, or its name.
    pub cv_gv: u32,
    /// Body of a CV: the stash that it was compiled in.
    pub cv_stash: u32,
    /// Body of a CV: its first operation.
    pub cv_start: u32,
    /// Flag of a CV: it has no name of its own.
    pub cv_anon: u32,
    /// Flag of a CV: it has a name instead of a GV.
    pub cv_named: u32,
    /// Flag of a CV: it is C.
    pub cv_is_xsub: u32,
    /// Body of a GV: its name.
    pub gv_name: u32,
    /// Body of a GV: its stash.
    pub gv_stash: u32,
    /// What the `sv_u` of a GV leads to: its CV.
    pub gp_cv: u32,
    /// Body of a stash: index of the last entry of its array.
    pub hv_max: u32,
    /// Where a stash's name stands: in its body, or with `hv_aux_behind` behind its array.
    pub hv_name: u32,
    /// There: how many names it has; 0 for one that stands there by itself.
    pub hv_name_count: u32,
    /// 1 for behind the array.
    pub hv_aux_behind: u32,
    /// A name: its length.
    pub hek_length: u32,
    /// A name: its bytes.
    pub hek_key: u32,
}
