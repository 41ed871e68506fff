//! What devices promise: the chips that can be simulated.

use crate::device::Device;
use crate::medium::{Attach, Media, PartsOut};
use nvmem::device::{Contract, EraseUnit, Torn};
use std::marker::PhantomData;

/// A device medium by its data sheet. Implement it for your own.
pub trait Chip: Send + Sync + 'static {
    /// What a cut leaves, and the sizes.
    const CONTRACT: Contract;
    /// Bytes that are programmed by one command: 128 for a half page of an STM32L1, 256 for most SPI NOR. A cut may
    /// leave any word of it torn, whatever its neighbours are.
    const PAGE: u32 = Self::CONTRACT.write_size;
}

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
            _c: PhantomData,
        }
    }

    /// The same kind of device with another size, erased.
    pub fn size(self, size: usize) -> Self {
        Simulated {
            endurance: self.endurance,
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
    /// See [`SpiNor`].
    pub fn spi() -> Simulated<SpiNor> {
        Simulated::new(4 * 4096)
    }
}

impl<C: Chip> Media for Simulated<C> {
    type Nv<'r> = Device<'r, C>;

    fn parts(&self, out: &mut PartsOut) {
        const { assert!(C::CONTRACT.is_sound()) };
        out.add(C::CONTRACT.name, 1, false, &self.image, self.endurance);
    }

    unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Device<'r, C> {
        let part = run.parts.next().expect("one part for each medium");
        Device::new(run.rec, part.at, part.len)
    }
}
