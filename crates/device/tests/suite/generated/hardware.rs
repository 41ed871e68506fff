//! Registers on a bus that fails, and their driver. Registers are volatile.

use super::model::{DEVICES, Seen, Words};
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use nv_device::nvmem::Plain;
use nv_device::{Apply, Keyed, Restore};
use powerfail::World;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nak;

/// What a boot begins with.
const GARBAGE: u32 = 0xDEAD_BEEF;

pub struct Hardware<'w, 'r> {
    pub world: &'w World<'r, Seen>,
    pub registers: [Cell<Words>; DEVICES],
    /// Writes until one fails; 0: none does.
    pub fails_in: Cell<u32>,
    /// A write has failed since the driver was built.
    pub broken: [Cell<bool>; DEVICES],
    /// There is a driver.
    pub alive: [Cell<bool>; DEVICES],
    /// The devices that were brought to a context since this was cleared, in order.
    pub followed: RefCell<Vec<usize>>,
}

impl<'w, 'r> Hardware<'w, 'r> {
    pub fn new(world: &'w World<'r, Seen>) -> Self {
        Hardware {
            world,
            registers: core::array::from_fn(|_| Cell::new([GARBAGE; 5])),
            fails_in: Cell::new(0),
            broken: core::array::from_fn(|_| Cell::new(false)),
            alive: core::array::from_fn(|_| Cell::new(false)),
            followed: RefCell::new(Vec::new()),
        }
    }

    /// Writes the registers of a device, one after the other.
    pub fn write(&self, device: usize, to: Words) -> Result<(), Nak> {
        for (i, word) in to.into_iter().enumerate() {
            match self.fails_in.get() {
                0 => {}
                1 => {
                    self.fails_in.set(0);
                    self.broken[device].set(true);
                    return Err(Nak);
                }
                n => self.fails_in.set(n - 1),
            }
            let mut now = self.registers[device].get();
            now[i] = word;
            self.registers[device].set(now);
        }
        Ok(())
    }

    /// Whether what the device shows must be its committed context.
    pub fn shows_context(&self, device: usize, is_eager: bool) -> bool {
        self.alive[device].get() || is_eager && !self.broken[device].get()
    }
}

/// A context: made of a number, and shown as words.
pub trait Context: Plain + Copy {
    fn of(value: u32) -> Self;
    fn words(&self) -> Words;
}
macro_rules! numbers {
    ($($t:ty),+) => {$(
        impl Context for $t {
            fn of(value: u32) -> Self {
                value as $t
            }
            fn words(&self) -> Words {
                [u32::from(*self), 0, 0, 0, 0]
            }
        }
    )+};
}
numbers!(u8, u16, u32);
impl<const N: usize> Context for [u32; N]
where
    [u32; N]: Plain,
{
    fn of(value: u32) -> Self {
        core::array::from_fn(|i| value + i as u32)
    }
    fn words(&self) -> Words {
        core::array::from_fn(|i| self.get(i).copied().unwrap_or(0))
    }
}

/// The driver of device `D`. It follows by writes, or asks for a rebuild where the value says so.
pub struct Driver<'h, C, const D: usize> {
    pub hardware: &'h Hardware<'h, 'h>,
    context: PhantomData<C>,
}

impl<C: Context, const D: usize> Driver<'_, C, D> {
    /// What a call does.
    pub fn show(&self, context: C) -> Result<(), Nak> {
        self.hardware.write(D, context.words())
    }
}

impl<'h, C: Context, const D: usize> Restore for Driver<'h, C, D> {
    type Context = C;
    type Parts = &'h Hardware<'h, 'h>;
    type Error = Nak;
    fn restore(hardware: &mut Self::Parts, context: &C) -> Result<Self, Nak> {
        hardware.followed.borrow_mut().push(D);
        hardware.write(D, context.words())?;
        hardware.broken[D].set(false);
        assert!(!hardware.alive[D].replace(true), "two drivers");
        Ok(Driver {
            hardware,
            context: PhantomData,
        })
    }
    fn release(self, hardware: &mut Self::Parts) {
        hardware.alive[D].set(false);
    }
    fn apply(&mut self, context: &C) -> Result<Apply, Nak> {
        self.hardware.followed.borrow_mut().push(D);
        if context.words()[0] % 4 == 3 {
            return Ok(Apply::Rebuild);
        }
        self.show(*context)?;
        Ok(Apply::Done)
    }
}

/// The number of the device that keeps the key of its last call through power cuts.
pub const KEEPS: usize = 3;

impl Keyed for Driver<'_, u32, KEEPS> {
    type Key = u32;
    fn next(context: &u32) -> u32 {
        context + 1
    }
    fn last(&mut self) -> Result<u32, Nak> {
        Ok(self.hardware.world.with(|w| w.kept))
    }
    fn advance(context: &mut u32, key: u32) {
        *context = key
    }
}

/// The number of the device that commits by itself and keeps the key of its last call, too.
pub const OWN_KEEPS: usize = 4;

impl<C: Context> Keyed for Driver<'_, C, OWN_KEEPS> {
    type Key = u32;
    fn next(context: &C) -> u32 {
        context.words()[0] + 1
    }
    fn last(&mut self) -> Result<u32, Nak> {
        Ok(self.hardware.world.with(|w| w.own_kept))
    }
    fn advance(context: &mut C, key: u32) {
        *context = C::of(key)
    }
}
