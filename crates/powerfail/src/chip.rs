//! The chips that can be simulated, and what each promises after a cut.

use crate::device::{Device, in_units};
use crate::medium::{Attach, Media, MediaLayout};
use crate::trace::MediumInfo;
use nvmem::device::{Contract, EraseUnit, Torn};
use nvmem::planted;
use std::marker::PhantomData;

/// A device described by its data sheet. Implement it for your own chip.
///
/// ```
/// use nvmem::device::{Contract, EraseUnit, Torn};
/// use powerfail::{Chip, Simulated};
///
/// /// A data flash: words of 4 bytes, torn to any content by a cut; pages of 64 bytes.
/// enum DataFlash {}
/// impl Chip for DataFlash {
///     const CONTRACT: Contract = Contract {
///         name: "data-flash",
///         read_size: 1,
///         write_size: 4,
///         unit: 4,
///         torn: Torn::Unstable,
///         erase: Some(EraseUnit { size: 64, erased: 0xff, write_once: true, endurance: 100_000 }),
///     };
///     // Its data sheet says so.
///     const STABLE_ERASE: bool = true;
/// }
/// let flash = Simulated::<DataFlash>::new(4 * 64);
/// # let _ = flash;
/// ```
pub trait Chip: Send + Sync + 'static {
    /// The sizes, and what a cut leaves. With [`Torn::Subset`] the atomic unit has 1, 2 or 4 bytes.
    const CONTRACT: Contract;
    /// Whether an erase unit reads the same at each boot after its erase was cut. By default this
    /// holds if it holds for torn words.
    const STABLE_ERASE: bool = !matches!(Self::CONTRACT.torn, Torn::Unstable);
    /// Bytes that one command programs: 128 for a half page of an STM32L1, 256 for most SPI NOR. A
    /// cut may leave any word of it torn, independently of its neighbours.
    const PAGE: u32 = Self::CONTRACT.write_size;
}

/// A flash whose words may be programmed more than once between two erases, each time to clear more
/// bits. Its [`Device`] implements the `MultiwriteNorFlash` of embedded-storage. Its `write_once`
/// is `false`.
#[diagnostic::on_unimplemented(
    message = "words of `{Self}` may not be programmed more than once between two erases",
    note = "if its data sheet allows that: `write_once: false` in its `CONTRACT`, and `impl Multiwrite for {Self} {{}}`"
)]
pub trait Multiwrite: Chip {}

const fn nor(name: &'static str, word: u32, erase: u32, erased: u8, write_once: bool) -> Contract {
    Contract {
        name,
        read_size: 1,
        write_size: word,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: erase,
            erased,
            write_once,
            endurance: 10_000,
        }),
    }
}

/// The flash of an STM32L1: words of 4 bytes, pages of 256, erased to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stm32l1 {}
impl Chip for Stm32l1 {
    const CONTRACT: Contract = nor("stm32l1", 4, 256, 0x00, true);
}

/// The flash of an STM32L1 by half pages of 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stm32l1HalfPage {}
impl Chip for Stm32l1HalfPage {
    const CONTRACT: Contract = nor("stm32l1-half-page", 128, 256, 0x00, true);
}

/// The flash of an STM32F0: words of 4 bytes here (the chip does 2), pages of 2 KiB, erased to
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stm32f0 {}
impl Chip for Stm32f0 {
    const CONTRACT: Contract = nor("stm32f0", 4, 2048, 0xff, true);
}

/// A serial NOR flash: any byte can be written, pages of 256 bytes are programmed together, sectors
/// have 4 KiB, and bits may be cleared twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpiNor {}
impl Chip for SpiNor {
    const CONTRACT: Contract = nor("spi-nor", 1, 4096, 0xff, false);
    const PAGE: u32 = 256;
}
impl Multiwrite for SpiNor {}

/// A small model of a serial NOR flash, which a test explores in seconds: words of 4 bytes, pages
/// of 32 bytes, sectors of 128 bytes, erased to ones. Bits may be cleared twice.
///
/// No such chip exists. A cut leaves what it leaves on a [`SpiNor`], but fewer cuts are possible:
/// an erase is 32 words and not 4,096 bytes. Use it for two cuts and more, and the real sizes for
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallNor {}
impl Chip for SmallNor {
    const CONTRACT: Contract = nor("small-nor", 4, 128, 0xff, false);
    const PAGE: u32 = 32;
}
impl Multiwrite for SmallNor {}

/// A NOR flash behind a write buffer, which `flush` drains.
///
/// Words of 4 bytes are programmed whole; erase units have 64 bytes. A cut leaves any combination
/// of the words that were programmed or erased since the last [`flush`](nvmem::Medium::flush).
/// Operations on the same word stay in order. All others, erases included, are ordered only by a
/// flush. For another size implement [`Chip`] with [`Torn::Subset`] and an erase unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferedNor {}
impl Chip for BufferedNor {
    const CONTRACT: Contract = Contract {
        unit: 4,
        torn: Torn::Subset,
        ..nor("buffered-nor", 4, 64, 0xff, true)
    };
}

/// FRAM behind SPI, like the MB85RS4MT: bytes, in order, without erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpiFram {}
impl Chip for SpiFram {
    const CONTRACT: Contract = Contract {
        name: "spi-fram",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };
}

