//! How an image is written: head, body, trailer, marks, in this order.

use crate::layout::{HEAD, Head, MARKS, Room, TRAILER, ZERO, mark, seal, sum, trailer};
use crate::memory::{Extent, Memory};
use crate::read::{Reader, copy};
use crate::scan::Rank;
use crate::{Error, Images};
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// Where the bytes of a body come from.
pub(crate) trait Body<D: Medium>: Clone {
    /// The next bytes; how many, at least one of a body that goes on.
    fn fill(&mut self, medium: &mut D, buf: &mut [u8]) -> Result<usize, D::Error>;
    /// Whether what was read is what it should be; asked at the end.
    fn sound(&self) -> bool {
        true
    }
}

/// The body of a new image: each extent's place and size, and its bytes.
#[derive(Clone)]
pub(crate) struct FromMemory<'a, 'm, I> {
    pub memory: &'a Memory<'m>,
    pub extents: I,
    /// The extent that is under way, and how much of its description and bytes was taken.
    pub now: Extent,
    pub taken: u32,
}

impl<D: Medium, I: Iterator<Item = Extent> + Clone> Body<D> for FromMemory<'_, '_, I> {
    fn fill(&mut self, _: &mut D, buf: &mut [u8]) -> Result<usize, D::Error> {
        const DESCRIPTION: u32 = crate::layout::EXTENT;
        while self.taken == DESCRIPTION + self.now.written() {
            let Some(next) = self.extents.next() else {
                return Ok(0);
            };
            (self.now, self.taken) = (next, 0);
        }
        let n;
        if self.taken < DESCRIPTION {
            let zero = if self.now.zero { ZERO } else { 0 };
            let d = u64::from(self.now.at) | u64::from(self.now.len | zero) << 32;
            n = copy(
                buf,
                d.to_le_bytes()
                    .get(self.taken as usize..)
                    .unwrap_or_default(),
            );
        } else {
            let off = self.taken - DESCRIPTION;
            let most = (self.now.len - off) as usize;
            n = most.min(buf.len());
            if let Some(from) = self.memory.locate(self.now.at + off, n as u32) {
                // SAFETY: `locate` says that `n` bytes there are in a segment, which is readable; `buf` is borrowed, so is no part of it.
                copy(buf, unsafe { core::slice::from_raw_parts(from, n) });
            }
        }
        self.taken += n as u32;
        Ok(n)
    }
}

/// The body of an image that is there already.
#[derive(Clone)]
pub(crate) struct FromSlot {
    pub reader: Reader,
    /// Of its head, and of what was read.
    pub crc: Crc32,
    /// The checksum of all of it.
    pub expected: u32,
}

impl<D: Medium> Body<D> for FromSlot {
    fn fill(&mut self, medium: &mut D, buf: &mut [u8]) -> Result<usize, D::Error> {
        self.reader.read(medium, buf)?;
        self.crc = sum(self.crc, buf);
        Ok(buf.len())
    }

    /// What was read when the image was judged may have read differently now.
    fn sound(&self) -> bool {
        self.crc.finish() == self.expected || planted!("checkpoint/copy-unchecked")
    }
}

/// All bytes of a content in order.
#[derive(Clone)]
struct Content<B> {
    head: Head,
    body: B,
    at: u32,
    body_end: u32,
    end: u32,
    crc: Crc32,
}

