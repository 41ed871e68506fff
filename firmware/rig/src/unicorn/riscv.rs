//! RV32IMC, and what Unicorn leaves to others: the interrupts of its CLINT.
//!
//! From the RISC-V Privileged Architecture, machine level: an interrupt is taken before an
//! instruction when it is pending in mip, enabled in mie, and mstatus.MIE is set; of two, the
//! software interrupt first. mepc, mcause and mstatus are written, and the handler begins at mtvec,
//! or in the vectored mode four bytes further for each number. The program's own mret ends it; what
//! is pending then is taken before the next instruction. A wfi goes on when an interrupt is pending
//! and enabled in mie.
//!
//! A program that reads mip finds 0 there.

use super::engine::{Engine, Exception, NOWHERE, Watch, error};
use super::{At, Emulated, Ended, Isa};
use crate::image::Image;
use crate::machine::{Garbage, Registers};
use crate::state::Log;
use anyhow::Result;
use capstone::prelude::*;
use relume_suite::abi;
use unicorn_engine::{Arch, Mode, RegisterRISCV as R, Unicorn};

/// In mstatus: interrupts are enabled, were enabled before the trap, and the mode before it.
const MIE: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MACHINE: u64 = 3 << 11;
/// In mie, in mip and in [`Watch::signals`]: the software interrupt and the timer's.
const SOFTWARE: u32 = 3;
const TIMER: u32 = 7;
/// In mcause: an interrupt.
const INTERRUPT: u64 = 1 << 31;
/// In mtvec: each interrupt has an entry of its own.
const VECTORED: u64 = 1;
/// Waits for an interrupt.
const WFI: u32 = 0x1050_0073;

/// The CLINT of hart 0: the software interrupt's bit, and when the timer's comes.
const MSIP: u64 = 0x0200_0000;
const MTIMECMP: u64 = 0x0200_4000;
/// The clock.
const MTIME: u64 = 0x0200_BFF8;
/// Instructions in a tick: 10 MHz, when an instruction takes a nanosecond as under QEMU's icount.
const TICK: u64 = 100;
/// Instructions that QEMU's virt executes before the program's first one.
const BOOT_ROM: u64 = 6;

/// What there is of the CLINT beside the values in its registers.
///
/// The clock counts instructions. At an instant it jumps to mtimecmp, unless it is there already.
/// By itself it makes no interrupt pending: that is what the list of instants is for. A store to
/// mtimecmp makes the interrupt pending, or no longer so, by what the clock then says.
#[derive(Debug, Default, Clone, Copy)]
pub struct Clint {
    /// Ticks that it has jumped.
    jumped: u64,
    /// mtimecmp was written since the reset. Until then there is no interrupt.
    armed: bool,
}

