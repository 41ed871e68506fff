//! The machines that the rig knows.

use crate::image::Image;
use crate::machine::Machine;
use crate::msp430::Msp430;
use crate::unicorn::{
    arm::{Arm, ArmV6},
    riscv::RiscV,
};
use anyhow::{Result, bail};
use relume_suite::abi;

/// A machine with an image in it.
///
/// **Errors**: there is no machine of this name, or it refuses the image.
pub fn make(name: &str, image: Image) -> Result<Box<dyn Machine>> {
    Ok(match name {
        n if n == abi::ARM.name => Box::new(Arm::new(image)?),
        n if n == abi::ARMV6M.name => Box::new(ArmV6::new(image)?),
        n if n == abi::RISCV.name => Box::new(RiscV::new(image)?),
        n if n == abi::MSP430.name => Box::new(Msp430::new(image)?),
        _ => bail!("no machine `{name}`"),
    })
}
