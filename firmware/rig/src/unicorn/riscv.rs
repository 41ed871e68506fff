//! RV32IMC.

use super::engine::{Watch, error};
use super::{Emulated, Isa};
use crate::image::Image;
use crate::machine::Garbage;
use anyhow::Result;
use capstone::prelude::*;
use relume_suite::abi;
use unicorn_engine::{Arch, Mode, RegisterRISCV as R, Unicorn};

/// The virt machine.
pub type RiscV = Emulated<Rv32>;

/// RV32IMC.
pub enum Rv32 {}

impl Isa for Rv32 {
    const MAP: &'static abi::Machine = &abi::RISCV;
    const PERIPHERALS: &'static [u64] = &[];

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
