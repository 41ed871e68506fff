//! Exceptions of ARMv6-M and ARMv7-M, which Unicorn leaves to others: entry and return, with the
//! frame that the core stacks, the FPU's registers lazily.
//!
//! From the ARMv7-M Architecture Reference Manual, B1.5.6 to B1.5.8 and B1.5.13. One level: a
//! handler is never interrupted, so an SVC in one is a fault, as it is on a core when the handler's
//! priority is as high. The frame always has room for the FPU's registers where there is one: the
//! programs that run here have used it, so CONTROL.FPCA is set whenever they are interrupted.

use super::engine::{Exception, Watch};
use unicorn_engine::{RegisterARM as R, Unicorn};

/// Unicorn's number of a supervisor call.
pub const SWI: u32 = 2;
const SVCALL: u32 = 11;
/// Unicorn's number of a return from an exception, when it knows that it is one.
pub const EXIT: u32 = 8;
/// From here on, what a handler returns to is an EXC_RETURN.
pub const RETURN: u32 = 0xFFFF_FFE0;
/// To thread mode and the main stack, with an FPU's frame and without.
const WITH_FPU: u32 = 0xFFFF_FFE9;
const PLAIN: u32 = 0xFFFF_FFF9;

const CPUID: u64 = 0xE000_ED00;
const ICSR: u64 = 0xE000_ED04;
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

/// Takes an exception, which returns to `back`. Where its handler begins. The FPU's registers are
/// stacked when they are used, if `lazy`.
///
/// Never within an if-then block: Unicorn does not stop there, and what it says of the block is out
/// of date behind it.
pub fn enter(uc: &mut Uc<'_>, number: u32, back: u32, lazy: bool) -> Option<u64> {
    if get(uc, R::IPSR) & NUMBER != 0 {
        return None;
    }
    let extended = fpu(uc);
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
    set(uc, R::LR, if extended { WITH_FPU } else { PLAIN })?;
    set(uc, R::IPSR, number)?;
    // The handler is in no if-then block.
    set(uc, R::EPSR, THUMB)?;
    store(uc, ICSR, RETTOBASE | number)?;
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

/// What the core does at a call, and at the end of a handler.
pub fn take(uc: &mut Uc<'_>, x: Exception) -> Option<u64> {
    let to = match x {
        // An SVC that is masked is a fault. What its handler does with the FPU is not seen without
        // detail, so it is stacked at once.
        Exception::Call if get(uc, R::PRIMASK) & 1 != 0 => return None,
        Exception::Call => return enter(uc, SVCALL, get(uc, R::PC), false),
        // Unicorn has recognised it, and where it would lead is in the PC.
        Exception::Return(0) => get(uc, R::PC) | 1,
        Exception::Return(to) => to,
    };
    let extended = match to {
        WITH_FPU => true,
        PLAIN => false,
        _ => return None,
    };
    if get(uc, R::IPSR) & NUMBER == 0 {
        return None;
    }
    let frame = u64::from(get(uc, R::SP));
    let xpsr = load(uc, frame + 0x1C)?;
    let back = load(uc, frame + 0x18)?;
    for (i, r) in STACKED.into_iter().enumerate() {
        set(uc, r, load(uc, frame + 4 * i as u64)?)?;
    }
    // What was never put there is in the registers still.
    if extended && load(uc, LAZY) == Some(0) {
        for (i, s) in SINGLES.into_iter().enumerate() {
            set(uc, s, load(uc, frame + 0x20 + 4 * i as u64)?)?;
        }
        set(uc, R::FPSCR, load(uc, frame + 0x60)?)?;
    }
    store(uc, LAZY, 0)?;
    let size = if extended { EXTENDED } else { BASIC };
    let realigned = if xpsr & REALIGNED != 0 { 4 } else { 0 };
    set(uc, R::SP, (frame as u32).checked_add(size + realigned)?)?;
    set(uc, R::IPSR, 0)?;
    set(uc, R::XPSR, xpsr & !REALIGNED & !NUMBER)?;
    store(uc, ICSR, 0)?;
    Some(u64::from(back | 1))
}
