//! The worst-case cost of checkpoints and restores, in work of the medium, energy and time; and
//! budgets.

use crate::format::{EXTENT, HEAD, MARKER_WORDS, PIECE, Sizes, TRAILER};
use crate::images::Images;
use crate::memory::Memory;
use crate::mode::{CopyIfChange, Full, HeapTracker, Mode, Split, Stack};
use nvmem::device::Medium;

/// A named cost model of a medium. Bytes cost picojoules and nanoseconds; operations cost
/// nanojoules and nanoseconds.
///
/// Each constant says where its figures come from and what is assumed. Your board's own figures are
/// better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The name in reports.
    pub name: &'static str,
    /// Bytes that one program operation covers, at multiples of this number. A shorter write costs
    /// a whole operation. 0 means 1.
    pub operation: u32,
    /// A byte read.
    pub read_pj: u32,
    /// A byte read.
    pub read_ns: u32,
    /// A byte read and compared with one in RAM.
    pub compare_pj: u32,
    /// A byte read and compared with one in RAM.
    pub compare_ns: u32,
    /// A program operation.
    pub program_nj: u32,
    /// A program operation.
    pub program_ns: u32,
    /// An erase of one unit.
    pub erase_nj: u32,
    /// An erase of one unit.
    pub erase_ns: u32,
}

impl Cost {
    /// Energy for a byte, if a block of 128 bytes takes this many nanojoules.
    const fn block(nj: u32) -> u32 {
        nj * 1000 / 128
    }

    /// Comparing mapped flash: 0.3 µJ for 128 bytes. Assumed: 32 words in some ten cycles each at
    /// 32 MHz and 30 mW.
    pub const MAPPED_PJ: u32 = Self::block(300);

    /// STM32L152RE as measured in *Efficient State Retention for Transiently-powered Embedded
    /// Sensing* (EWSN 2016): 128-byte half pages, erase units of 256 bytes.
    ///
    /// Fitted: saving all of RAM with `Full` took 85.2 mJ. That is 640 half pages and 320 erases,
    /// taken as equal: 88.75 µJ each. The first image of `CopyIfChange` took 94.5 mJ. The
    /// difference, 14.5 µJ for each of 640 blocks, is the cost of comparing. It is as uncertain as
    /// the difference of the two (± 45 %). From the data sheet: 3.28 ms for a half page and for an
    /// erase, which add up to the paper's "slightly more than 3 secs". Assumed: comparing takes as
    /// much power as writing, 27 mW; reading costs [`Cost::MAPPED_PJ`].
    pub const STM32L1: Cost = Cost {
        name: "stm32l1",
        operation: 128,
        read_pj: Self::MAPPED_PJ,
        read_ns: 80,
        compare_pj: Self::block(14_500),
        compare_ns: 4_200,
        program_nj: 88_750,
        program_ns: 3_280_000,
        erase_nj: 88_750,
        erase_ns: 3_280_000,
    };

    /// STM32F091RC: words of 4 bytes, erase units of 2 KiB.
    ///
    /// Assumed: 5.3 µJ a word and 1.47 mJ an erase; 107 µs a word (two half-words of 53.5 µs, data
    /// sheet) and 30 ms an erase (20 to 40, data sheet); reading and comparing mapped flash.
    pub const STM32F0: Cost = Cost {
        name: "stm32f0",
        operation: 4,
        read_pj: Self::MAPPED_PJ,
        read_ns: 80,
        compare_pj: Self::MAPPED_PJ,
        compare_ns: 80,
        program_nj: 5_300,
        program_ns: 107_000,
        erase_nj: 1_470_000,
        erase_ns: 30_000_000,
    };

