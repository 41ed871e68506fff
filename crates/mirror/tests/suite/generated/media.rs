//! Chips, and a medium whose operations fail or wait.

use core::cell::Cell;
use core::task::Poll;
use nvmem::crc::{Crc32, crc32};
use nvmem::device::{AsyncMedium, Contract, EraseUnit, Medium, Torn};
use nvmem::marker::{Marker, erased};
use powerfail::Chip;

/// A flash of `ERASE`-byte units and words of `WORD` bytes. With `ONCE`, a word is programmed once
/// after an erase.
pub enum Small<const ERASE: u32, const WORD: u32, const ERASED: u8, const ONCE: bool = true> {}

impl<const ERASE: u32, const WORD: u32, const ERASED: u8, const ONCE: bool> Chip
    for Small<ERASE, WORD, ERASED, ONCE>
{
    const CONTRACT: Contract = Contract {
        name: "small-flash",
        read_size: 1,
        write_size: WORD,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: ERASE,
            erased: ERASED,
            write_once: ONCE,
            endurance: 0,
        }),
    };
}

pub type Bytes4 = Small<1088, 4, 0xFF>;
/// Words may be programmed more than once.
pub type Again4 = Small<1088, 4, 0xFF, false>;
pub type Bytes32 = Small<1152, 32, 0xFF>;
/// Room for the image of a pool.
pub type Large32 = Small<4096, 32, 0xFF>;
/// Erased to zero.
pub type HalfPages = Small<1536, 128, 0x00>;

/// What goes wrong in a save or in an open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    Never,
    /// This operation of the medium fails.
    Fails(u8, Part),
    /// The future is dropped after so many polls. A blocking call is not affected.
    Dropped(u8),
}

/// What a failed operation has done all the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Nothing,
    Half,
    All,
}

/// The failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failed;

/// What the medium meets in one call of the mirror, and what it has done in it.
#[derive(Default)]
pub struct Meter {
    /// Operations before the one that fails.
    left: Cell<Option<(u8, Part)>>,
    pub writes: Cell<u32>,
    pub bytes: Cell<u32>,
    pub erases: Cell<u32>,
}

impl Meter {
    /// A call of the mirror begins.
    pub fn begin(&self, fault: Fault) {
        self.left.set(match fault {
            Fault::Fails(n, part) => Some((n, part)),
            _ => None,
        });
        for count in [&self.writes, &self.bytes, &self.erases] {
            count.set(0);
        }
    }

    /// Whether the medium was changed.
    pub fn has_written(&self) -> bool {
        self.writes.get() + self.erases.get() > 0
    }

    /// What of the next operation is done; `Err` if it fails after that.
    fn next(&self) -> Result<Part, Part> {
        match self.left.get() {
            Some((0, part)) => Err(part),
            Some((n, part)) => {
                self.left.set(Some((n - 1, part)));
                Ok(Part::All)
            }
            None => Ok(Part::All),
        }
    }
}

/// A medium that fails where the meter says so, and waits between operations in its async form.
pub struct Faulty<'a, D> {
    pub medium: &'a mut D,
    pub meter: &'a Meter,
}

impl<D: Medium> Faulty<'_, D> {
    /// One operation on `len` bytes. `f` does it for the first so many of them, which are whole
    /// groups of `size`.
    fn operation(
        &mut self,
        len: u32,
        size: u32,
        f: impl FnOnce(&mut D, u32) -> Result<(), D::Error>,
    ) -> Result<(), Failed> {
        let next = self.meter.next();
        let (Ok(part) | Err(part)) = next;
        let done = match part {
            Part::Nothing => Ok(()),
            Part::Half => f(self.medium, len / 2 / size * size),
            Part::All => f(self.medium, len),
        };
        done.map_err(|_| Failed)?;
        next.map(|_| ()).map_err(|_| Failed)
    }
}

fn more(count: &Cell<u32>, n: u32) {
    count.set(count.get() + n)
}

impl<D: Medium> Medium for Faulty<'_, D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        let size = D::CONTRACT.read_size;
        self.operation(buf.len() as u32, size, |medium, n| {
            medium.read(at, &mut buf[..n as usize])
        })
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        more(&self.meter.writes, 1);
        more(&self.meter.bytes, bytes.len() as u32);
        let size = D::CONTRACT.write_size;
        self.operation(bytes.len() as u32, size, |medium, n| {
            medium.write(at, &bytes[..n as usize])
        })
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        more(&self.meter.erases, 1);
        let size = D::CONTRACT.erase_size();
        self.operation(to - from, size, |medium, n| medium.erase(from, from + n))
    }
    fn flush(&mut self) -> Result<(), Failed> {
        // Half of a flush drains nothing.
        self.operation(
            1,
            1,
            |medium, n| if n > 0 { medium.flush() } else { Ok(()) },
        )
    }
}

async fn wait_once() {
    let mut waited = false;
    core::future::poll_fn(|_| {
        if core::mem::replace(&mut waited, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await
}

/// The same, which waits before and after each operation, and in the middle of a write.
impl<D: Medium> AsyncMedium for Faulty<'_, D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        wait_once().await;
        Medium::read(self, at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        wait_once().await;
        let word = D::CONTRACT.write_size as usize;
        let (first, second) = bytes.split_at(bytes.len() / 2 / word * word);
        if !first.is_empty() {
            Medium::write(self, at, first)?;
            wait_once().await;
        }
        Medium::write(self, at + first.len() as u32, second)?;
        wait_once().await;
        Ok(())
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        wait_once().await;
        Medium::erase(self, from, to)?;
        wait_once().await;
        Ok(())
    }
    async fn flush(&mut self) -> Result<(), Failed> {
        wait_once().await;
        Medium::flush(self)?;
        wait_once().await;
        Ok(())
    }
}

/// A log of one segment, whose image is zeros. docs/spec/mirror.md has the bytes.
#[derive(Clone, Copy)]
pub struct OneSegment {
    pub number: u32,
    /// Which segment it is.
    pub at: u32,
    pub segments: u32,
    /// Bytes of a segment.
    pub segment: u32,
    /// Bytes of the image.
    pub image: u32,
    /// Whether the check of the base image is right.
    pub intact: bool,
}

impl OneSegment {
    /// What a range of this size holds then.
    pub fn bytes<C: Chip>(self, len: usize) -> Vec<u8> {
        let contract = &C::CONTRACT;
        let (flash, word) = (
            contract.erase.is_some(),
            contract.write_size.max(4) as usize,
        );
        let mut nv = vec![if flash { erased(contract) } else { 0 }; len];
        // Whole words are written.
        let mut put = |at: usize, bytes: &[u8]| {
            let end = at + bytes.len().next_multiple_of(word);
            nv[at..end].fill(0);
            nv[at..at + bytes.len()].copy_from_slice(bytes);
            end
        };
        let words = [
            u32::from_le_bytes(*b"RLI1"),
            self.number,
            self.image,
            self.segment,
            self.segments | contract.write_size << 16,
        ];
        let mut header = words.map(u32::to_le_bytes).as_flattened().to_vec();
        let checksum = crc32(&header);
        header.extend(checksum.to_le_bytes());
        let mut base = put((self.at * self.segment) as usize, &header);
        if flash {
            let at = base as u32;
            for which in 0..2 {
                let word = Marker { at, checksum }.word(which).repeat(word / 4);
                base = put(base, &word);
            }
        }
        let mut check = Crc32::new().word(checksum).word(0).finish();
        if !self.intact {
            check ^= 1;
        }
        put(base, [[0; 4], check.to_le_bytes()].as_flattened());
        nv
    }
}
