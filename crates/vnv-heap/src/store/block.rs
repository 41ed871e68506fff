//! Blocks: locating, reading and writing an object's header and content.

use super::geometry::units_of;
use super::units::{AllocRun, WORDS};
use super::{BLOCK_HEADER, Check, Entry, Fail, MAX_LEN, PIECE, Store};
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::{Medium, planted};

/// Flag in a header's length: this block records that its object was freed.
pub(super) const TOMBSTONE: u16 = 0x8000;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) id: u16,
    pub(super) len: u16,
    /// The block that was allocated before it in the same epoch (the chain of a commit).
    pub(super) prev: u16,
    pub(super) check: u16,
}

impl BlockHeader {
    pub(super) fn decode(b: [u8; 8]) -> Self {
        let [i0, i1, l0, l1, p0, p1, c0, c1] = b;
        BlockHeader {
            id: u16::from_le_bytes([i0, i1]),
            len: u16::from_le_bytes([l0, l1]),
            prev: u16::from_le_bytes([p0, p1]),
            check: u16::from_le_bytes([c0, c1]),
        }
    }
}

/// The check in a block header, if the header is that of this object with this length.
#[inline(always)]
pub(crate) fn check_in_header(
    head: &[u8; BLOCK_HEADER as usize],
    id: u16,
    len: u16,
) -> Option<u16> {
    let h = BlockHeader::decode(*head);
    (h.id == id && h.len == len).then_some(h.check)
}

/// The block with an object's current content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    /// Bytes of the content.
    pub(crate) len: u16,
    /// What [`Check`] over the content must give.
    pub(crate) check: u16,
    pub(super) unit: u16,
}

/// The beginning of a write-back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeginWrite {
    id: u16,
    len: u16,
    run: Option<AllocRun>,
}