fn load(uc: &Unicorn<'_, Watch>, at: u64) -> u64 {
    let mut bytes = [0; 8];
    let _ = uc.mem_read(at, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn csr(uc: &Unicorn<'_, Watch>, r: R) -> u64 {
    uc.reg_read(r).unwrap_or(0)
}

/// What the clock says in the instruction that runs, as QEMU counts.
fn now(uc: &Unicorn<'_, Watch>) -> u64 {
    let w = uc.get_data();
    (w.ended() + 1 + BOOT_ROM) / TICK + w.clint.jumped
}

/// Takes an interrupt before the instruction at `back`. Where its handler begins.
fn enter(uc: &mut Unicorn<'_, Watch>, number: u32, back: u32) -> u64 {
    let status = csr(uc, R::MSTATUS);
    let before = if status & MIE != 0 { MPIE } else { 0 };
    let _ = uc.reg_write(R::MEPC, back.into());
    let _ = uc.reg_write(R::MCAUSE, INTERRUPT | u64::from(number));
    let _ = uc.reg_write(R::MTVAL, 0);
    let status = status & !(MIE | MPIE) | before | MACHINE;
    let _ = uc.reg_write(R::MSTATUS, status);
    let vector = csr(uc, R::MTVEC);
    match vector & 3 {
        VECTORED => (vector & !3) + 4 * u64::from(number),
        _ => vector & !3,
    }
}

/// The virt machine.
pub type RiscV = Emulated<Rv32>;

/// RV32IMC.
pub enum Rv32 {}

impl Isa for Rv32 {
    const MAP: &'static abi::Machine = &abi::RISCV;
    // The CLINT, if the mailbox asks for the timer.
    const PERIPHERALS: &'static [u64] = &[MSIP, MTIMECMP, 0x0200_B000];

    fn engine(watch: Watch) -> Result<Unicorn<'static, Watch>> {
        Unicorn::new_with_data(Arch::RISCV, Mode::RISCV32, watch).map_err(error)
    }

    fn reset(uc: &mut Unicorn<'static, Watch>, image: &Image, seed: u64) -> u64 {
        for i in 1..32 {
            let _ = uc.reg_write(R::X0 as i32 + i, Garbage::register(seed, i as u32).into());
        }
        image.entry.into()
    }

    fn length(first: u16) -> usize {
        if first & 3 == 3 { 4 } else { 2 }
    }

    fn settle(_: &Unicorn<'_, Watch>) {}

    fn unmasked(uc: &Unicorn<'_, Watch>) -> bool {
        uc.reg_read(R::MSTATUS).is_ok_and(|s| s & MIE != 0)
    }

    fn interrupt(e: &mut Engine, _: &Image, at: At, limit: u64, log: &mut Log) -> Ended {
        // What the core does; the trap ends with an mret, as the program has it.
        let trap = enter(&mut e.uc, TIMER, at.pc);
        e.resume(trap, NOWHERE, (at.ended, limit), log)
    }

    const CONTROLS: &'static [u64] = &[MSIP, MTIMECMP];
    const CLOCK: Option<u64> = Some(0x0200_B000);

    fn stored(uc: &mut Unicorn<'_, Watch>, at: u64, value: u32) {
        let bit = |on: bool, n: u32| u32::from(on) << n;
        let w = uc.get_data();
        match at {
            MSIP => {
                let w = uc.get_data_mut();
                w.signals = w.signals & !(1 << SOFTWARE) | bit(value & 1 != 0, SOFTWARE);
            }
            // Without detail there is no clock.
            MTIMECMP | 0x0200_4004 if w.detail() => {
                let shift = 8 * (at - MTIMECMP);
                let others = load(uc, MTIMECMP) & !(u64::from(u32::MAX) << shift);
                let due = now(uc) >= others | u64::from(value) << shift;
                let w = uc.get_data_mut();
                w.clint.armed = true;
                w.signals = w.signals & !(1 << TIMER) | bit(due, TIMER);
            }
            _ => {}
        }
    }

    fn loaded(uc: &mut Unicorn<'_, Watch>, at: u64) {
        if (MTIME..MTIME + 8).contains(&at) {
            let now = now(uc).to_le_bytes();
            let _ = uc.mem_write(MTIME, &now);
        }
    }

    fn elapse(uc: &mut Unicorn<'_, Watch>) {
        let (compared, now) = (load(uc, MTIMECMP), now(uc));
        let w = uc.get_data_mut();
        if w.clint.armed {
            w.clint.jumped += compared.saturating_sub(now);
            w.signals |= 1 << TIMER;
        }
    }

    fn wake(uc: &mut Unicorn<'_, Watch>) -> Option<u64> {
        let next = csr(uc, R::PC);
        let waited = next
            .checked_sub(4)
            .is_some_and(|at| load(uc, at) as u32 == WFI);
        if !waited {
            return None;
        }
        // Whether interrupts are enabled in mstatus makes no difference.
        while csr(uc, R::MIE) as u32 & uc.get_data().signals == 0 {
            if !uc.get_data_mut().next_instant() {
                return None;
            }
            Self::elapse(uc);
        }
        Some(next)
    }

    fn due(uc: &Unicorn<'_, Watch>) -> Option<u32> {
        let taken = csr(uc, R::MIE) as u32 & uc.get_data().signals;
        let enabled = csr(uc, R::MSTATUS) & MIE != 0;
        // The software interrupt comes before the timer's.
        let first = [SOFTWARE, TIMER].into_iter().find(|n| taken & 1 << n != 0);
        first.filter(|_| enabled)
    }

    fn exception(uc: &mut Unicorn<'_, Watch>, x: Exception) -> Option<u64> {
        match x {
            Exception::Pending(number) => {
                let back = uc.get_data().stopped_before();
                Some(enter(uc, number, back))
            }
            _ => None,
        }
    }

    fn traced(uc: &Unicorn<'_, Watch>) -> Registers {
        let mut out = [0; 40];
        for (i, r) in out[..32].iter_mut().enumerate() {
            *r = uc.reg_read(R::X0 as i32 + i as i32).unwrap_or(0) as u32;
        }
        let status = [R::PC, R::MSTATUS, R::MIE, R::MEPC, R::MCAUSE];
        for (to, r) in out[32..].iter_mut().zip(status) {
            *to = csr(uc, r) as u32;
        }
        // QEMU's mtimecmp is 0 until it is written, so that the timer's interrupt is pending.
        let w = uc.get_data();
        out[37] = w.signals | if w.clint.armed { 0 } else { 1 << TIMER };
        out
    }

    fn disassembler() -> CsResult<Capstone> {
        let mode = capstone::arch::riscv::ArchMode::RiscV32;
        let extra = [capstone::arch::riscv::ArchExtraMode::RiscVC];
        Capstone::new()
            .riscv()
            .mode(mode)
            .extra_mode(extra.into_iter())
            .build()
    }
}
