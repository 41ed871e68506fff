//! Exceptions of ARMv6-M and ARMv7-M, which Unicorn leaves to others: entry and return, with the
//! frame that the core stacks, the FPU's registers lazily.
//!
//! From the ARMv7-M Architecture Reference Manual, B1.5.4 to B1.5.8, B1.5.12 and B1.5.13.
//!
//! ```text
//!  thread, process stack   | frame        SysTick: main stack
//!                                           |  ICSR.PENDSVSET
//!                                           '- returns: PendSV is pending -> tail-chained, no frame
//!                                         PendSV: main stack
//!                                           |  SysTick is more urgent -> nested: frame on main stack
//!                                           '- returns with EXC_RETURN to the process stack
//! ```
//!
//! An exception is taken when it is more urgent than what runs: SVCall, PendSV and SysTick by their
//! priorities in SHPR2 and SHPR3, masked by PRIMASK, FAULTMASK and BASEPRI. Of two that are equally
//! urgent the lower number comes first. An SVC that cannot be taken is a fault. A program that
//! reads ICSR between its write and the exception finds what it wrote there.

use super::engine::{Exception, Watch};
use unicorn_engine::{RegisterARM as R, Unicorn};

/// Unicorn's number of a supervisor call.
pub const SWI: u32 = 2;
const SVCALL: u32 = 11;
/// Unicorn's number of a return from an exception, when it knows that it is one.
pub const EXIT: u32 = 8;
/// From here on, what a handler returns to is an EXC_RETURN.
pub const RETURN: u32 = 0xFFFF_FFE0;
/// In an EXC_RETURN: to a thread, to the process stack, and that the frame has no registers of the
/// FPU. All other bits are as in [`EXC_RETURN`].
const TO_THREAD: u32 = 1 << 3;
const TO_PROCESS: u32 = 1 << 2;
const NO_FPU: u32 = 1 << 4;
const EXC_RETURN: u32 = 0xFFFF_FFE1;
/// In CONTROL: threads have the process stack; the FPU was used since the last entry.
const SPSEL: u32 = 1 << 1;
const FPCA: u32 = 1 << 2;
/// The same for secure code, which Unicorn takes all of a Cortex-M4's code for. Without it the next
/// instruction of the FPU would find FPSCR reset.
const SFPA: u32 = 1 << 3;

const CPUID: u64 = 0xE000_ED00;
const ICSR: u64 = 0xE000_ED04;
/// Priorities of SVCall, and of PendSV and SysTick.
const SHPR2: u64 = 0xE000_ED1C;
const SHPR3: u64 = 0xE000_ED20;
/// In a write to ICSR.
const PENDSVSET: u32 = 1 << 28;
const PENDSVCLR: u32 = 1 << 27;
const PENDSTSET: u32 = 1 << 26;
const PENDSTCLR: u32 = 1 << 25;
/// What is pending, as [`Watch::pending`] has it.
const PENDSV: u32 = 14;
const SYSTICK: u32 = 15;
/// The priority of a thread: less urgent than any exception.
const THREAD: i32 = 256;
/// No handler but one is active.
const RETTOBASE: u32 = 1 << 11;
/// Coprocessor access: the FPU is on.
const CPACR: u64 = 0xE000_ED88;
/// Not a core's: where the FPU's registers would go, if they are used; 0 when they are not wanted.
const LAZY: u64 = 0xE000_EFF0;

const STACKED: [R; 6] = [R::R0, R::R1, R::R2, R::R3, R::R12, R::LR];
const SINGLES: [R; 16] = [
    R::S0,
    R::S1,
    R::S2,
    R::S3,
    R::S4,
    R::S5,
    R::S6,
    R::S7,
    R::S8,
    R::S9,
    R::S10,
    R::S11,
    R::S12,
    R::S13,
    R::S14,
    R::S15,
];
/// In the stacked xPSR: the stack was not aligned to 8.
const REALIGNED: u32 = 1 << 9;
const THUMB: u32 = 1 << 24;
/// How far it is in an if-then block.
const IF_THEN: u32 = 0x0600_FC00;
const NUMBER: u32 = 0x1FF;
const BASIC: u32 = 0x20;
const EXTENDED: u32 = 0x68;

type Uc<'a> = Unicorn<'a, Watch>;

fn get(uc: &Uc<'_>, r: R) -> u32 {
    uc.reg_read(r).map_or(0, |v| v as u32)
}

fn set(uc: &mut Uc<'_>, r: R, v: u32) -> Option<()> {
    uc.reg_write(r, v.into()).ok()
}

fn load(uc: &Uc<'_>, at: u64) -> Option<u32> {
    let mut word = [0; 4];
    uc.mem_read(at, &mut word).ok()?;
    Some(u32::from_le_bytes(word))
}

