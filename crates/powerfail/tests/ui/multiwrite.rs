//! A word of an STM32L1's flash is written once between two erases.
use embedded_storage::nor_flash::MultiwriteNorFlash;
use powerfail::{Nor, World, explore};

fn twice<F: MultiwriteNorFlash>(_: F) {}

fn main() {
    explore(Nor::stm32l1(), |nv, _: &World<()>| twice(nv)).run();
}
