//! One function for each "yes" of `docs/matrix.toml`, named `need_memory_mode`: it opens the thing
//! on that memory and uses it once. That it compiles is the check; nothing calls it.
//!
//! ```text
//! fram      Region in units of 2 bytes, as an MSP430FR has       serial  spi_fram on embedded-hal
//! retained  Region in units of 4 bytes                           nor     embedded-storage, words
//! mram16    a medium in words of 16 bytes                                written once
//!                                                                spinor  the same, several times
//! ```
//!
//! A test of xtask compares the names with the matrix, both ways.
#![no_std]
#![allow(missing_docs)] // The names say it.

mod uses;

use core::mem::MaybeUninit;
use embedded_hal::spi::SpiDevice;
use embedded_hal_async::spi::SpiDevice as AsyncSpiDevice;
use embedded_storage::nor_flash::{MultiwriteNorFlash, NorFlash};
use embedded_storage_async::nor_flash::{
    MultiwriteNorFlash as AsyncMultiwriteNorFlash, NorFlash as AsyncNorFlash,
};
use nvmem::adapter::FromNor;
use nvmem::{InOrder16, InOrder32, Region, Trusted, ram::RamMram};
use spi_fram::{AsyncSpiFram, SpiFram};
use uses::{Area, Done, Preempting};

/// Mapped FRAM.
pub type Fram<'m> = Region<'m, InOrder16>;
/// Retained RAM.
pub type Retained<'m> = Region<'m, InOrder32>;
/// MRAM in words of 16 bytes.
pub type Mram = RamMram<8192>;
/// SPI NOR flash.
pub type SpiNor<F> = FromNor<F, 0xFF, false>;
/// RAM for a region and its shadow.
pub type Ram = [MaybeUninit<u64>];

// A few values.

pub fn keep_fram_blocking(m: Fram<'_>) -> Done {
    uses::keep(m, 0..256)
}
pub fn keep_retained_blocking(m: Retained<'_>) -> Done {
    uses::keep(m, 0..256)
}
pub fn keep_mram16_blocking(m: Mram) -> Done {
    uses::keep(m, 0..256)
}
pub async fn keep_mram16_async(mut m: Mram) -> Done {
    uses::keep_async(uses::Waits(&mut m), 0..256).await
}
pub fn keep_serial_blocking<S: SpiDevice>(m: SpiFram<S>) -> Done {
    uses::keep(m, 0..256)
}
pub async fn keep_serial_async<S: AsyncSpiDevice>(m: AsyncSpiFram<S>) -> Done {
    uses::keep_async(m, 0..256).await
}
pub fn keep_nor_blocking<F: NorFlash>(m: F, area: Area) -> Done {
    uses::keep(FromNor::new(m), area)
}
pub async fn keep_nor_async<F: AsyncNorFlash>(m: F, area: Area) -> Done {
    uses::keep_async(FromNor::new(m), area).await
}
pub fn keep_spinor_blocking<F: MultiwriteNorFlash>(m: F, area: Area) -> Done {
    uses::keep(FromNor::multiwrite(m), area)
}
pub async fn keep_spinor_async<F: AsyncMultiwriteNorFlash>(m: F, area: Area) -> Done {
    uses::keep_async(FromNor::multiwrite_async(m), area).await
}

// Transactions.

