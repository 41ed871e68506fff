//! Media in RAM, for tests and for firmware that is built for a host. They keep the contract that they state: what a
//! real medium would refuse, or silently do wrong, is an error value.
//!
//! No cut happens here; that is what the crate `powerfail` is for. Mapped media in RAM are a
//! [`Region`](crate::Region) in a buffer.

use crate::device::{Contract, EraseUnit, Medium, Misuse, Torn, check_range};

/// A medium of `N` bytes without erase, written by `WORD` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamDevice<const N: usize, const WORD: usize> {
    bytes: [u8; N],
    written: u64,
}

/// `N` bytes of serial FRAM: any byte, any prefix of a burst.
pub type RamFram<const N: usize> = RamDevice<N, 1>;

/// `N` bytes of MRAM that is programmed by 16.
pub type RamMram<const N: usize> = RamDevice<N, 16>;

impl<const N: usize, const WORD: usize> RamDevice<N, WORD> {
    /// With this byte everywhere.
    pub const fn filled(byte: u8) -> Self {
        RamDevice {
            bytes: [byte; N],
            written: 0,
        }
    }

    /// The content.
    pub const fn bytes(&self) -> &[u8; N] {
        &self.bytes
    }

    /// The content, to be damaged.
    pub const fn bytes_mut(&mut self) -> &mut [u8; N] {
        &mut self.bytes
    }

    /// How many bytes were written so far.
    pub const fn bytes_written(&self) -> u64 {
        self.written
    }
}

impl<const N: usize, const WORD: usize> Medium for RamDevice<N, WORD> {
    type Error = Misuse;

    const CONTRACT: Contract = {
        assert!(WORD > 0 && N.is_multiple_of(WORD) && N <= u32::MAX as usize);
        Contract {
            name: if WORD == 1 { "ram-bytes" } else { "ram-words" },
            read_size: 1,
            write_size: WORD as u32,
            unit: 1,
            torn: if WORD == 1 {
                Torn::Prefix
            } else {
                Torn::Arbitrary
            },
            erase: None,
        }
    };

    fn capacity(&self) -> u32 {
        N as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), 1, self.capacity())?;
        buf.copy_from_slice(&self.bytes[at as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        check_range(at, bytes.len(), WORD as u32, self.capacity())?;
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        check_range(
            from,
            to.saturating_sub(from) as usize,
            WORD as u32,
            self.capacity(),
        )
    }
}

/// NOR flash of `UNITS` erase units of `ERASE` bytes, programmed once by `WORD` bytes, with this erased value.
///
/// A word written twice is [`Misuse::NotErased`], whatever is written. Erases are counted, and may be limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamNor<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8 = 0xFF,
> {
    bytes: [[u8; ERASE]; UNITS],
    programmed: [[bool; ERASE]; UNITS],
    wear: [u32; UNITS],
    endurance: u32,
}

impl<const UNITS: usize, const ERASE: usize, const WORD: usize, const ERASED: u8> Default
    for RamNor<UNITS, ERASE, WORD, ERASED>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const UNITS: usize, const ERASE: usize, const WORD: usize, const ERASED: u8>
    RamNor<UNITS, ERASE, WORD, ERASED>
{
    /// Erased and unworn.
    pub const fn new() -> Self {
        RamNor {
            bytes: [[ERASED; ERASE]; UNITS],
            programmed: [[false; ERASE]; UNITS],
            wear: [0; UNITS],
            endurance: u32::MAX,
        }
    }

    /// Each unit can be erased `times` times.
    #[must_use]
    pub const fn endurance(mut self, times: u32) -> Self {
        self.endurance = times;
        self
    }

    /// The content.
    pub const fn bytes(&self) -> &[u8] {
        self.bytes.as_flattened()
    }

    /// The content, to be damaged: what is written here does not count as programmed.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_flattened_mut()
    }

    /// How often each unit was erased.
    pub const fn wear(&self) -> &[u32; UNITS] {
        &self.wear
    }
}

impl<const UNITS: usize, const ERASE: usize, const WORD: usize, const ERASED: u8> Medium
    for RamNor<UNITS, ERASE, WORD, ERASED>
{
    type Error = Misuse;

    const CONTRACT: Contract = {
        assert!(WORD > 0 && ERASE > 0 && ERASE.is_multiple_of(WORD));
        assert!(UNITS * ERASE <= u32::MAX as usize);
        Contract {
            name: "ram-nor",
            read_size: 1,
            write_size: WORD as u32,
            unit: 1,
            torn: Torn::Unstable,
            erase: Some(EraseUnit {
                size: ERASE as u32,
                erased: ERASED,
                write_once: true,
                endurance: 0,
            }),
        }
    };

    fn capacity(&self) -> u32 {
        (UNITS * ERASE) as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), 1, self.capacity())?;
        buf.copy_from_slice(&self.bytes()[at as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        check_range(at, bytes.len(), WORD as u32, self.capacity())?;
        let programmed = &mut self.programmed.as_flattened_mut()[at as usize..][..bytes.len()];
        if programmed.contains(&true) {
            return Err(Misuse::NotErased);
        }
        programmed.fill(true);
        self.bytes_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        let Some(len) = to.checked_sub(from) else {
            return Err(Misuse::OutOfRange);
        };
        check_range(from, len as usize, ERASE as u32, self.capacity())?;
        for unit in from as usize / ERASE..to as usize / ERASE {
            if self.wear[unit] >= self.endurance {
                return Err(Misuse::WornOut);
            }
            self.wear[unit] += 1;
            self.bytes[unit] = [ERASED; ERASE];
            self.programmed[unit] = [false; ERASE];
        }
        Ok(())
    }
}
