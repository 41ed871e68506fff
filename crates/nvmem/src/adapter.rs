//! Adapters to and from the flash traits of `embedded-storage` and `embedded-storage-async`.
//!
//! [`FromNor`] makes a [`Medium`] of a driver, [`ToNor`] a driver of a [`Medium`]. The `Storage`
//! traits have no adapter: they erase and rewrite whole pages implicitly, so a power cut can lose
//! data.

use crate::device::{Contract, EraseUnit, Medium, Misuse, Torn, check_range};
use embedded_storage::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};

#[cfg(feature = "embedded-storage-async")]
use crate::device::AsyncMedium;
#[cfg(feature = "embedded-storage-async")]
use embedded_storage_async::nor_flash as later;

/// A [`Medium`] on a `NorFlash` driver, blocking or async.
///
/// The traits guarantee little: after a cut all words of the write are undefined, and each word may
/// be written once. So this adapter states [`Torn::Unstable`]. `ERASED` is the value of an erased
/// byte. The traits require 0xFF, but some drivers (STM32L0, STM32L1) differ.
///
/// If the driver is a `MultiwriteNorFlash`, use [`FromNor::multiwrite`]: then words may be
/// overwritten with zeros, and [`Record`](crate::Record) needs far fewer erases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FromNor<F, const ERASED: u8 = 0xFF, const WRITE_ONCE: bool = true> {
    flash: F,
}

impl<F> FromNor<F> {
    /// Wraps a driver whose erased bytes read 0xFF.
    pub const fn new(flash: F) -> Self {
        FromNor { flash }
    }
}

impl<F: MultiwriteNorFlash> FromNor<F, 0xFF, false> {
    /// Wraps a driver whose words may be overwritten with zeros.
    pub const fn multiwrite(flash: F) -> Self {
        FromNor { flash }
    }
}

#[cfg(feature = "embedded-storage-async")]
impl<F: later::MultiwriteNorFlash> FromNor<F, 0xFF, false> {
    /// Wraps an async driver whose words may be overwritten with zeros.
    pub const fn multiwrite_async(flash: F) -> Self {
        FromNor { flash }
    }
}

impl<F, const ERASED: u8> FromNor<F, ERASED> {
    /// Wraps a driver whose erased bytes read `ERASED`.
    pub const fn with_erased(flash: F) -> Self {
        FromNor { flash }
    }
}

impl<F, const ERASED: u8, const WRITE_ONCE: bool> FromNor<F, ERASED, WRITE_ONCE> {
    /// Returns the driver.
    pub fn into_inner(self) -> F {
        self.flash
    }

    const fn contract(read: usize, write: usize, erase: usize) -> Contract {
        assert!(
            capped(read) as usize == read
                && capped(write) as usize == write
                && capped(erase) as usize == erase,
            "the driver's sizes have 32 bits"
        );
        let c = Contract {
            name: "nor-flash",
            read_size: read as u32,
            write_size: write as u32,
            unit: 1,
            torn: Torn::Unstable,
            erase: Some(EraseUnit {
                size: erase as u32,
                erased: ERASED,
                write_once: WRITE_ONCE,
                endurance: 0,
            }),
        };
        assert!(
            c.is_sound(),
            "the driver's sizes are not multiples of each other"
        );
        c
    }
}

const fn capped(capacity: usize) -> u32 {
    // In 64 bits: `usize` may have 16.
    if capacity as u64 > u32::MAX as u64 {
        u32::MAX
    } else {
        capacity as u32
    }
}

impl<F: NorFlash, const ERASED: u8, const WRITE_ONCE: bool> Medium
    for FromNor<F, ERASED, WRITE_ONCE>
{
    type Error = F::Error;
    const CONTRACT: Contract = Self::contract(F::READ_SIZE, F::WRITE_SIZE, F::ERASE_SIZE);

    fn capacity(&self) -> u32 {
        capped(self.flash.capacity())
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), F::Error> {
        self.flash.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), F::Error> {
        self.flash.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), F::Error> {
        self.flash.erase(from, to)
    }
}

