//! A plugin for QEMU's code generator that cuts the power after a given number of instructions.
//!
//! ```text
//! qemu-system-arm … -plugin libqemu_kill.so,end=kill,after=N[,memory=PATH,cell=OFFSET]
//!
//! instruction   1    2    3   …   K   K+1   …   K+N  | K+N+1
//! the cell                        ^ changes          ^ before it: SIGKILL, or a stop
//! ```
//!
//! It counts every instruction that the guest begins. Without `memory` it counts from the reset.
//! With `memory` it counts from the moment when the 16 bits at `cell` of that file change: the file
//! is the guest's memory. So a kill falls at the same instruction on every computer, however busy.
//!
//! - `end=kill` kills QEMU with SIGKILL. Files that are the guest's memory keep what it stored.
//! - `end=stop` writes the line `stopped` to the standard error, and holds the guest there. QEMU's
//!   monitor still answers, and can save the guest's memory.
//!
//! QEMU links with it at run time: there is no header, and the few functions of its interface are
//! declared here. They are the same in all versions of the interface up to 4 at least.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};

/// The interface's version. QEMU 7 and 8 accept 1, QEMU 9 and later accept 2.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // QEMU looks for this name
pub static qemu_plugin_version: c_int = match option_env!("QEMU_PLUGIN_API") {
    Some(v) => (v.as_bytes()[0] - b'0') as c_int,
    None => 1,
};

type Id = u64;
type Translated = extern "C" fn(Id, *mut c_void);
type Executed = extern "C" fn(c_uint, *mut c_void);

// SAFETY: QEMU's functions, declared as its documentation of plugins does; and libc's.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, f: Translated);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, i: usize) -> *mut c_void;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        f: Executed,
        flags: c_int,
        data: *mut c_void,
    );
    fn mmap(
        at: *mut c_void,
        n: usize,
        how: c_int,
        flags: c_int,
        fd: c_int,
        from: i64,
    ) -> *mut c_void;
    fn getpid() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

const PROT_READ: c_int = 1;
const MAP_SHARED: c_int = 1;
const SIGKILL: c_int = 9;
/// A callback that reads no registers.
const NO_REGISTERS: c_int = 0;

/// What the command line asks for.
struct Plan {
    after: u64,
    stop: bool,
    /// The cell from whose change on instructions are counted, and its value at the reset.
    cell: Option<(&'static AtomicU16, u16)>,
}

static PLAN: OnceLock<Plan> = OnceLock::new();
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Instructions that have begun since counting has.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// QEMU calls this once, before the guest's reset. Returns 0 if the arguments are understood.
///
/// # Safety
/// `argv` holds `argc` strings that end with zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let argument = |i: usize| {
        // SAFETY: the caller promises so many strings.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) };
        text.to_string_lossy().into_owned()
    };
    let arguments: Vec<String> = (0..usize::try_from(argc).unwrap_or(0))
        .map(argument)
        .collect();
    match plan(&arguments) {
        Ok(plan) => {
            COUNTING.store(plan.cell.is_none(), Relaxed);
            if PLAN.set(plan).is_err() {
                return 1;
            }
        }
        Err(why) => {
            eprintln!("qemu-kill: {why}");
            return 1;
        }
    }
    // SAFETY: `id` is the one that QEMU gave to this plugin.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let (mut after, mut stop, mut file, mut cell) = (None, None, None, 0);
    for a in arguments {
        let number = |v: &str| v.parse::<u64>().map_err(|e| format!("{a}: {e}"));
        match a.split_once('=') {
            Some(("after", v)) => after = Some(number(v)?),
            Some(("end", "kill")) => stop = Some(false),
            Some(("end", "stop")) => stop = Some(true),
            Some(("memory", v)) => file = Some(v),
            Some(("cell", v)) => cell = number(v)?,
            _ => return Err(format!("not an argument: {a}")),
        }
    }
    let cell = match file {
        Some(path) => {
            let cell = mapped(path, cell).map_err(|e| format!("{path}: {e}"))?;
            Some((cell, cell.load(Relaxed)))
        }
        None => None,
    };
    Ok(Plan {
        after: after.ok_or("after=N is missing")?,
        stop: stop.ok_or("end=kill or end=stop is missing")?,
        cell,
    })
}

/// The 16 bits at this offset of a file, as its other users store them.
fn mapped(path: &str, offset: u64) -> std::io::Result<&'static AtomicU16> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    if !offset.is_multiple_of(2) || offset + 2 > len {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping of an open file, which nobody unmaps.
    let at = unsafe {
        mmap(
            null,
            len as usize,
            PROT_READ,
            MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at as isize == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the cell is aligned and within the mapping, which stays, and is only read.
    Ok(unsafe { &*at.byte_add(offset as usize).cast::<AtomicU16>() })
}

/// QEMU has translated a block.
extern "C" fn translated(_: Id, block: *mut c_void) {
    // SAFETY: QEMU gives the block for the time of this call, and it has so many instructions.
    unsafe {
        for i in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, i);
            let data = std::ptr::null_mut();
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, data);
        }
    }
}

/// The guest is about to execute an instruction.
extern "C" fn executed(_: c_uint, _: *mut c_void) {
    let Some(plan) = PLAN.get() else { return };
    if !COUNTING.load(Relaxed) {
        if plan
            .cell
            .is_none_or(|(cell, old)| cell.load(Relaxed) == old)
        {
            return;
        }
        COUNTING.store(true, Relaxed);
    }
    // The machines have one processor: nothing else counts.
    let before = COUNT.load(Relaxed);
    COUNT.store(before + 1, Relaxed);
    if before < plan.after {
        return;
    }
    if plan.stop {
        eprintln!("stopped");
        loop {
            std::thread::park();
        }
    }
    // SAFETY: it ends this process, and no other.
    unsafe { kill(getpid(), SIGKILL) };
    loop {
        std::thread::park();
    }
}
