//! The program's access to a simulated device: `nvmem`'s medium traits and those of
//! embedded-storage.

use crate::chip::{Chip, Multiwrite};
use crate::observe::Recorder;
use crate::torn::{EraseTear, Tear};
use embedded_storage::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use nvmem::device::{AsyncMedium, Contract, Medium, Misuse, Torn, check_range};
use nvmem::planted;
use std::marker::PhantomData;

/// Access to a simulated device during one run.
pub struct Device<'r, C> {
    rec: &'r Recorder,
    at: u32,
    len: u32,
    _c: PhantomData<fn() -> C>,
}

/// A call that breaks the device's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misused(pub Misuse);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Misused {}

impl NorFlashError for Misused {
    fn kind(&self) -> NorFlashErrorKind {
        match self.0 {
            Misuse::OutOfRange => NorFlashErrorKind::OutOfBounds,
            Misuse::Misaligned => NorFlashErrorKind::NotAligned,
            _ => NorFlashErrorKind::Other,
        }
    }
}

impl<'r, C: Chip> Device<'r, C> {
    pub(crate) fn new(rec: &'r Recorder, at: u32, len: u32) -> Self {
        Device {
            rec,
            at,
            len,
            _c: PhantomData,
        }
    }

    fn get(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misused> {
        let n = buf.len();
        self.checked("read", at, n, C::CONTRACT.read_size)?;
        self.rec.0.borrow_mut().device_read(self.at + at, buf);
        Ok(())
    }

    fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misused> {
        let c = &C::CONTRACT;
        self.checked("write", at, bytes.len(), c.write_size)?;
        let erased = c.erase.map(|e| e.erased);
        let (page, group) = match c.torn {
            // A serial memory without pages takes any number of bytes in one command.
            Torn::Prefix | Torn::Subset => (u32::MAX, c.unit),
            _ => (C::PAGE.max(c.write_size), c.write_size),
        };
        for (at, page) in groups(at, bytes, page) {
            self.rec.0.borrow_mut().burst();
            for (at, g) in groups(at, page, group) {
                self.rec.tick();
                let mut r = self.rec.0.borrow_mut();
                let g = match planted!("powerfail/first-byte-of-a-word") {
                    true => &g[..1],
                    false => g,
                };
                let (to, len) = (self.at + at, g.len() as u32);
                if let Some(e) = c.erase.filter(|e| e.write_once) {
                    r.device_inspects(to, len);
                    if !r.is_erased(to, len, e.erased) {
                        drop(r);
                        return Err(self.refuse("write", at, g.len(), Misuse::NotErased));
                    }
                }
                match c.torn {
                    Torn::Prefix | Torn::Subset if in_units(c) => r.device_store(to, g, erased),
                    Torn::Prefix | Torn::Subset => r.program(to, g, erased, Tear::Whole),
                    Torn::Arbitrary => r.program(to, g, erased, Tear::Arbitrary),
                    Torn::Unstable => {
                        let e = c.erase.as_ref().expect("a sound contract");
                        let how = Tear::Unstable {
                            erased: e.erased,
                            any: e.write_once,
                        };
                        r.program(to, g, erased, how);
                    }
                }
            }
        }
        Ok(())
    }

    fn wipe(&mut self, from: u32, to: u32) -> Result<(), Misused> {
        let c = &C::CONTRACT;
        let Some(e) = c.erase else {
            return Ok(());
        };
        let Some(len) = to.checked_sub(from) else {
            return Err(self.refuse("erase", from, 0, Misuse::OutOfRange));
        };
        self.checked("erase", from, len as usize, e.size)?;
        let how = match c.torn {
            _ if !C::STABLE_ERASE => EraseTear::Unstable,
            Torn::Prefix => EraseTear::InOrder(c.unit),
            _ => EraseTear::Stable,
        };
        for at in (from..to).step_by(e.size as usize) {
            self.rec.tick();
            let mut r = self.rec.0.borrow_mut();
            let times = match c.torn {
                Torn::Subset => r.erase_later(self.at + at, e.size, e.erased),
                _ => r.erase(self.at + at, e.size, e.erased, how),
            };
            let endurance = r.part_of(self.at).endurance;
            drop(r);
            if let Some(most) = endurance.filter(|most| times > *most) {
                panic!("worn out: the erase unit at {at:#x} is erased more than {most} times");
            }
        }
        Ok(())
    }

    fn drain(&mut self) {
        if C::CONTRACT.torn == Torn::Subset {
            self.rec.0.borrow_mut().device_drain(self.at);
        }
    }

    fn checked(&self, what: &str, at: u32, len: usize, size: u32) -> Result<(), Misused> {
        check_range(at, len, size, self.len).map_err(|why| self.refuse(what, at, len, why))
    }

    /// **Panics**: if refusals are failures.
    fn refuse(&self, what: &str, at: u32, len: usize, why: Misuse) -> Misused {
        let fails = self.rec.0.borrow().part_of(self.at).refusal_fails;
        let fails = fails && !planted!("powerfail/refusal-ignored");
        if fails && !std::thread::panicking() {
            panic!("refused: {what} of {len} bytes at {at:#x}: {why}");
        }
        Misused(why)
    }
}

/// Whether the record holds each atomic unit of such a device as a store of its own.
pub(crate) const fn in_units(c: &Contract) -> bool {
    matches!(c.torn, Torn::Prefix | Torn::Subset) && matches!(c.unit, 1 | 2 | 4)
}

/// Divides a write at the multiples of `size`; each part has its offset.
fn groups(mut at: u32, mut rest: &[u8], size: u32) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let n = ((size - at % size) as usize).min(rest.len());
        let (now, after) = rest.split_at(n);
        let from = at;
        (at, rest) = (at.wrapping_add(n as u32), after);
        Some((from, now))
    })
}

