//! A mapped region as a [`Medium`], so that code for media behind drivers also runs on mapped
//! memory.

use crate::device::{Contract, Medium, Misuse, Torn, check_range};
use crate::mapped;
use crate::model::{Model, Unit};
use crate::region::Region;

/// Reads and writes any bytes. A partial unit is read, changed and stored as a whole unit.
///
/// The region must be initialised memory, as it is after power-up. A region that a pool gave back
/// is refused with [`Misuse::HoldsValues`], because its padding may be uninitialised; call
/// [`Region::clear`] first.
impl<M: Model> Medium for Region<'_, M> {
    type Error = Misuse;

    const CONTRACT: Contract = Contract {
        name: M::NAME,
        read_size: 1,
        write_size: 1,
        unit: M::Unit::BYTES as u32,
        torn: if M::BUFFERED {
            Torn::Subset
        } else {
            Torn::Prefix
        },
        erase: None,
    };

    fn capacity(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), 1, self.capacity())?;
        if self.holds_values() {
            return Err(Misuse::HoldsValues);
        }
        let size = M::Unit::BYTES;
        let mut off = at as usize;
        let mut rest = buf;
        while !rest.is_empty() {
            let (unit, skip) = (off - off % size, off % size);
            // SAFETY: invariants "Sole region" and "Padding is not read": aligned and, as the
            // region is whole units, inside; `&mut self`, so no part of it is lent; it holds bytes,
            // not values.
            let bytes = unsafe { self.load(unit) }.to_ne_bytes();
            let n = rest.len().min(size - skip);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&unit_bytes::<M>(&bytes)[skip..skip + n]);
            (off, rest) = (off + n, later);
        }
        Ok(())
    }

    /// **Cost**: one store per touched unit, and one load per partially touched unit.
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        check_range(at, bytes.len(), 1, self.capacity())?;
        if self.holds_values() {
            return Err(Misuse::HoldsValues);
        }
        let size = M::Unit::BYTES;
        let mut off = at as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (unit, skip) = (off - off % size, off % size);
            let n = rest.len().min(size - skip);
            let (now, later) = rest.split_at(n);
            let mut new = [0; 4];
            let part = if cfg!(target_endian = "big") {
                4 - size
            } else {
                0
            };
            if n < size {
                // SAFETY: invariants "Sole region" and "Padding is not read", as in `read`.
                new = unsafe { self.load(unit) }.to_ne_bytes();
            }
            new[part + skip..part + skip + n].copy_from_slice(now);
            // SAFETY: invariant "Sole region": aligned and inside, and no part of it is lent.
            unsafe { self.store(unit, u32::from_ne_bytes(new)) };
            (off, rest) = (off + n, later);
        }
        Ok(())
    }

    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Misuse> {
        mapped::fence::<M>();
        Ok(())
    }
}

/// The unit's bytes within the `u32` that it was widened to.
fn unit_bytes<M: Model>(wide: &[u8; 4]) -> &[u8] {
    if cfg!(target_endian = "big") {
        &wide[4 - M::Unit::BYTES..]
    } else {
        &wide[..M::Unit::BYTES]
    }
}
