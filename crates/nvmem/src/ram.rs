//! Media in RAM, for tests and host builds of firmware. They enforce their contract: misuse that a
//! real medium would refuse, or silently execute wrongly, returns an error.
//!
//! They do not simulate power cuts; the crate `powerfail` does. For a mapped medium in RAM, use a
//! [`Region`](crate::Region) in a buffer.

use crate::device::{Contract, EraseUnit, Medium, Misuse, Torn, check_range};

/// A medium of `N` bytes without erase, written in words of `WORD` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamDevice<const N: usize, const WORD: usize> {
    bytes: [u8; N],
    written: u64,
}

/// `N` bytes of serial FRAM: byte writes, a cut leaves a prefix.
pub type RamFram<const N: usize> = RamDevice<N, 1>;

/// `N` bytes of MRAM, programmed in words of 16 bytes.
pub type RamMram<const N: usize> = RamDevice<N, 16>;

impl<const N: usize, const WORD: usize> RamDevice<N, WORD> {
    /// A medium filled with this byte.
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

    /// The content, for tests that damage it.
    pub const fn bytes_mut(&mut self) -> &mut [u8; N] {
        &mut self.bytes
    }

    /// The number of bytes written so far.
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

/// NOR flash of `UNITS` erase units of `ERASE` bytes, programmed in words of `WORD` bytes. An
/// erased byte reads `ERASED`.
///
/// Writing a word twice without an erase is [`Misuse::NotErased`]. With `WRITE_ONCE` false, the
/// complement of `ERASED` may overwrite anything. Erases are counted and can be limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamNor<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8 = 0xFF,
    const WRITE_ONCE: bool = true,
> {
    bytes: [[u8; ERASE]; UNITS],
    programmed: [[bool; ERASE]; UNITS],
    wear: [u32; UNITS],
    endurance: u32,
}

impl<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8,
    const WRITE_ONCE: bool,
> Default for RamNor<UNITS, ERASE, WORD, ERASED, WRITE_ONCE>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8,
    const WRITE_ONCE: bool,
> RamNor<UNITS, ERASE, WORD, ERASED, WRITE_ONCE>
{
    /// A new flash, erased.
    pub const fn new() -> Self {
        RamNor {
            bytes: [[ERASED; ERASE]; UNITS],
            programmed: [[false; ERASE]; UNITS],
            wear: [0; UNITS],
            endurance: u32::MAX,
        }
    }

    /// Limits the number of erases per unit.
    #[must_use]
    pub const fn endurance(mut self, times: u32) -> Self {
        self.endurance = times;
        self
    }

    /// The content.
    pub const fn bytes(&self) -> &[u8] {
        self.bytes.as_flattened()
    }

    /// The content, for tests that damage it. Words changed here do not count as programmed.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_flattened_mut()
    }

    /// How often each unit was erased.
    pub const fn wear(&self) -> &[u32; UNITS] {
        &self.wear
    }
}

impl<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8,
    const WRITE_ONCE: bool,
> Medium for RamNor<UNITS, ERASE, WORD, ERASED, WRITE_ONCE>
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
                write_once: WRITE_ONCE,
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
        let overwrites = !WRITE_ONCE && bytes.iter().all(|b| *b == !ERASED);
        if programmed.contains(&true) && !overwrites {
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