impl BeginWrite {
    pub(crate) fn new(id: u16, len: u16) -> Self {
        BeginWrite { id, len, run: None }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// The block of an object, by its entry and its header.
    ///
    /// **Cost**: reads 12 bytes. **Errors**: [`Error::Damaged`](crate::Error::Damaged) when the two
    /// do not match. The content is not read.
    #[inline(never)]
    pub(crate) fn locate(&mut self, id: u16) -> Result<BlockRef, Fail> {
        let e = self.entry(id)?;
        self.locate_by(id, e)
    }

    /// [`Store::locate`] with an entry that was read already.
    pub(super) fn locate_by(&mut self, id: u16, e: Entry) -> Result<BlockRef, Fail> {
        if !P::SNAPSHOT && !e.is_settled() {
            return Err(Fail::damaged(id));
        }
        self.locate_in(id, e.pending())
    }

    pub(super) fn locate_in(&mut self, id: u16, unit: u16) -> Result<BlockRef, Fail> {
        let damaged = Fail::damaged(id);
        let head = self.read_block_header(unit, id)?;
        let bounded = head.len <= MAX_LEN && self.geometry.has(unit, units_of(head.len));
        if head.id != id || !bounded {
            return Err(damaged);
        }
        Ok(BlockRef {
            len: head.len,
            check: head.check,
            unit,
        })
    }

    /// The header in a unit; `id` is the object that it should belong to.
    pub(super) fn read_block_header(&mut self, unit: u16, id: u16) -> Result<BlockHeader, Fail> {
        if !self.geometry.has(unit, 1) {
            return Err(Fail::damaged(id));
        }
        let mut b = [0; 8];
        self.get(self.geometry.unit(unit), &mut b)?;
        Ok(BlockHeader::decode(b))
    }

    /// Writes the header of a new block, without its check, and adds it to the chain.
    pub(super) fn write_block_header(&mut self, unit: u16, id: u16, len: u16) -> Result<(), Fail> {
        let prev = if P::SNAPSHOT { self.chain } else { 0 };
        let ([i0, i1], [l0, l1], [p0, p1]) =
            (id.to_le_bytes(), len.to_le_bytes(), prev.to_le_bytes());
        self.put(self.geometry.unit(unit), &[i0, i1, l0, l1, p0, p1])?;
        if P::SNAPSHOT {
            self.chain = unit;
        }
        Ok(())
    }

    /// Reads the whole content of an object of this size. **Errors**:
    /// [`Error::Damaged`](crate::Error::Damaged) when its size or its bytes are not those that were
    /// written.
    pub(crate) fn read_object(&mut self, id: u16, content: &mut [u8]) -> Result<(), Fail> {
        let len = content.len() as u16;
        let at = self.address_of(id, len, false)?;
        let mut head = [0; BLOCK_HEADER as usize];
        self.get(at - BLOCK_HEADER, &mut head)?;
        self.get(at, content)?;
        let mut check = Check::new(id, len);
        check.add(content);
        match check_in_header(&head, id, len) {
            Some(expected) if expected == check.finish() => Ok(()),
            _ => Err(Fail::damaged(id)),
        }
    }

    /// Whether a block's content matches its check. **Cost**: reads it.
    #[cold]
    #[inline(never)]
    pub(super) fn is_sound(&mut self, id: u16, place: &BlockRef) -> Result<bool, Fail> {
        let mut check = Check::new(id, place.len);
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        let (mut at, end) = (
            self.address(place),
            self.address(place) + u32::from(place.len),
        );
        while at < end {
            let n = (end - at).min(PIECE as u32) as usize;
            let piece = b.get_mut(..n).unwrap_or_default();
            self.get(at, piece)?;
            check.add(piece);
            at += n as u32;
        }
        Ok(check.finish() == place.check)
    }

    /// The address of the content; its check is in the two bytes before.
    pub(crate) fn address(&self, place: &BlockRef) -> u32 {
        self.geometry.unit(place.unit) + BLOCK_HEADER
    }

    /// The address of the content of an object of this size, by its entry. The header of
    /// [`BLOCK_HEADER`] bytes lies just before it; [`check_in_header`] tells whether it is the
    /// object's own.
    ///
    /// To write there, [`Store::begin_write`] must have finished before the object became dirty.
    ///
    /// **Cost**: reads 4 bytes. **Errors**: [`Error::Damaged`](crate::Error::Damaged) when no such
    /// block is possible; to write, [`Error::Unfinished`](crate::Error::Unfinished).
    #[inline(never)]
    pub(crate) fn address_of(&mut self, id: u16, len: u16, writes: bool) -> Result<u32, Fail> {
        if writes && P::SNAPSHOT {
            // Just in time, an object is dirty only while the record says *running*.
            self.before_change()?;
        }
        let e = self.entry(id)?;
        // A committed block is never overwritten.
        let alike = e.is_settled();
        let wrong = if P::SNAPSHOT { alike && writes } else { !alike };
        if wrong || !self.geometry.has(e.pending(), units_of(len)) {
            return Err(Fail::damaged(id));
        }
        Ok(self.geometry.unit(e.pending()) + BLOCK_HEADER)
    }

    /// Checks that the object's header has this length. **Cost**: reads 8 bytes. **Errors**:
    /// [`Error::Damaged`](crate::Error::Damaged) when it has not.
    pub(crate) fn expect(&mut self, id: u16, len: u16) -> Result<(), Fail> {
        let at = self.address_of(id, len, false)?;
        let mut b = [0; 4];
        self.get(at - BLOCK_HEADER, &mut b)?;
        if u32::from_le_bytes(b) != u32::from(id) | u32::from(len) << 16 {
            return Err(Fail::damaged(id));
        }
        Ok(())
    }

    /// One step of the beginning of a write-back: determines the block to write to.
    ///
    /// Just in time, that is the object's block. With the snapshot promise, the first write-back
    /// after a commit allocates a new block (copy on write). **After the first step the object must
    /// be written**, before it is evicted and before the next commit: the current content has no
    /// valid block until then. So a caller that needs [`Error::Full`](crate::Error::Full) in time
    /// begins when the object becomes dirty. Beginning again at the write costs nothing.
    ///
    /// **Cost**: 12 bytes once after each persist. With the snapshot promise, once after each
    /// commit for each object, 8 bytes and a bit for each 8 bytes. **Errors**:
    /// [`Error::Full`](crate::Error::Full), nothing has changed then;
    /// [`Error::Unfinished`](crate::Error::Unfinished); [`Error::Damaged`](crate::Error::Damaged).
    pub(crate) fn begin_write(&mut self, b: &mut BeginWrite) -> Result<BlockRef, Fail> {
        self.before_change()?;
        if !P::SNAPSHOT {
            return self.locate(b.id);
        }
        let Some(run) = &mut b.run else {
            let e = self.entry(b.id)?;
            if !e.is_settled() || planted!("vnv-heap/committed-in-place") {
                return self.locate_in(b.id, e.pending());
            }
            b.run = Some(AllocRun::avoiding(e.committed(), units_of(b.len)));
            return Err(Fail::PENDING);
        };
        match self.alloc_run(run) {
            Err(Fail::FULL) if run.stop_avoiding() => return Err(Fail::PENDING),
            r => r?,
        }
        let unit = run.unit();
        self.write_block_header(unit, b.id, b.len)?;
        self.torn = b.id;
        self.put_pending(b.id, unit)?;
        self.torn = 0;
        b.run = None;
        Ok(BlockRef {
            len: b.len,
            check: 0,
            unit,
        })
    }
}