    /// A serial NOR flash with erase units of 4 KiB.
    ///
    /// Assumed: 6.3 µJ for 32 bytes and 4 mJ an erase; 90 µs for 32 bytes and 60 ms an erase (data
    /// sheets: 0.7 ms a page of 256, 60 to 100 ms); 320 ns for a byte over the bus (25 MHz) at 30
    /// mW.
    pub const SPI_NOR: Cost = Cost {
        name: "spi_nor",
        operation: 32,
        read_pj: 9_600,
        read_ns: 320,
        compare_pj: 9_600,
        compare_ns: 320,
        program_nj: 6_300,
        program_ns: 90_000,
        erase_nj: 4_000_000,
        erase_ns: 60_000_000,
    };

    /// MSPM0: flash words of 8 bytes, erase units of 1 KiB.
    ///
    /// From its maker: 0.38 µJ a word and 24 to 120 µJ an erase; the larger is taken. Assumed: 50
    /// µs a word, 4 ms an erase, mapped reading.
    pub const MSPM0: Cost = Cost {
        name: "mspm0",
        operation: 8,
        program_nj: 380,
        program_ns: 50_000,
        erase_nj: 120_000,
        erase_ns: 4_000_000,
        ..Self::STM32F0
    };

    /// MB85RS4MT, a serial FRAM, at 40 MHz: 200 ns a byte (data sheet). Assumed: an ESP32-C3 that
    /// waits for it takes 88 mW (0.55 nJ a cycle at 160 MHz). The five bytes in front of each burst
    /// are not counted.
    pub const SPI_FRAM: Cost = Cost {
        name: "spi_fram",
        operation: 1,
        read_pj: 17_600,
        read_ns: 200,
        compare_pj: 17_600,
        compare_ns: 200,
        program_nj: 18,
        program_ns: 200,
        erase_nj: 0,
        erase_ns: 0,
    };

    /// The same model with another cost of comparing.
    #[must_use]
    pub const fn with_compare_cost(self, compare_pj: u32, compare_ns: u32) -> Self {
        Cost {
            compare_pj,
            compare_ns,
            ..self
        }
    }

    /// Bytes of a program operation; 1 if the model says 0.
    pub(crate) const fn step(&self) -> u32 {
        if self.operation == 0 {
            return 1;
        }
        self.operation
    }

    /// Program operations of one write.
    pub const fn operations(&self, at: u32, len: u32) -> u64 {
        if len == 0 {
            return 0;
        }
        let last = at as u64 + len as u64 - 1;
        last / self.step() as u64 - (at / self.step()) as u64 + 1
    }

    /// The energy of some work in nanojoules, rounded up. `u64::MAX` if it is that much or more.
    pub const fn energy_nj(&self, w: &Work) -> u64 {
        let reads = thousandth(sum([
            w.read.saturating_mul(self.read_pj as u64),
            w.compared.saturating_mul(self.compare_pj as u64),
            0,
            0,
        ]));
        sum([
            reads,
            w.programs.saturating_mul(self.program_nj as u64),
            w.erases.saturating_mul(self.erase_nj as u64),
            0,
        ])
    }

    /// The time of some work in nanoseconds. `u64::MAX` if it is that much or more.
    pub const fn time_ns(&self, w: &Work) -> u64 {
        sum([
            w.read.saturating_mul(self.read_ns as u64),
            w.compared.saturating_mul(self.compare_ns as u64),
            w.programs.saturating_mul(self.program_ns as u64),
            w.erases.saturating_mul(self.erase_ns as u64),
        ])
    }

    /// Energy and time of some work, rounded up. `u64::MAX` if they do not fit; no budget allows
    /// that.
    pub const fn of(&self, w: &Work) -> Price {
        Price {
            microjoules: thousandth(self.energy_nj(w)),
            microseconds: thousandth(self.time_ns(w)),
        }
    }
}

/// The sum, or `u64::MAX` if it is that much or more.
const fn sum(all: [u64; 4]) -> u64 {
    let [a, b, c, d] = all;
    a.saturating_add(b).saturating_add(c).saturating_add(d)
}

/// A thousandth, rounded up. `u64::MAX` stays `u64::MAX`.
const fn thousandth(n: u64) -> u64 {
    if n == u64::MAX {
        return n;
    }
    n.div_ceil(1000)
}

