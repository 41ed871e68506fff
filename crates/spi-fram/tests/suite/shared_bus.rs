//! A heap whose chip shares its bus under a critical section. The medium may be used in an
//! interrupt, so a saver takes it; a save comes at any point of another driver's transfers.
#![allow(dead_code)] // the shared model has more

use critical_section::Mutex;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType as PinErrorType, OutputPin};
use embedded_hal::spi::{ErrorType, Operation, SpiBus, SpiDevice};
use embedded_hal_bus::spi::CriticalSectionDevice;
use nvmem::Trusted;
use nvmem::ram::RamFram;
use spi_fram::sim::{Chip, Kind};
use spi_fram::{Part, SpiFram};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::{Arc, Mutex as Lock};
use vnv_heap::{Config, Heap, Own, Saver, brand, instrument};

const SIZE: usize = 1024;
const PART: Part = Part::new("small", SIZE as u32);

type Wire = Arc<Lock<Chip<RamFram<SIZE>, RamFram<1>>>>;

/// Clock and data lines. The chip listens only while its own select is low.
struct Bus(Wire);

impl Bus {
    fn byte(&mut self, out: u8) -> u8 {
        let mut chip = self.0.lock().unwrap();
        let bits = (0..8).rev().map(|i| out >> i & 1 != 0);
        let read = bits.fold(0, |read, bit| read << 1 | chip.clock(bit) as u8);
        chip.now += 1_000;
        read
    }
}

impl ErrorType for Bus {
    type Error = Infallible;
}

impl SpiBus for Bus {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.iter_mut().for_each(|w| *w = self.byte(0));
        Ok(())
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        words.iter().for_each(|w| {
            self.byte(*w);
        });
        Ok(())
    }
    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        for (to, from) in read.iter_mut().zip(write) {
            *to = self.byte(*from);
        }
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.iter_mut().for_each(|w| *w = self.byte(*w));
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The chip's select.
struct Select(Wire);

impl PinErrorType for Select {
    type Error = Infallible;
}

impl OutputPin for Select {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.lock().unwrap().select();
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.lock().unwrap().deselect();
        Ok(())
    }
}

/// Another device's select.
struct Other;

impl PinErrorType for Other {
    type Error = Infallible;
}

impl OutputPin for Other {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

struct NoDelay;

impl DelayNs for NoDelay {
    fn delay_ns(&mut self, _: u32) {}
}

#[test]
fn a_saver_takes_a_bus_that_a_critical_section_shares() {
    static POWER_LOW: Saver = Saver::new();
    let chip = Chip::new(Kind::of(PART), RamFram::filled(0), RamFram::filled(0));
    let wire: Wire = Arc::new(Lock::new(chip));
    wire.lock().unwrap().deselect();
    let bus = Mutex::new(RefCell::new(Bus(wire.clone())));
    let config = Config {
        burst: 32,
        objects: 8,
        ..Config::DEFAULT
    };
    let saves = Cell::new(0);
    for boot in 0..2u32 {
        let mut sensor = CriticalSectionDevice::new(&bus, Other, NoDelay).unwrap();
        let device = CriticalSectionDevice::new(&bus, Select(wire.clone()), NoDelay).unwrap();
        // SAFETY: the chip stores what it accepts, and no other driver selects it.
        let fram = unsafe { Trusted::new(SpiFram::new(device, PART)) };
        // Less RAM than the objects need.
        let mut ram = [0; 112];
        brand!(b);
        let mut heap = Heap::<[Option<Own<'_, [u32; 8]>>; 3], _, vnv_heap::JustInTime>::open(
            b,
            fram,
            &mut ram,
            config,
            |heap| {
                let new = || heap.alloc([0; 8]).map(Some);
                Ok([new()?, new()?, new()?])
            },
        )
        .unwrap();
        let count = Cell::new(5 * boot);
        let interrupt = || {
            count.set(count.get() + 1);
            // An operation that is interrupted again and again makes no progress, and returns an
            // error.
            if !count.get().is_multiple_of(16) {
                return;
            }
            saves.set(saves.get() + 1);
            // SAFETY: called as an interrupt between two critical sections; no object has padding.
            unsafe {
                POWER_LOW.persist().unwrap();
                POWER_LOW.restore().unwrap();
            }
        };
        heap.attach(&POWER_LOW, || {
            let work = || {
                for i in 0..9 {
                    sensor
                        .transaction(&mut [Operation::Write(&[2, 0, 0, 7])])
                        .unwrap();
                    let root = heap.root().unwrap();
                    heap.update(root[i % 3].as_ref().unwrap(), |v| {
                        v.fill(9 * boot + i as u32)
                    })
                    .unwrap();
                }
            };
            // SAFETY: the hook only persists and restores.
            unsafe { instrument::interrupted(interrupt, work) }
        })
        .unwrap();
        let root = heap.root().unwrap();
        for (i, own) in root.iter().enumerate() {
            let own = own.as_ref().unwrap();
            assert_eq!(heap.read(own).unwrap(), [9 * boot + 6 + i as u32; 8]);
        }
        drop(root);
        heap.persist().unwrap();
    }
    assert!(saves.get() > 5, "{saves:?}");
}