#[cfg(feature = "embedded-storage-async")]
impl<F: later::NorFlash, const ERASED: u8, const WRITE_ONCE: bool> AsyncMedium
    for FromNor<F, ERASED, WRITE_ONCE>
{
    type Error = F::Error;
    const CONTRACT: Contract = Self::contract(F::READ_SIZE, F::WRITE_SIZE, F::ERASE_SIZE);

    fn capacity(&self) -> u32 {
        capped(self.flash.capacity())
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), F::Error> {
        self.flash.read(at, buf).await
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), F::Error> {
        self.flash.write(at, bytes).await
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), F::Error> {
        self.flash.erase(from, to).await
    }
}

/// An error of [`ToNor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ToNorError<E> {
    /// The arguments are outside the medium or misaligned.
    Arguments(Misuse),
    /// The medium's error.
    Medium(E),
}

impl<E: core::fmt::Debug> core::fmt::Display for ToNorError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ToNorError::Arguments(e) => write!(f, "bad arguments: {e}"),
            ToNorError::Medium(e) => write!(f, "the medium failed: {e:?}"),
        }
    }
}
impl<E: core::fmt::Debug> core::error::Error for ToNorError<E> {}

impl<E: core::fmt::Debug> NorFlashError for ToNorError<E> {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            ToNorError::Arguments(Misuse::OutOfRange) => NorFlashErrorKind::OutOfBounds,
            ToNorError::Arguments(Misuse::Misaligned) => NorFlashErrorKind::NotAligned,
            _ => NorFlashErrorKind::Other,
        }
    }
}

/// A `NorFlash` driver on a [`Medium`], blocking or async, with erase units of `ERASE` bytes.
///
/// The traits require that erased bytes read 0xFF. If the medium's read 0x00, the adapter inverts
/// all bits of reads and writes. On a medium without erase, an erase writes 0xFF. `ERASE` is a
/// multiple of the medium's own erase and write size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToNor<D, const ERASE: usize> {
    medium: D,
}

/// The largest program word that the adapter can invert.
const CHUNK: usize = 256;

impl<D, const ERASE: usize> ToNor<D, ERASE> {
    /// Wraps a medium.
    pub const fn new(medium: D) -> Self {
        ToNor { medium }
    }

    /// Returns the medium.
    pub fn into_inner(self) -> D {
        self.medium
    }

    const fn checked(c: Contract) -> Contract {
        assert!(
            c.is_sound()
                && ERASE > 0
                && capped(ERASE) as usize == ERASE
                && (ERASE as u32).is_multiple_of(c.erase_size())
                && (ERASE as u32).is_multiple_of(c.write_size)
                && CHUNK.is_multiple_of(c.write_size as usize),
            "ERASE is a multiple of the medium's erase and write sizes, its program word at most 256 bytes"
        );
        c
    }
}

/// The value to XOR each byte with, so that erased bytes read 0xFF.
const fn flip(c: &Contract) -> u8 {
    match &c.erase {
        Some(e) => e.erased ^ 0xFF,
        None => 0,
    }
}

/// Runs `write` on chunks of `bytes` of at most [`CHUNK`] bytes, each byte XORed with `flip`.
macro_rules! in_chunks {
    ($at:expr, $bytes:expr, $flip:expr, |$to:ident, $piece:ident| $write:expr) => {{
        let mut $to = $at;
        for piece in $bytes.chunks(CHUNK) {
            let mut buf = [0; CHUNK];
            for (b, from) in buf.iter_mut().zip(piece) {
                *b = from ^ $flip;
            }
            let $piece = &buf[..piece.len()];
            $write.map_err(ToNorError::Medium)?;
            $to += piece.len() as u32;
        }
        Ok(())
    }};
}

fn arguments<E>(r: Result<(), Misuse>) -> Result<(), ToNorError<E>> {
    r.map_err(ToNorError::Arguments)
}

fn erase_arguments<E>(from: u32, to: u32, size: usize, capacity: u32) -> Result<(), ToNorError<E>> {
    let Some(len) = to.checked_sub(from) else {
        return Err(ToNorError::Arguments(Misuse::OutOfRange));
    };
    arguments(check_range(from, len as usize, size as u32, capacity))
}

impl<D: Medium, const ERASE: usize> ErrorType for ToNor<D, ERASE> {
    type Error = ToNorError<D::Error>;
}