fn store(uc: &mut Uc<'_>, at: u64, v: u32) -> Option<()> {
    uc.mem_write(at, &v.to_le_bytes()).ok()
}

/// What a program finds in the system control block after a reset.
pub fn reset(uc: &mut Uc<'_>, cpuid: u32) {
    // It fails when the block is not mapped; then the program is told so by a load.
    let _ = store(uc, CPUID, cpuid);
}

fn fpu(uc: &Uc<'_>) -> bool {
    load(uc, CPACR).is_some_and(|c| c >> 20 & 0xF == 0xF)
}

/// The bit of the timer's exception in [`Watch::signals`].
pub const TIMER: u32 = 1 << SYSTICK;

/// A store to the system control space: what it makes pending.
pub fn stored(w: &mut Watch, at: u64, value: u32) {
    if at != ICSR {
        return;
    }
    let of = |set: u32, clear: u32, n: u32| match value {
        v if v & set != 0 => (1 << n, 0),
        v if v & clear != 0 => (0, 1 << n),
        _ => (0, 0),
    };
    for (set, clear) in [
        of(PENDSVSET, PENDSVCLR, PENDSV),
        of(PENDSTSET, PENDSTCLR, SYSTICK),
    ] {
        w.signals = w.signals & !clear | set;
    }
}

fn priority(uc: &Uc<'_>, number: u32) -> i32 {
    let (at, shift) = match number {
        SVCALL => (SHPR2, 24),
        PENDSV => (SHPR3, 16),
        SYSTICK => (SHPR3, 24),
        _ => return 0,
    };
    (load(uc, at).unwrap_or(0) >> shift & 0xFF) as i32
}

/// How urgent what runs is: the most urgent of the active exceptions, and the masks.
fn running(uc: &Uc<'_>) -> i32 {
    let active = uc.get_data().active.iter().map(|n| priority(uc, *n));
    let mut most = active.min().unwrap_or(THREAD);
    let base = (get(uc, R::BASEPRI) & 0xFF) as i32;
    if base != 0 {
        most = most.min(base);
    }
    if get(uc, R::PRIMASK) & 1 != 0 {
        most = most.min(0);
    }
    if get(uc, R::FAULTMASK) & 1 != 0 {
        most = -1;
    }
    most
}

/// The pending exception that is taken now, if one is.
pub fn due(uc: &Uc<'_>) -> Option<u32> {
    let signals = uc.get_data().signals;
    let pending = [PENDSV, SYSTICK]
        .into_iter()
        .filter(|n| signals & 1 << n != 0);
    let first = pending.min_by_key(|n| (priority(uc, *n), *n))?;
    (priority(uc, first) < running(uc)).then_some(first)
}

/// Takes an exception, which returns to `back`. Where its handler begins. The FPU's registers are
/// stacked when they are used, if `lazy`.
///
/// Never within an if-then block: Unicorn does not stop there, and what it says of the block is out
/// of date behind it.
pub fn enter(uc: &mut Uc<'_>, number: u32, back: u32, lazy: bool) -> Option<u64> {
    if priority(uc, number) >= running(uc) {
        return None;
    }
    let thread = uc.get_data().active.is_empty();
    let control = get(uc, R::CONTROL);
    let process = thread && control & SPSEL != 0;
    // The programs that run here on the main stack have used the FPU, and may have its registers in
    // use when CONTROL.FPCA says nothing of it, because a handler has put them there.
    let in_use = thread && !process && !uc.get_data().compared();
    let extended = fpu(uc) && (control & FPCA != 0 || in_use);
    let (sp, xpsr) = (get(uc, R::SP), get(uc, R::XPSR) & !IF_THEN);
    let size = if extended { EXTENDED } else { BASIC };
    let frame = sp.checked_sub(size)? & !7;
    let realigned = if sp & 4 != 0 { REALIGNED } else { 0 };
    for (i, r) in STACKED.into_iter().enumerate() {
        store(uc, u64::from(frame) + 4 * i as u64, get(uc, r))?;
    }
    store(uc, u64::from(frame) + 0x18, back)?;
    store(uc, u64::from(frame) + 0x1C, xpsr & !REALIGNED | realigned)?;
    if extended {
        store(uc, LAZY, frame + BASIC)?;
        if !lazy {
            preserve(uc)?;
        }
    }
    set(uc, R::SP, frame)?;
    let mut to = EXC_RETURN;
    to |= if thread { TO_THREAD } else { 0 };
    to |= if process { TO_PROCESS } else { 0 };
    to |= if extended { 0 } else { NO_FPU };
    if thread {
        // A thread's alone: in a handler the bit cannot be written.
        set(uc, R::CONTROL, control & !(SPSEL | FPCA | SFPA))?;
    }
    set(uc, R::LR, to)?;
    begin(uc, number)
}