/// MRAM programmed in units of 16 bytes, as in an Apollo4: a cut leaves any content in the current
/// unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mram16 {}
impl Chip for Mram16 {
    const CONTRACT: Contract = Contract {
        name: "mram-16",
        read_size: 1,
        write_size: 16,
        unit: 1,
        torn: Torn::Arbitrary,
        erase: None,
    };
}

/// A simulated device. The program gets a [`Device`].
pub struct Simulated<C> {
    image: Vec<u8>,
    endurance: Option<u32>,
    refusal_fails: bool,
    _c: PhantomData<fn() -> C>,
}

impl<C: Chip> Simulated<C> {
    /// `size` erased bytes; zeros on a device without erase.
    ///
    /// **Panics**: as [`Simulated::with_image`].
    pub fn new(size: usize) -> Self {
        let fill = C::CONTRACT.erase.map_or(0, |e| e.erased);
        Self::with_image(vec![fill; size])
    }

    /// A device that holds `image` at the first boot.
    ///
    /// **Panics**: its length is no multiple of the erase unit.
    pub fn with_image(image: Vec<u8>) -> Self {
        let (name, len) = (C::CONTRACT.name, image.len());
        let erased = C::CONTRACT.erase.map_or(1, |e| e.size);
        assert!(
            len.is_multiple_of(erased as usize),
            "{name} erases {erased} bytes, and {len} bytes are no multiple of that"
        );
        Simulated {
            image,
            endurance: None,
            refusal_fails: false,
            _c: PhantomData,
        }
    }

    /// An erased device of the same kind with another size.
    ///
    /// **Panics**: as [`Simulated::with_image`].
    pub fn size(self, size: usize) -> Self {
        Simulated {
            endurance: self.endurance,
            refusal_fails: self.refusal_fails,
            ..Self::new(size)
        }
    }

    /// Limits erases: an erase unit that is erased more than `cycles` times, cut erases included,
    /// is a failure. [`endure`](crate::endure()) counts over the whole life,
    /// [`explore`](crate::explore()) over one execution with its cuts. `explore` treats states that
    /// differ only in wear as one. The data sheet's figure is in the [`Contract`]; a test uses a
    /// fraction of it.
    pub fn endurance(mut self, cycles: u32) -> Self {
        self.endurance = Some(cycles);
        self
    }

    /// Makes every refused call a failure: a second write to a write-once word, a range outside of
    /// the device or not aligned.
    ///
    /// By default the program gets the error, and passes if it ignores it.
    pub fn refusal_fails(mut self) -> Self {
        self.refusal_fails = true;
        self
    }
}

/// Ready-made flash devices with four erase units, unless [sized](Simulated::size).
#[derive(Debug, Clone, Copy)]
pub struct Nor(());

impl Nor {
    /// See [`Stm32l1`].
    pub fn stm32l1() -> Simulated<Stm32l1> {
        Simulated::new(4 * 256)
    }
    /// See [`Stm32f0`].
    pub fn stm32f0() -> Simulated<Stm32f0> {
        Simulated::new(4 * 2048)
    }
    /// See [`BufferedNor`].
    pub fn buffered() -> Simulated<BufferedNor> {
        Simulated::new(4 * 64)
    }
    /// See [`SpiNor`].
    pub fn spi() -> Simulated<SpiNor> {
        Simulated::new(4 * 4096)
    }
    /// See [`SmallNor`]. To begin with: two cuts take seconds in a debug build.
    ///
    /// ```
    /// use nvmem::{Medium, Record};
    /// use powerfail::{Nor, World, explore};
    ///
    /// // A counter that the program has shown never goes back.
    /// let s = explore(Nor::small(), |flash, shown: &World<u32>| {
    ///     let all = 0..flash.capacity();
    ///     let mut n = Record::open(flash, all, 0u32).expect("only a power cut stops it");
    ///     assert!(*n.get() >= shown.get());
    ///     shown.set(*n.get());
    ///     if *n.get() < 2 {
    ///         n.set(*n.get() + 1).expect("only a power cut stops it");
    ///     }
    /// })
    /// .depth(2)
    /// .max_depth(2)
    /// .run();
    /// assert!(s.partial || s.cuts > 10_000, "{s}");
    /// ```
    pub fn small() -> Simulated<SmallNor> {
        Simulated::new(4 * 128)
    }
}

impl<C: Chip> Media for Simulated<C> {
    type Nv<'r> = Device<'r, C>;

    fn parts(&self, out: &mut MediaLayout) {
        const {
            let c = C::CONTRACT;
            assert!(c.is_sound(), "the chip's CONTRACT contradicts itself");
            assert!(
                !matches!(c.torn, Torn::Subset) || in_units(&c),
                "Torn::Subset needs a CONTRACT.unit of 1, 2 or 4 bytes"
            );
        };
        let c = C::CONTRACT;
        let buffered = c.torn == Torn::Subset && !planted!("powerfail/no-write-buffer");
        let part = MediumInfo {
            unit: if in_units(&c) { c.unit as u8 } else { 1 },
            buffered,
            endurance: self.endurance,
            refusal_fails: self.refusal_fails,
            ..MediumInfo::of(c.name)
        };
        out.add(part, &self.image);
    }

    unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Device<'r, C> {
        let part = run.parts.next().expect("one part for each medium");
        Device::new(run.rec, part.at, part.len)
    }
}