/// The work of a medium. A count of `u64::MAX` means that many or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that are read, other than to compare them.
    pub read: u64,
    /// Bytes that are read and compared with RAM.
    pub compared: u64,
    /// Bytes that are written.
    pub written: u64,
    /// Program operations, of the size in the [`Cost`].
    pub programs: u64,
    /// Units that are erased.
    pub erases: u64,
}

impl Work {
    /// The sum of both.
    #[must_use]
    pub const fn and(self, o: Work) -> Work {
        Work {
            read: self.read.saturating_add(o.read),
            compared: self.compared.saturating_add(o.compared),
            written: self.written.saturating_add(o.written),
            programs: self.programs.saturating_add(o.programs),
            erases: self.erases.saturating_add(o.erases),
        }
    }
}

/// Energy and time: a cost, or a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Price {
    /// Energy.
    pub microjoules: u64,
    /// Time.
    pub microseconds: u64,
}

impl Price {
    /// Whether this budget covers `needed`. No budget covers `u64::MAX`, which may stand for more.
    pub const fn allows(&self, needed: &Price) -> bool {
        needed.microjoules <= self.microjoules
            && needed.microseconds <= self.microseconds
            && needed.microjoules < u64::MAX
            && needed.microseconds < u64::MAX
    }

    /// Asserts that this budget is enough. In a `const` item, a budget that is too small does not
    /// compile.
    ///
    /// ```
    /// use checkpoint::{Cost, Images, Maxima, Price, Split};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// const CAPACITOR: Price = Price { microjoules: 2_000, microseconds: 60_000 };
    /// const _: () = CAPACITOR.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_case::<Split>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// ```compile_fail
    /// # use checkpoint::{Cost, Images, Maxima, Price, Full};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// # const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// # const CAPACITOR: Price = Price { microjoules: 2_000, microseconds: 60_000 };
    /// const _: () = CAPACITOR.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_case::<Full>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// **Panics**: if it is not enough.
    pub const fn assert_enough(&self, cost: &Cost, worst: &Work) {
        assert!(
            self.allows(&cost.of(worst)),
            "the worst case exceeds the budget"
        );
    }

    /// The same check at run time. **Errors**: [`OverBudget`].
    pub const fn check(&self, cost: &Cost, worst: &Work) -> Result<(), OverBudget> {
        let needed = cost.of(worst);
        if self.allows(&needed) {
            return Ok(());
        }
        Err(OverBudget {
            needed,
            budget: *self,
        })
    }
}

/// A checkpoint or a restore may need more than the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct OverBudget {
    /// The worst case.
    pub needed: Price,
    /// The budget.
    pub budget: Price,
}

impl core::fmt::Display for OverBudget {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (n, b) = (&self.needed, &self.budget);
        write!(
            f,
            "the worst case needs {} µJ and {} µs; the budget is {} µJ and {} µs",
            n.microjoules, n.microseconds, b.microjoules, b.microseconds
        )
    }
}
impl core::error::Error for OverBudget {}

/// The largest sizes that a program's memory may have when a checkpoint is taken, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maxima {
    /// The statics.
    pub statics: u32,
    /// The heap segment.
    pub heap: u32,
    /// The heap in use, from its start to the last byte in use.
    pub heap_used: u32,
    /// The stack segment.
    pub stack: u32,
    /// The stack in use.
    pub stack_used: u32,
}

impl Maxima {
    /// The whole of this memory: all of heap and stack may be in use.
    pub fn of(memory: &Memory<'_>) -> Self {
        let (heap, stack) = (memory.heap().len, memory.stack().len);
        Maxima {
            statics: memory.statics().len,
            heap,
            heap_used: heap,
            stack,
            stack_used: stack,
        }
    }
}

/// The parts of memory that a mode saves at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedParts {
    /// All of it.
    All,
    /// Statics, and the stack in use.
    NoHeap,
    /// Statics, heap and stack in use.
    InUse,
    /// The stack in use, and all bytes of statics and heap that are not zero.
    NonzeroHeap,
}