impl<D: Medium, const ERASE: usize> ReadNorFlash for ToNor<D, ERASE> {
    const READ_SIZE: usize = Self::checked(D::CONTRACT).read_size as usize;

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        let c = D::CONTRACT;
        arguments(check_range(
            at,
            buf.len(),
            c.read_size,
            self.medium.capacity(),
        ))?;
        self.medium.read(at, buf).map_err(ToNorError::Medium)?;
        buf.iter_mut().for_each(|b| *b ^= flip(&c));
        Ok(())
    }

    fn capacity(&self) -> usize {
        usize::try_from(self.medium.capacity()).unwrap_or(usize::MAX)
    }
}

impl<D: Medium, const ERASE: usize> NorFlash for ToNor<D, ERASE> {
    const WRITE_SIZE: usize = Self::checked(D::CONTRACT).write_size as usize;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        erase_arguments(from, to, ERASE, self.medium.capacity())?;
        if D::CONTRACT.erase.is_some() {
            return self.medium.erase(from, to).map_err(ToNorError::Medium);
        }
        let mut at = from;
        while at < to {
            let n = (to - at).min(CHUNK as u32);
            self.medium
                .write(at, &[0xFF; CHUNK][..n as usize])
                .map_err(ToNorError::Medium)?;
            at += n;
        }
        self.medium.flush().map_err(ToNorError::Medium)
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        let c = D::CONTRACT;
        arguments(check_range(
            at,
            bytes.len(),
            c.write_size,
            self.medium.capacity(),
        ))?;
        let done: Result<(), Self::Error> = in_chunks!(at, bytes, flip(&c), |to, piece| self
            .medium
            .write(to, piece));
        done?;
        self.medium.flush().map_err(ToNorError::Medium)
    }
}

/// [`ToNor`] on an [`AsyncMedium`].
#[cfg(feature = "embedded-storage-async")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToAsyncNor<D, const ERASE: usize> {
    inner: ToNor<D, ERASE>,
}

#[cfg(feature = "embedded-storage-async")]
impl<D, const ERASE: usize> ToAsyncNor<D, ERASE> {
    /// Wraps a medium.
    pub const fn new(medium: D) -> Self {
        ToAsyncNor {
            inner: ToNor::new(medium),
        }
    }

    /// Returns the medium.
    pub fn into_inner(self) -> D {
        self.inner.medium
    }
}

#[cfg(feature = "embedded-storage-async")]
impl<D: AsyncMedium, const ERASE: usize> ErrorType for ToAsyncNor<D, ERASE> {
    type Error = ToNorError<D::Error>;
}

#[cfg(feature = "embedded-storage-async")]
impl<D: AsyncMedium, const ERASE: usize> later::ReadNorFlash for ToAsyncNor<D, ERASE> {
    const READ_SIZE: usize = ToNor::<D, ERASE>::checked(D::CONTRACT).read_size as usize;

    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        let (c, medium) = (D::CONTRACT, &mut self.inner.medium);
        arguments(check_range(at, buf.len(), c.read_size, medium.capacity()))?;
        medium.read(at, buf).await.map_err(ToNorError::Medium)?;
        buf.iter_mut().for_each(|b| *b ^= flip(&c));
        Ok(())
    }

    fn capacity(&self) -> usize {
        usize::try_from(self.inner.medium.capacity()).unwrap_or(usize::MAX)
    }
}

#[cfg(feature = "embedded-storage-async")]
impl<D: AsyncMedium, const ERASE: usize> later::NorFlash for ToAsyncNor<D, ERASE> {
    const WRITE_SIZE: usize = ToNor::<D, ERASE>::checked(D::CONTRACT).write_size as usize;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        let medium = &mut self.inner.medium;
        erase_arguments(from, to, ERASE, medium.capacity())?;
        if D::CONTRACT.erase.is_some() {
            return medium.erase(from, to).await.map_err(ToNorError::Medium);
        }
        let mut at = from;
        while at < to {
            let n = (to - at).min(CHUNK as u32);
            let blank = &[0xFF; CHUNK][..n as usize];
            medium.write(at, blank).await.map_err(ToNorError::Medium)?;
            at += n;
        }
        medium.flush().await.map_err(ToNorError::Medium)
    }

    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        let (c, medium) = (D::CONTRACT, &mut self.inner.medium);
        arguments(check_range(
            at,
            bytes.len(),
            c.write_size,
            medium.capacity(),
        ))?;
        let done: Result<(), Self::Error> = in_chunks!(at, bytes, flip(&c), |to, piece| medium
            .write(to, piece)
            .await);
        done?;
        medium.flush().await.map_err(ToNorError::Medium)
    }
}
