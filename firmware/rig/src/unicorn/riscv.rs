//! RV32IMC.

use super::engine::{Engine, NOWHERE, Watch, error};
use super::{At, Emulated, Ended, Isa};
use crate::image::Image;
use crate::machine::Garbage;
use crate::state::Log;
use anyhow::Result;
use capstone::prelude::*;
use relume_suite::abi;
use unicorn_engine::{Arch, Mode, RegisterRISCV as R, Unicorn};

/// Interrupts are enabled, were enabled before the trap, and the mode before it.
const MIE: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MACHINE: u64 = 3 << 11;
/// The machine timer's interrupt, as a cause.
const TIMER: u64 = 0x8000_0007;

/// The virt machine.
pub type RiscV = Emulated<Rv32>;

/// RV32IMC.
pub enum Rv32 {}

impl Isa for Rv32 {
    const MAP: &'static abi::Machine = &abi::RISCV;
    // The CLINT, if the mailbox asks for the timer.
    const PERIPHERALS: &'static [u64] = &[0x0200_4000, 0x0200_B000];

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
        let uc = &mut e.uc;
        let status = uc.reg_read(R::MSTATUS).unwrap_or(0);
        let _ = uc.reg_write(R::MEPC, at.pc.into());
        let _ = uc.reg_write(R::MCAUSE, TIMER);
        let _ = uc.reg_write(R::MSTATUS, status & !MIE | MPIE | MACHINE);
        let trap = uc.reg_read(R::MTVEC).unwrap_or(0);
        e.resume(trap, NOWHERE, (at.ended, limit), log)
    }

    const TIMER: u32 = 0;

    fn due(_: &Unicorn<'_, Watch>) -> Option<u32> {
        None
    }

    fn traced(_: &Unicorn<'_, Watch>) -> [u32; 17] {
        [0; 17]
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