/// A mode with a known upper bound of the memory that it saves.
pub trait Bounded: Mode {
    /// The parts that it saves at most.
    const PARTS: SavedParts;
}
impl Bounded for Full {
    const PARTS: SavedParts = SavedParts::All;
}
impl Bounded for Stack {
    const PARTS: SavedParts = SavedParts::NoHeap;
}
impl Bounded for Split {
    const PARTS: SavedParts = SavedParts::InUse;
}
impl<B: crate::Blocks> Bounded for HeapTracker<'_, B> {
    const PARTS: SavedParts = SavedParts::NonzeroHeap;
}
impl<M: Bounded> Bounded for CopyIfChange<M> {
    const PARTS: SavedParts = M::PARTS;
}

const fn body(parts: SavedParts, m: &Maxima) -> u32 {
    // A run of zeros stored as a length costs no more than the zeros, except at a segment's end.
    const LAST_ZERO: u32 = EXTENT - 1;
    let (extents, bytes) = match parts {
        SavedParts::All => (3, [m.statics, m.heap, m.stack]),
        SavedParts::NoHeap => (2, [m.statics, 0, m.stack_used]),
        SavedParts::InUse => (3, [m.statics, m.heap_used, m.stack_used]),
        SavedParts::NonzeroHeap => {
            let (heap, statics) = ((m.heap > 0) as u32, (m.statics > 0) as u32);
            let heaps = m.heap.saturating_add(heap * LAST_ZERO);
            let all = m.statics.saturating_add(statics * LAST_ZERO);
            (1 + heap + statics, [all, heaps, m.stack_used])
        }
    };
    bytes[0]
        .saturating_add(bytes[1])
        .saturating_add(bytes[2])
        .saturating_add(extents * EXTENT)
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// The most work of a [`checkpoint`](Images::checkpoint) in this mode, of memory of at most
    /// this size. Program operations have the size in the model.
    ///
    /// With [`HeapTracker`] all of the heap counts, because any of it may be nonzero.
    ///
    /// **Panics**: if no medium is large enough.
    pub const fn worst_case<M: Bounded>(most: &Maxima, cost: &Cost) -> Work {
        let body = body(M::PARTS, most);
        assert!(
            Self::SIZES.whole(body).is_some(),
            "no medium is large enough for this"
        );
        let work = work(&Self::SIZES, body, M::COMPARE, cost);
        if !Self::SIZES.writes_plain::<M>() {
            return work;
        }
        // Head, three extents with their descriptions, and trailer, one behind the other: each may
        // begin in the middle of an operation.
        let middles = if cost.step() > 1 { 2 + 2 * 3 } else { 0 };
        Work {
            programs: work.written.div_ceil(cost.step() as u64) + middles,
            ..work
        }
    }

    /// The most work of [`Images::open`] and the [`restore`](Images::restore) after it, for an
    /// image in this mode of memory of at most this size. Both read the ends of all slots, and the
    /// image is read twice. On flash the image may first have to be copied: one more read, and the
    /// work of a checkpoint.
    ///
    /// Each rejected image costs the same again, at most `N - 1` of them: one that a cut left
    /// unstable, or a damaged one. An [`Archive`](crate::Archive) takes the same.
    ///
    /// ```
    /// use checkpoint::{Cost, Images, Maxima, Price, Split};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// // What the supply gives after it came back, before it may go again.
    /// const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// // Does not compile when a boot may need more: the program might never get beyond it.
    /// const _: () = START.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Split>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// ```compile_fail
    /// # use checkpoint::{Cost, Images, Maxima, Price, Full};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// # const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// # const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// const _: () = START.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Full>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// **Panics**: if no medium is large enough.
    pub const fn worst_restore<M: Bounded>(most: &Maxima, cost: &Cost) -> Work {
        let s = &Self::SIZES;
        let r = D::CONTRACT.read_size;
        let body = body(M::PARTS, most);
        assert!(
            s.whole(body).is_some(),
            "no medium is large enough for this"
        );
        let head = covered(s, HEAD, 1, r);
        let trailer = covered(s, TRAILER, 1, r);
        let marks = if s.unstable {
            covered(s, 4 * MARKER_WORDS, MARKER_WORDS, r)
        } else {
            0
        };
        let walk = covered(s, body, calls(M::PARTS, body), r) + trailer;
        let reads = Work {
            read: 2 * N as u64 * (head + trailer + marks) + head + 2 * walk,
            compared: 0,
            written: 0,
            programs: 0,
            erases: 0,
        };
        if !s.unstable {
            return reads;
        }
        // One read for each write; a write ends with its unit at the latest.
        let pieces = s.content(body) / s.piece() + s.content(body) / s.unit + 2;
        let mut copy = work(s, body, false, cost);
        copy.read = covered(s, 4, 1, r) + covered(s, body, pieces, r);
        reads.and(copy)
    }
}