impl<B> Content<B> {
    fn fill<D: Medium>(&mut self, medium: &mut D, mut buf: &mut [u8]) -> Result<(), D::Error>
    where
        B: Body<D>,
    {
        let trailer_at = self.end - TRAILER;
        while let Some(first) = buf.first_mut() {
            let n = if self.at < HEAD {
                copy(
                    buf,
                    self.head
                        .bytes()
                        .get(self.at as usize..)
                        .unwrap_or_default(),
                )
            } else if self.at < self.body_end {
                let most = buf.len().min((self.body_end - self.at) as usize);
                self.body
                    .fill(medium, buf.get_mut(..most).unwrap_or_default())?
            } else if self.at < trailer_at {
                *first = 0;
                1
            } else {
                // What makes an image of it; wrong when its body is.
                let t = trailer(&self.head, self.crc.finish());
                let t = if self.body.sound() { t } else { !t };
                copy(
                    buf,
                    t.to_le_bytes()
                        .get((self.at - trailer_at) as usize..)
                        .unwrap_or_default(),
                )
            };
            let Some((now, later)) = buf.split_at_mut_checked(n).filter(|_| n > 0) else {
                break;
            };
            if self.at < self.body_end {
                self.crc = sum(self.crc, now);
            }
            self.at += n as u32;
            buf = later;
        }
        Ok(())
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Makes a slot hold no image: its head goes.
    pub(crate) fn clear(&mut self, slot: usize) -> Result<(), D::Error> {
        let at = self.at(slot);
        self.set(slot, Rank::Torn, 0);
        if Self::SIZES.erases {
            self.medium.erase(at, at + Self::SIZES.unit)?;
        } else {
            // The magic number and what shares its word.
            let len = 4u32.next_multiple_of(Self::SIZES.word);
            self.medium.write(at, Room::new().piece(len))?;
        }
        self.medium.flush()
    }

    /// Writes an image to a slot. Until it is whole, the slot counts as one that holds none.
    pub(crate) fn write<B: Body<D>>(
        &mut self,
        slot: usize,
        head: &Head,
        body: B,
        compare: bool,
    ) -> Result<(), Error<D::Error>> {
        // What is compared must be stable: of an attempt that was cut only the first and the last unit are rewritten anyway.
        let known = self.rank(slot) >= Rank::Sealed
            || !Self::SIZES.unstable
            || planted!("checkpoint/compares-what-was-cut");
        self.set(slot, Rank::Begun, head.sequence());
        let content = Content {
            head: *head,
            body,
            at: 0,
            body_end: HEAD + head.body(),
            end: Self::SIZES.content(head.body()),
            crc: Crc32::new(),
        };
        if !self
            .write_content(self.at(slot), content, compare && known)
            .map_err(Error::Medium)?
        {
            return Err(Error::Damaged);
        }
        self.set(slot, Rank::Confirmed, head.sequence());
        self.current = Some(slot);
        Ok(())
    }

    fn write_content<B: Body<D>>(
        &mut self,
        base: u32,
        mut content: Content<B>,
        compare: bool,
    ) -> Result<bool, D::Error> {
        let sizes = Self::SIZES;
        let whole = content.end + MARKS * sizes.mark();
        // What makes an image of it goes alone, when all before it is there.
        let last = (content.end - TRAILER) / sizes.word * sizes.word;
        let mut at = 0;
        while at < whole {
            let next = at + sizes.unit;
            // The first unit has another head and the last ones another trailer and other marks, whatever they read like.
            let middle = !sizes.erases || (at > 0 && next <= content.end - TRAILER);
            if compare && middle {
                let mut again = content.clone();
                if self.same(base, &mut again, next)? {
                    content = again;
                    at = next;
                    continue;
                }
            }
            if sizes.erases && !planted!("checkpoint/no-erase") {
                self.medium.erase(base + at, base + next)?;
            }
            let end = next.min(content.end);
            while content.at < end {
                let from = content.at;
                if from == last && !planted!("checkpoint/no-flush-before-trailer") {
                    self.medium.flush()?;
                }
                let end = if from < last { end.min(last) } else { end };
                let n = sizes.piece().min(end - from);
                let mut buf = Room::new();
                let piece = buf.piece(n);
                content.fill(&mut self.medium, piece)?;
                self.medium.write(base + from, piece)?;
            }
            at = next;
        }
        if !content.body.sound() {
            return Ok(false);
        }
        let seal = seal(&content.head, content.crc.finish());
        for which in 0..MARKS {
            if sizes.unstable {
                let mut buf = Room::new();
                let word = buf.piece(sizes.mark());
                let m = mark(seal, which);
                word.iter_mut()
                    .zip(m.iter().cycle())
                    .for_each(|(to, b)| *to = *b);
                self.medium
                    .write(base + content.end + which * sizes.mark(), word)?;
            }
        }
        self.medium.flush()?;
        Ok(true)
    }

    /// Whether the medium holds the content's next bytes, up to `end`, already.
    fn same<B: Body<D>>(
        &mut self,
        base: u32,
        content: &mut Content<B>,
        end: u32,
    ) -> Result<bool, D::Error> {
        let end = end.min(content.end);
        let piece = Self::SIZES.piece();
        while content.at < end {
            let (from, n) = (content.at, piece.min(end - content.at));
            let (mut new, mut old) = (Room::new(), Room::new());
            let (new, old) = (new.piece(n), old.piece(n));
            content.fill(&mut self.medium, new)?;
            self.medium.read(base + from, old)?;
            if new != old {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
