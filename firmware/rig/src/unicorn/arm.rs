//! Cortex-M4 and Cortex-M0.

use super::armv7m as exceptions;
use super::engine::{Engine, Exception, NOWHERE, Watch, error};
use super::{At, Emulated, Ended, Isa, stopped};
use crate::image::Image;
use crate::machine::{Garbage, Registers};
use crate::state::Log;
use anyhow::Result;
use capstone::prelude::*;
use relume_suite::abi;
use unicorn_engine::{Arch, ArmCpuModel, Mode, RegisterARM as R, Unicorn};

/// The mps2-an386 machine.
pub type Arm = Emulated<CortexM<false>>;
/// The same with a Cortex-M0, for which any instruction that ARMv6-M does not have is undefined.
pub type ArmV6 = Emulated<CortexM<true>>;

/// Cortex-M4, or Cortex-M0.
pub enum CortexM<const V6: bool> {}

const GENERAL: [R; 14] = [
    R::R0,
    R::R1,
    R::R2,
    R::R3,
    R::R4,
    R::R5,
    R::R6,
    R::R7,
    R::R8,
    R::R9,
    R::R10,
    R::R11,
    R::R12,
    R::LR,
];

/// Cortex-M4 r0p1.
const CPUID: u32 = 0x410F_C241;
/// Cortex-M0 r0p0.
const CPUID_M0: u32 = 0x410C_C200;

fn vector(image: &Image, i: usize) -> u32 {
    let vectors = image.segments.iter().find(|s| s.0 == abi::ARM.code);
    let bytes = vectors.and_then(|s| s.1.get(4 * i..4 * i + 4));
    bytes.map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

impl<const V6: bool> Isa for CortexM<V6> {
    const MAP: &'static abi::Machine = if V6 { &abi::ARMV6M } else { &abi::ARM };
    // The system control space: start-up switches the FPU on.
    const PERIPHERALS: &'static [u64] = &[0xE000_E000];

    fn engine(watch: Watch) -> Result<Unicorn<'static, Watch>> {
        let mode = Mode::THUMB | Mode::MCLASS;
        let mut uc = Unicorn::new_with_data(Arch::ARM, mode, watch).map_err(error)?;
        let model = if V6 {
            ArmCpuModel::CORTEX_M0
        } else {
            ArmCpuModel::CORTEX_M4
        };
        uc.ctl_set_cpu_model(model as i32).map_err(error)?;
        Ok(uc)
    }

    fn reset(uc: &mut Unicorn<'static, Watch>, image: &Image, seed: u64) -> u64 {
        for (i, r) in GENERAL.iter().enumerate() {
            let _ = uc.reg_write(*r, Garbage::register(seed, i as u32).into());
        }
        // The flags.
        let _ = uc.reg_write(
            R::APSR_NZCVQ,
            u64::from(Garbage::register(seed, 99) & 0xF800_0000),
        );
        if seed == crate::machine::ZERO {
            // As QEMU has it.
            let _ = uc.reg_write(R::LR, 0xFFFF_FFFF);
            let _ = uc.reg_write(R::APSR_NZCVQ, 1 << 30);
        }
        let _ = uc.reg_write(R::SP, vector(image, 0).into());
        exceptions::reset(uc, if V6 { CPUID_M0 } else { CPUID });
        (vector(image, 1) | 1).into()
    }

    fn length(first: u16) -> usize {
        if first >= 0xE800 { 4 } else { 2 }
    }

    fn settle(uc: &Unicorn<'_, Watch>) {
        // Before it calls the hook, Unicorn stores how far the core is in an if-then block, and
        // does not clear that at the block's end: the code after it would run under a condition
        // that is over. What runs now has its conditions compiled in.
        const THUMB: u32 = 1 << 24;
        let _ = uc.reg_write_long(R::EPSR, &THUMB.to_le_bytes());
    }

    fn unmasked(uc: &Unicorn<'_, Watch>) -> bool {
        const ENABLE_AND_INTERRUPT: u32 = 3;
        // SysTick says whether it may interrupt at all.
        let mut control = [0; 4];
        let on = uc.mem_read(0xE000_E010, &mut control).is_ok()
            && u32::from_le_bytes(control) & ENABLE_AND_INTERRUPT == ENABLE_AND_INTERRUPT;
        on && uc.reg_read(R::PRIMASK).is_ok_and(|m| m & 1 == 0)
    }

    fn interrupt(e: &mut Engine, _: &Image, at: At, limit: u64, log: &mut Log) -> Ended {
        // Not what the hook saw: an if-then block is gone through to its end.
        let back = e.uc.reg_read(R::PC).map_or(at.pc, |pc| pc as u32 & !1);
        let handler = exceptions::enter(&mut e.uc, exceptions::TIMER.trailing_zeros(), back, true);
        match handler {
            Some(handler) => e.resume(handler, NOWHERE, (at.ended, limit), log),
            None => (stopped(at.pc), at.ended, at.pc),
        }
    }

    const CONTROLS: &'static [u64] = &[0xE000_E000];

    fn stored(uc: &mut Unicorn<'_, Watch>, at: u64, value: u32) {
        exceptions::stored(uc.get_data_mut(), at, value);
    }

    fn elapse(uc: &mut Unicorn<'_, Watch>) {
        uc.get_data_mut().signals |= exceptions::TIMER;
    }

    fn due(uc: &Unicorn<'_, Watch>) -> Option<u32> {
        exceptions::due(uc)
    }

    fn traced(uc: &Unicorn<'_, Watch>) -> Registers {
        let all = [&GENERAL[..13], &[R::SP, R::LR, R::PC, R::XPSR]].concat();
        let read = |r: &R| uc.reg_read(*r).map_or(0, |v| v as u32);
        std::array::from_fn(|i| all.get(i).map_or(0, read))
    }

    fn trapped(number: u32) -> Option<Exception> {
        match number {
            exceptions::SWI => Some(Exception::Call),
            exceptions::EXIT => Some(Exception::Return(0)),
            n if n >= exceptions::RETURN => Some(Exception::Return(n)),
            _ => None,
        }
    }

    fn exception(uc: &mut Unicorn<'_, Watch>, x: Exception) -> Option<u64> {
        exceptions::take(uc, x)
    }

    fn fetched(uc: &mut Unicorn<'_, Watch>, at: u32) {
        exceptions::flush(uc, at);
    }

    fn disassembler() -> CsResult<Capstone> {
        let mode = capstone::arch::arm::ArchMode::Thumb;
        let extra = [capstone::arch::arm::ArchExtraMode::MClass];
        Capstone::new()
            .arm()
            .mode(mode)
            .extra_mode(extra.into_iter())
            .build()
    }
}