// INVARIANT "Bounded": no checkpoint into slots takes more reads, writes, program operations or
// erases than `worst_case` says. No boot takes more than `worst_restore`, plus the same again for
// each image that is skipped.
// Noticed by: tests/suite/cost.rs and tests/suite/restore_cost.rs, which also require that the
// worst case comes near (nine tenths of the bound); each boot of tests/suite/crash/media.rs and
// tests/suite/crash/compare.rs.
/// The work of writing an image that is all new: the calls of `write_content`. A shorter image may
/// be aligned worse, so each end is counted as misaligned.
const fn work(s: &Sizes, body: u32, compare: bool, cost: &Cost) -> Work {
    let content = s.content(body);
    let whole = content + MARKER_WORDS * s.marker;
    let last = (content - TRAILER) / s.word * s.word;
    let (op, piece) = (cost.step(), s.piece());
    let front =
        if piece.is_multiple_of(op) && s.unit.is_multiple_of(op) && s.align.is_multiple_of(op) {
            last.div_ceil(op) as u64
        } else if s.erases {
            // Each unit ends with a piece, and each piece may straddle operations.
            (last / piece + last / s.unit + 1) as u64 * most_operations(s, piece, op)
        } else {
            last.div_ceil(piece) as u64 * most_operations(s, piece, op)
        };
    Work {
        read: 0,
        compared: if compare { content as u64 } else { 0 },
        written: whole as u64,
        programs: front
            + most_operations(s, content - last, op)
            + MARKER_WORDS as u64 * most_operations(s, s.marker, op),
        erases: if s.erases {
            whole.div_ceil(s.unit) as u64
        } else {
            0
        },
    }
}

/// The most program operations of a write of whole words.
const fn most_operations(s: &Sizes, len: u32, op: u32) -> u64 {
    let before = if len == 0 { 0 } else { straddle(s.word, op) };
    (len as u64 + before as u64).div_ceil(op as u64)
}

/// The most bytes of an operation that lie before a write at a multiple of the word.
pub(crate) const fn straddle(word: u32, op: u32) -> u32 {
    let (mut a, mut b) = (op, word);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    op - a
}

/// Bytes of the words that cover these bytes, if they are read in so many misaligned pieces.
const fn covered(s: &Sizes, bytes: u32, pieces: u32, read_size: u32) -> u64 {
    let around = if read_size == 1 { 0 } else { 2 * (s.word - 1) };
    bytes as u64 + pieces as u64 * around as u64
}

/// The read calls for a body: its extents' descriptions and their bytes.
const fn calls(parts: SavedParts, body: u32) -> u32 {
    match parts {
        // A description and its bytes: at least three calls for each 20 bytes, because no run below
        // 16 zeros is left out.
        SavedParts::NonzeroHeap => body / 6 + 9,
        SavedParts::All | SavedParts::NoHeap | SavedParts::InUse => 2 * 3 + body / PIECE as u32,
    }
}

#[cfg(test)]
mod tests;