pub fn transactions_fram_blocking(m: Fram<'_>) -> Done {
    uses::transactions(m)
}
pub fn transactions_fram_threads(m: Region<'_, Preempting<InOrder16>>) -> Done {
    uses::transactions_threads(m)
}
pub fn transactions_retained_blocking(m: Retained<'_>) -> Done {
    uses::transactions(m)
}
pub fn transactions_retained_threads(m: Region<'_, Preempting<InOrder32>>) -> Done {
    uses::transactions_threads(m)
}
pub fn transactions_mram16_blocking(m: Mram, ram: &mut Ram) -> Done {
    uses::transactions_mirror(m, 0..8192, ram)
}
pub async fn transactions_mram16_async(mut m: Mram, ram: &mut Ram) -> Done {
    uses::transactions_mirror_async(uses::Waits(&mut m), 0..8192, ram).await
}
pub fn transactions_serial_blocking<S: SpiDevice>(m: SpiFram<S>, ram: &mut Ram) -> Done {
    uses::transactions_mirror(m, 0..8192, ram)
}
pub async fn transactions_serial_async<S: AsyncSpiDevice>(
    m: AsyncSpiFram<S>,
    ram: &mut Ram,
) -> Done {
    uses::transactions_mirror_async(m, 0..8192, ram).await
}
pub fn transactions_nor_blocking<F: NorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::transactions_mirror(FromNor::new(m), area, ram)
}
pub async fn transactions_nor_async<F: AsyncNorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::transactions_mirror_async(FromNor::new(m), area, ram).await
}
pub fn transactions_spinor_blocking<F: MultiwriteNorFlash>(
    m: F,
    area: Area,
    ram: &mut Ram,
) -> Done {
    uses::transactions_mirror(FromNor::multiwrite(m), area, ram)
}
pub async fn transactions_spinor_async<F: AsyncMultiwriteNorFlash>(
    m: F,
    area: Area,
    ram: &mut Ram,
) -> Done {
    uses::transactions_mirror_async(FromNor::multiwrite_async(m), area, ram).await
}

// A program that goes on.

pub fn program_fram_blocking(m: Fram<'_>) -> Done {
    uses::program(m)
}
pub async fn program_fram_async(m: Fram<'_>) -> Done {
    uses::program_async(m).await
}
pub fn program_fram_threads(m: Region<'_, Preempting<InOrder16>>) -> Done {
    uses::program_threads(m)
}
pub fn program_retained_blocking(m: Retained<'_>) -> Done {
    uses::program(m)
}
pub async fn program_retained_async(m: Retained<'_>) -> Done {
    uses::program_async(m).await
}
pub fn program_retained_threads(m: Region<'_, Preempting<InOrder32>>) -> Done {
    uses::program_threads(m)
}
pub fn program_mram16_blocking(m: Mram, ram: &mut Ram) -> Done {
    uses::program_mirror(m, 0..8192, ram)
}
pub async fn program_mram16_async(mut m: Mram, ram: &mut Ram) -> Done {
    uses::program_mirror_async(uses::Waits(&mut m), 0..8192, ram).await
}
pub fn program_mram16_threads(m: Mram, ram: &mut Ram) -> Done {
    uses::program_mirror_threads(m, 0..8192, ram)
}
pub fn program_serial_blocking<S: SpiDevice>(m: SpiFram<S>, ram: &mut Ram) -> Done {
    uses::program_mirror(m, 0..8192, ram)
}
pub async fn program_serial_async<S: AsyncSpiDevice>(m: AsyncSpiFram<S>, ram: &mut Ram) -> Done {
    uses::program_mirror_async(m, 0..8192, ram).await
}
pub fn program_serial_threads<S: SpiDevice>(m: SpiFram<S>, ram: &mut Ram) -> Done {
    uses::program_mirror_threads(m, 0..8192, ram)
}
pub fn program_nor_blocking<F: NorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::program_mirror(FromNor::new(m), area, ram)
}
pub async fn program_nor_async<F: AsyncNorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::program_mirror_async(FromNor::new(m), area, ram).await
}
pub fn program_nor_threads<F: NorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::program_mirror_threads(FromNor::new(m), area, ram)
}
pub fn program_spinor_blocking<F: MultiwriteNorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::program_mirror(FromNor::multiwrite(m), area, ram)
}
pub async fn program_spinor_async<F: AsyncMultiwriteNorFlash>(
    m: F,
    area: Area,
    ram: &mut Ram,
) -> Done {
    uses::program_mirror_async(FromNor::multiwrite_async(m), area, ram).await
}
pub fn program_spinor_threads<F: MultiwriteNorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::program_mirror_threads(FromNor::multiwrite(m), area, ram)
}