/// The handler of an exception begins, on the main stack.
fn begin(uc: &mut Uc<'_>, number: u32) -> Option<u64> {
    let w = uc.get_data_mut();
    w.active.push(number);
    w.signals &= !(1 << number);
    let base = if w.active.len() == 1 { RETTOBASE } else { 0 };
    set(uc, R::IPSR, number)?;
    // The handler is in no if-then block.
    set(uc, R::EPSR, THUMB)?;
    store(uc, ICSR, base | number)?;
    Some(u64::from(load(uc, u64::from(4 * number))? | 1))
}

/// Does what was put off.
fn preserve(uc: &mut Uc<'_>) -> Option<()> {
    let at = load(uc, LAZY).filter(|at| *at != 0)?;
    store(uc, LAZY, 0)?;
    for (i, s) in SINGLES.into_iter().enumerate() {
        store(uc, u64::from(at) + 4 * i as u64, get(uc, s))?;
    }
    store(uc, u64::from(at) + 0x40, get(uc, R::FPSCR))
}

/// Before an instruction: if it is the FPU's, what was put off is done.
pub fn flush(uc: &mut Uc<'_>, at: u32) {
    let Some(word) = load(uc, at.into()) else {
        return;
    };
    // A coprocessor's instruction, of coprocessor 10 or 11.
    if word & 0xEC00 == 0xEC00 && word >> 16 & 0x0E00 == 0x0A00 {
        let _ = preserve(uc);
    }
}

/// What the core does at a call, for what is pending, and at the end of a handler.
pub fn take(uc: &mut Uc<'_>, x: Exception) -> Option<u64> {
    let to = match x {
        // What its handler does with the FPU is not seen without detail, so it is stacked at once.
        Exception::Call => return enter(uc, SVCALL, get(uc, R::PC), false),
        Exception::Pending(number) => {
            let detail = uc.get_data().detail();
            let back = match detail {
                // An if-then block was gone through to its end.
                true => get(uc, R::PC) & !1,
                false => uc.get_data().stopped_before(),
            };
            return enter(uc, number, back, detail);
        }
        // Unicorn has recognised it, and where it would lead is in the PC.
        Exception::Return(0) => get(uc, R::PC) | 1,
        Exception::Return(to) => to,
    };
    let (thread, process) = (to & TO_THREAD != 0, to & TO_PROCESS != 0);
    let extended = to & NO_FPU == 0;
    if to & !(TO_THREAD | TO_PROCESS | NO_FPU) != EXC_RETURN || process && !thread {
        return None;
    }
    // The last handler returns to a thread, any other one to a handler.
    let active = &mut uc.get_data_mut().active;
    active.pop()?;
    if thread != active.is_empty() {
        return None;
    }
    if let Some(next) = due(uc) {
        // Tail-chained: the frame stays, and the next handler returns from it.
        set(uc, R::LR, to)?;
        return begin(uc, next);
    }
    set(
        uc,
        R::IPSR,
        uc.get_data().active.last().copied().unwrap_or(0),
    )?;
    if thread {
        let privileges = get(uc, R::CONTROL) & 1;
        let stack = if process { SPSEL } else { 0 };
        set(uc, R::CONTROL, privileges | stack)?;
    }
    let frame = u64::from(get(uc, R::SP));
    let xpsr = load(uc, frame + 0x1C)?;
    let back = load(uc, frame + 0x18)?;
    for (i, r) in STACKED.into_iter().enumerate() {
        set(uc, r, load(uc, frame + 4 * i as u64)?)?;
    }
    if extended {
        // What was never put there is in the registers still.
        if load(uc, LAZY) == Some(0) {
            for (i, s) in SINGLES.into_iter().enumerate() {
                set(uc, s, load(uc, frame + 0x20 + 4 * i as u64)?)?;
            }
            set(uc, R::FPSCR, load(uc, frame + 0x60)?)?;
        }
    }
    // Between threads of the process stack what was put off stays so: the next one that uses the
    // FPU has it done. On the main stack the frame is not used any more.
    if extended || thread && !process {
        store(uc, LAZY, 0)?;
    }
    let size = if extended { EXTENDED } else { BASIC };
    let realigned = if xpsr & REALIGNED != 0 { 4 } else { 0 };
    set(uc, R::SP, (frame as u32).checked_add(size + realigned)?)?;
    if extended {
        let control = get(uc, R::CONTROL);
        set(uc, R::CONTROL, control | FPCA | SFPA)?;
    }
    let active = uc.get_data().active.last().copied().unwrap_or(0);
    let base = if uc.get_data().active.len() == 1 {
        RETTOBASE
    } else {
        0
    };
    // The number is the active exception's already.
    set(uc, R::XPSR, xpsr & !REALIGNED & !NUMBER | active)?;
    store(uc, ICSR, base | active)?;
    Some(u64::from(back | 1))
}
