//! What a program gets of a simulated device: `nvmem`'s medium traits and those of embedded-storage.

use crate::chip::Chip;
use crate::observe::Recorder;
use crate::torn::Tear;
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use nvmem::device::{AsyncMedium, Contract, Medium, Misuse, Torn, check_range};
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
pub struct Refused(pub Misuse);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Refused {}

impl NorFlashError for Refused {
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

    fn get(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        check_range(at, buf.len(), C::CONTRACT.read_size, self.len).map_err(Refused)?;
        self.rec.0.borrow_mut().device_read(self.at + at, buf);
        Ok(())
    }

    fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        let c = &C::CONTRACT;
        check_range(at, bytes.len(), c.write_size, self.len).map_err(Refused)?;
        let word = c.write_size as usize;
        let mut off = at;
        for page in Pages::new::<C>(at, bytes) {
            self.rec.0.borrow_mut().burst();
            for w in page.chunks(word) {
                self.rec.tick();
                let mut r = self.rec.0.borrow_mut();
                match c.torn {
                    Torn::Prefix | Torn::Subset => r.device_store(self.at + off, w[0]),
                    Torn::Arbitrary => r.program(self.at + off, w, Tear::Arbitrary),
                    Torn::Unstable => {
                        let e = c.erase.as_ref().expect("a sound contract");
                        if e.write_once && !r.is_erased(self.at + off, w.len() as u32, e.erased) {
                            return Err(Refused(Misuse::NotErased));
                        }
                        r.program(
                            self.at + off,
                            w,
                            Tear::Unstable {
                                erased: e.erased,
                                any: e.write_once,
                            },
                        );
                    }
                }
                off += w.len() as u32;
            }
        }
        Ok(())
    }

    fn wipe(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        let Some(e) = C::CONTRACT.erase else {
            return Ok(());
        };
        let len = to.checked_sub(from).ok_or(Refused(Misuse::OutOfRange))?;
        check_range(from, len as usize, e.size, self.len).map_err(Refused)?;
        for at in (from..to).step_by(e.size as usize) {
            self.rec.tick();
            let mut r = self.rec.0.borrow_mut();
            let times = r.erase(self.at + at, e.size, e.erased);
            let endurance = r.part_of(self.at).endurance;
            drop(r);
            if let Some(most) = endurance.filter(|most| times > *most) {
                panic!("worn out: the erase unit at {at:#x} is erased once more than {most} times");
            }
        }
        Ok(())
    }
}

/// The parts of a write that one command programs.
struct Pages<'b> {
    at: u32,
    page: u32,
    rest: &'b [u8],
}

impl<'b> Pages<'b> {
    fn new<C: Chip>(at: u32, rest: &'b [u8]) -> Self {
        let page = match C::CONTRACT.torn {
            // A serial memory without pages takes any number of bytes in a burst.
            Torn::Prefix | Torn::Subset => u32::MAX,
            _ => C::PAGE.max(C::CONTRACT.write_size),
        };
        Pages { at, page, rest }
    }
}

impl<'b> Iterator for Pages<'b> {
    type Item = &'b [u8];
    fn next(&mut self) -> Option<&'b [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let n = ((self.page - self.at % self.page) as usize).min(self.rest.len());
        let (now, rest) = self.rest.split_at(n);
        self.rest = rest;
        self.at = self.at.wrapping_add(n as u32);
        Some(now)
    }
}

impl<C: Chip> Medium for Device<'_, C> {
    type Error = Refused;
    const CONTRACT: Contract = C::CONTRACT;
    fn capacity(&self) -> u32 {
        self.len
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.get(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.put(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.wipe(from, to)
    }
}

impl<C: Chip> AsyncMedium for Device<'_, C> {
    type Error = Refused;
    const CONTRACT: Contract = C::CONTRACT;
    fn capacity(&self) -> u32 {
        self.len
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.get(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.put(at, bytes)
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.wipe(from, to)
    }
}

impl<C> ErrorType for Device<'_, C> {
    type Error = Refused;
}

impl<C: Chip> ReadNorFlash for Device<'_, C> {
    const READ_SIZE: usize = C::CONTRACT.read_size as usize;
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.get(at, buf)
    }
    fn capacity(&self) -> usize {
        self.len as usize
    }
}

impl<C: Chip> NorFlash for Device<'_, C> {
    const WRITE_SIZE: usize = C::CONTRACT.write_size as usize;
    const ERASE_SIZE: usize = C::CONTRACT.erase_size() as usize;
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.wipe(from, to)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.put(at, bytes)
    }
}

impl<C: Chip> embedded_storage_async::nor_flash::ReadNorFlash for Device<'_, C> {
    const READ_SIZE: usize = C::CONTRACT.read_size as usize;
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.get(at, buf)
    }
    fn capacity(&self) -> usize {
        self.len as usize
    }
}

impl<C: Chip> embedded_storage_async::nor_flash::NorFlash for Device<'_, C> {
    const WRITE_SIZE: usize = C::CONTRACT.write_size as usize;
    const ERASE_SIZE: usize = C::CONTRACT.erase_size() as usize;
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.wipe(from, to)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.put(at, bytes)
    }
}