// Lists and queues.

pub fn lists_fram_blocking(m: Fram<'_>) -> Done {
    uses::lists(m)
}
pub fn lists_fram_threads(m: Fram<'_>) -> Done {
    uses::lists_threads(m)
}
pub fn lists_retained_blocking(m: Retained<'_>) -> Done {
    uses::lists(m)
}
pub fn lists_retained_threads(m: Retained<'_>) -> Done {
    uses::lists_threads(m)
}
pub fn lists_mram16_blocking(m: Mram, ram: &mut Ram) -> Done {
    uses::lists_mirror(m, 0..8192, ram)
}
pub fn lists_serial_blocking<S: SpiDevice>(m: SpiFram<S>, ram: &mut Ram) -> Done {
    uses::lists_mirror(m, 0..8192, ram)
}
pub fn lists_nor_blocking<F: NorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::lists_mirror(FromNor::new(m), area, ram)
}
pub fn lists_spinor_blocking<F: MultiwriteNorFlash>(m: F, area: Area, ram: &mut Ram) -> Done {
    uses::lists_mirror(FromNor::multiwrite(m), area, ram)
}

// A heap larger than RAM.

pub fn heap_fram_blocking(m: Fram<'_>, ram: &mut [u8]) -> Done {
    uses::heap(m, ram)
}
pub fn heap_retained_blocking(m: Retained<'_>, ram: &mut [u8]) -> Done {
    uses::heap(m, ram)
}
pub fn heap_serial_blocking<S: SpiDevice>(m: Trusted<SpiFram<S>>, ram: &mut [u8]) -> Done {
    uses::heap(m, ram)
}
pub fn heap_nor_blocking<F: NorFlash>(
    m: Trusted<FromNor<F>>,
    table: &mut [u16],
    ram: &mut [u8],
) -> Done {
    uses::heap_levelled(m, table, ram)
}
pub fn heap_spinor_blocking<F: MultiwriteNorFlash>(
    m: Trusted<SpiNor<F>>,
    table: &mut [u16],
    ram: &mut [u8],
) -> Done {
    uses::heap_levelled(m, table, ram)
}

// Images of an ordinary program.

pub fn image_fram_blocking(m: Fram<'_>) -> Done {
    uses::image(m, 0..4096)
}
pub fn image_retained_blocking(m: Retained<'_>) -> Done {
    uses::image(m, 0..4096)
}
pub fn image_mram16_blocking(m: Mram) -> Done {
    uses::image(m, 0..4096)
}
pub fn image_serial_blocking<S: SpiDevice>(m: SpiFram<S>) -> Done {
    uses::image(m, 0..4096)
}
pub fn image_nor_blocking<F: NorFlash>(m: F, area: Area) -> Done {
    uses::image(FromNor::new(m), area)
}
pub fn image_spinor_blocking<F: MultiwriteNorFlash>(m: F, area: Area) -> Done {
    uses::image(FromNor::multiwrite(m), area)
}

// A kernel's threads.

pub fn kernel_fram_threads(m: Region<'_, Preempting<InOrder16>>) -> Done {
    uses::kernel16::open(m)
}
pub fn kernel_retained_threads(m: Region<'_, Preempting<InOrder32>>) -> Done {
    uses::kernel32::open(m)
}

// Devices with drivers.

pub fn devices_fram_blocking(m: Fram<'_>) -> Done {
    uses::devices(m)
}
pub async fn devices_fram_async(m: Fram<'_>) -> Done {
    uses::devices_async(m).await
}
pub fn devices_fram_threads(m: Region<'_, Preempting<InOrder16>>) -> Done {
    uses::kernel16::devices(m)
}
pub fn devices_retained_blocking(m: Retained<'_>) -> Done {
    uses::devices(m)
}
pub async fn devices_retained_async(m: Retained<'_>) -> Done {
    uses::devices_async(m).await
}
pub fn devices_retained_threads(m: Region<'_, Preempting<InOrder32>>) -> Done {
    uses::kernel32::devices(m)
}