impl<C: Chip> Medium for Device<'_, C> {
    type Error = Misused;
    const CONTRACT: Contract = C::CONTRACT;
    fn capacity(&self) -> u32 {
        self.len
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misused> {
        self.get(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misused> {
        self.put(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misused> {
        self.wipe(from, to)
    }
    fn flush(&mut self) -> Result<(), Misused> {
        self.drain();
        Ok(())
    }
}

// SAFETY: the recorder owns the bytes, and one run at a time uses it. Cuts and tears follow the
// contract.
unsafe impl<C: Chip> nvmem::Faithful for Device<'_, C> {}

impl<C: Chip> AsyncMedium for Device<'_, C> {
    type Error = Misused;
    const CONTRACT: Contract = C::CONTRACT;
    fn capacity(&self) -> u32 {
        self.len
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misused> {
        self.get(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misused> {
        self.put(at, bytes)
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Misused> {
        self.wipe(from, to)
    }
    async fn flush(&mut self) -> Result<(), Misused> {
        self.drain();
        Ok(())
    }
}

impl<C> ErrorType for Device<'_, C> {
    type Error = Misused;
}

impl<C: Chip> ReadNorFlash for Device<'_, C> {
    const READ_SIZE: usize = C::CONTRACT.read_size as usize;
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misused> {
        self.get(at, buf)
    }
    fn capacity(&self) -> usize {
        self.len as usize
    }
}

impl<C: Chip> NorFlash for Device<'_, C> {
    const WRITE_SIZE: usize = C::CONTRACT.write_size as usize;
    const ERASE_SIZE: usize = C::CONTRACT.erase_size() as usize;
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misused> {
        self.wipe(from, to)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misused> {
        self.put(at, bytes)
    }
}

impl<C: Multiwrite> MultiwriteNorFlash for Device<'_, C> {}

impl<C: Multiwrite> embedded_storage_async::nor_flash::MultiwriteNorFlash for Device<'_, C> {}

impl<C: Chip> embedded_storage_async::nor_flash::ReadNorFlash for Device<'_, C> {
    const READ_SIZE: usize = C::CONTRACT.read_size as usize;
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misused> {
        self.get(at, buf)
    }
    fn capacity(&self) -> usize {
        self.len as usize
    }
}

impl<C: Chip> embedded_storage_async::nor_flash::NorFlash for Device<'_, C> {
    const WRITE_SIZE: usize = C::CONTRACT.write_size as usize;
    const ERASE_SIZE: usize = C::CONTRACT.erase_size() as usize;
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Misused> {
        self.wipe(from, to)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misused> {
        self.put(at, bytes)
    }
}
