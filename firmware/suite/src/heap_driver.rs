//! The medium of the heap's scenarios: the region behind a driver that counts, and that is wrong
//! when the mailbox's argument says so.

use crate::Mapped;
use nvmem::device::{Contract, Misuse};
use nvmem::superblock::Superblock;
use nvmem::{Medium, Region};

/// The mailbox's argument: the driver posts the record that says *running*, and begins it when the
/// next write comes.
pub(crate) const POSTED: u16 = 9;
/// The driver keeps each write back until the next one comes, and lets a record that says
/// *persisted* pass it.
pub(crate) const OVERTAKEN: u16 = 10;

/// The states of a record, its bytes, and where both of them lie; docs/SPEC.md has the format.
const RUNNING: u8 = 1;
const PERSISTED: u8 = 2;
const RECORD: usize = 12;
const RECORDS: core::ops::Range<u32> = Superblock::BYTES as u32..Superblock::BYTES as u32 + 32;

/// The most bytes that a wrong driver keeps back: the burst of the scenarios.
const KEPT: usize = 16;

/// Bytes that were written since the machine was started, for an interrupt's handler.
#[cfg(target_os = "none")]
pub(crate) static WRITTEN: Counter = Counter(core::cell::UnsafeCell::new(0));

/// A number that the program and a handler look at.
#[cfg(target_os = "none")]
pub(crate) struct Counter(core::cell::UnsafeCell<u16>);
// SAFETY: one core; each access is one volatile access, and what adds is a critical section of the
// heap.
#[cfg(target_os = "none")]
unsafe impl Sync for Counter {}
#[cfg(target_os = "none")]
impl Counter {
    pub(crate) fn get(&self) -> u16 {
        // SAFETY: as above.
        unsafe { self.0.get().read_volatile() }
    }
    fn add(&self, n: u16) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(self.get().wrapping_add(n)) }
    }
}

/// A region that is reached through a driver.
pub(crate) struct Driver<'s, M: Mapped> {
    region: Region<'s, M>,
    bug: u16,
    kept: Option<(u32, usize, [u8; KEPT])>,
}

impl<'s, M: Mapped> Driver<'s, M> {
    pub(crate) fn new(region: Region<'s, M>, bug: u16) -> Self {
        Driver {
            region,
            bug,
            kept: None,
        }
    }

    #[cold]
    #[inline(never)]
    fn finish(&mut self) -> Result<(), Misuse> {
        match self.kept.take() {
            Some((at, len, bytes)) => self.region.write(at, bytes.get(..len).unwrap_or_default()),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        let state = match bytes.get(4) {
            Some(state) if RECORDS.contains(&at) && bytes.len() == RECORD => *state,
            _ => 0,
        };
        if self.bug == OVERTAKEN && state == PERSISTED {
            self.region.write(at, bytes)?;
            return self.finish();
        }
        self.finish()?;
        let kept = self.bug == OVERTAKEN || state == RUNNING;
        let mut copy = [0; KEPT];
        match copy.get_mut(..bytes.len()) {
            Some(to) if kept => {
                to.copy_from_slice(bytes);
                self.kept = Some((at, bytes.len(), copy));
                Ok(())
            }
            _ => self.region.write(at, bytes),
        }
    }
}

// SAFETY: a region; what its planted bugs lose, a rig's campaign must notice.
unsafe impl<M: Mapped> nvmem::Faithful for Driver<'_, M> {}

impl<M: Mapped> Medium for Driver<'_, M> {
    type Error = Misuse;
    const CONTRACT: Contract = Region::<'static, M>::CONTRACT;

    fn capacity(&self) -> u32 {
        self.region.capacity()
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        if self.bug == OVERTAKEN {
            self.finish()?;
        }
        self.region.read(at, buf)
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        #[cfg(target_os = "none")]
        WRITTEN.add(bytes.len() as u16);
        if self.bug != 0 {
            return self.wrong(at, bytes);
        }
        self.region.write(at, bytes)
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.region.erase(from, to)
    }

    fn flush(&mut self) -> Result<(), Misuse> {
        if self.bug != 0 {
            return Ok(());
        }
        self.region.flush()
    }
}
