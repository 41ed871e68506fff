//! What devices promise: the chips that can be simulated.

use crate::device::{Device, in_words};
use crate::medium::{Attach, Media, PartsOut};
use crate::trace::Part;
use nvmem::device::{Contract, EraseUnit, Torn};
use nvmem::planted;
use std::marker::PhantomData;

/// A device medium by its data sheet. Implement it for your own.
///
/// ```
/// use nvmem::device::{Contract, EraseUnit, Torn};
/// use powerfail::{Chip, Simulated};
///
/// /// A data flash: words of 4 bytes that a cut may leave with any content, erased by pages of 64.
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
    /// What a cut leaves, and the sizes. With [`Torn::Subset`] the atomic unit has 1, 2 or 4 bytes.
    const CONTRACT: Contract;
    /// Whether an erase unit whose erase was cut reads the same at each boot, whatever it holds. Unless told, this is so
    /// where a cut word does.
    const STABLE_ERASE: bool = !matches!(Self::CONTRACT.torn, Torn::Unstable);
    /// Bytes that are programmed by one command: 128 for a half page of an STM32L1, 256 for most SPI NOR. A cut may
    /// leave any word of it torn, whatever its neighbours are.
    const PAGE: u32 = Self::CONTRACT.write_size;
}

/// A flash whose words may be programmed more than once between two erases, each time to clear more bits: its [`Device`]
/// implements the `MultiwriteNorFlash` of embedded-storage. Its `write_once` is `false`.
#[diagnostic::on_unimplemented(
    message = "words of `{Self}` are not known to be programmed more than once between two erases",
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

/// The flash of an STM32F0: words of 4 bytes here (the chip does 2), pages of 2 KiB, erased to ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stm32f0 {}
impl Chip for Stm32f0 {
    const CONTRACT: Contract = nor("stm32f0", 4, 2048, 0xff, true);
}

/// A serial NOR flash: any byte, pages of 256 programmed together, sectors of 4 KiB, bits may be cleared twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpiNor {}
impl Chip for SpiNor {
    const CONTRACT: Contract = nor("spi-nor", 1, 4096, 0xff, false);
    const PAGE: u32 = 256;
}
impl Multiwrite for SpiNor {}

/// A NOR flash behind a write buffer: `flush` means something.
///
/// Words of 4 bytes are programmed whole, and small units of 64 bytes are erased. Of what was programmed and erased since the
/// last [`flush`](nvmem::Medium::flush) a cut leaves any combination of words. What comes later to the same word is later
/// there, too; otherwise nothing but a flush is in order, not even an erase.
/// For another size implement [`Chip`] with [`Torn::Subset`] and an erase unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferedNor {}
impl Chip for BufferedNor {
    const CONTRACT: Contract = Contract {
        unit: 4,
        torn: Torn::Subset,
        ..nor("buffered-nor", 4, 64, 0xff, true)
    };
}

/// FRAM behind SPI, as the MB85RS4MT: bytes, in order, nothing to erase.
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

/// MRAM programmed by 16 bytes, as in an Apollo4: the unit in flight holds anything.
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

/// A simulated device; the program gets a [`Device`].
pub struct Simulated<C> {
    image: Vec<u8>,
    endurance: Option<u32>,
    refusal_fails: bool,
    _c: PhantomData<fn() -> C>,
}

impl<C: Chip> Simulated<C> {
    /// `size` bytes, erased; zero where nothing is ever erased.
    pub fn new(size: usize) -> Self {
        let fill = C::CONTRACT.erase.map_or(0, |e| e.erased);
        Self::with_image(vec![fill; size])
    }

    /// A device that holds `image` when the first run begins.
    pub fn with_image(image: Vec<u8>) -> Self {
        Simulated {
            image,
            endurance: None,
            refusal_fails: false,
            _c: PhantomData,
        }
    }

    /// The same kind of device with another size, erased.
    pub fn size(self, size: usize) -> Self {
        Simulated {
            endurance: self.endurance,
            refusal_fails: self.refusal_fails,
            ..Self::new(size)
        }
    }

    /// An erase unit is worn out after so many erases, cut ones included: one more is a failure. Counted from the first
    /// boot on: in [`endure`](crate::endure()) over the whole life, in [`explore`](crate::explore()) over one execution with its
    /// cuts, where states that differ in wear only are one. What the data sheet promises is in the [`Contract`]; a test gives a fraction of it, and ages less.
    pub fn endurance(mut self, cycles: u32) -> Self {
        self.endurance = Some(cycles);
        self
    }

    /// A call that the device refuses is a failure: a write-once word written twice, a range outside or not aligned.
    ///
    /// Without this the program gets the error, and passes if it ignores it.
    pub fn refusal_fails(mut self) -> Self {
        self.refusal_fails = true;
        self
    }
}

/// Devices with flash, ready to use. Four erase units large unless [sized](Simulated::size).
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
}

impl<C: Chip> Media for Simulated<C> {
    type Nv<'r> = Device<'r, C>;

    fn parts(&self, out: &mut PartsOut) {
        const {
            let c = C::CONTRACT;
            assert!(c.is_sound(), "the chip's CONTRACT contradicts itself");
            assert!(
                !matches!(c.torn, Torn::Subset) || in_words(&c),
                "powerfail knows Torn::Subset with a CONTRACT.unit of 1, 2 or 4 bytes"
            );
        };
        let c = C::CONTRACT;
        let part = Part {
            unit: if in_words(&c) { c.unit as u8 } else { 1 },
            buffered: c.torn == Torn::Subset && !planted!("powerfail/no-write-buffer"),
            endurance: self.endurance,
            refusal_fails: self.refusal_fails,
            ..Part::of(c.name)
        };
        out.add(part, &self.image);
    }

    unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Device<'r, C> {
        let part = run.parts.next().expect("one part for each medium");
        Device::new(run.rec, part.at, part.len)
    }
}
