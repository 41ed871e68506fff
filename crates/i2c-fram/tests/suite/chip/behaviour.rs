//! All parts, their addresses and IDs, and the traits. The first test checks the model itself.

use crate::chip::bench::{Cells, Slow};
use embassy_futures::block_on;
use embedded_hal::i2c::I2c;
use embedded_storage::Storage;
use i2c_fram::sim::{Chip, Fault, Wires, chip};
use i2c_fram::{AsyncI2cFram, Error, I2cFram, Part};
use nvmem::device::{AsyncMedium, Contract, Medium, Torn};
use std::cell::RefCell;

#[test]
fn the_model_is_a_chip() {
    let c = RefCell::new(chip::<512>(Part::MB85RC04V));
    let mut bus = Wires(&c);
    let cell = |at| c.borrow_mut().cell(at);
    c.borrow_mut().pins = 0b100;
    // Another device's address, with pins or without.
    assert_eq!(bus.write(0x50, &[0, 1]), Err(Fault::NoDevice));
    assert_eq!(bus.write(0x2C, &[0, 1]), Err(Fault::NoDevice));
    // The block is in the device address. The counter goes on, and wraps at the end.
    bus.write(0x54, &[0xFF, 1, 2]).unwrap();
    assert_eq!((cell(0xFF), cell(0x100)), (1, 2));
    bus.write(0x55, &[0xFF, 3, 4]).unwrap();
    assert_eq!((cell(0x1FF), cell(0)), (3, 4));
    c.borrow_mut().counter_stays_in_block = true;
    bus.write(0x55, &[0xFF, 5, 6]).unwrap();
    assert_eq!(cell(0x1FF), 5);
    assert_eq!((cell(0x100), cell(0)), (6, 4));
    // A read goes on where the last one ended.
    let mut b = [0];
    bus.write_read(0x54, &[0xFE], &mut b).unwrap();
    bus.read(0x54, &mut b).unwrap();
    assert_eq!(b, [1]);
    // The write protection: acknowledged and dropped.
    c.borrow_mut().wp_high = true;
    bus.write(0x54, &[0, 9]).unwrap();
    assert_eq!(cell(0), 4);
    // Its ID, for its own address only, and again after three bytes.
    let mut id = [0; 4];
    bus.write_read(0x7C, &[0xA8], &mut id).unwrap();
    assert_eq!(id, [0x00, 0xA0, 0x58, 0x00]);
    assert!(bus.write_read(0x7C, &[0xA0], &mut id).is_err());
    assert_eq!(bus.read(0x7C, &mut id), Err(Fault::NoDevice));
}

/// Each part has all of its bytes, at each block's edges, and none more.
#[test]
fn every_part_at_its_edges() {
    for part in Part::ALL {
        for stays in [false, true] {
            let size = part.capacity();
            let mut model = Chip::new(part, Cells(vec![0xEE; size as usize]));
            model.counter_stays_in_block = stays;
            model.pins = 0b110;
            let c = RefCell::new(model);
            let mut fram = I2cFram::new(Wires(&c), part).with_pins(0b110);
            fram.init().unwrap();
            let block = part.address().block().min(size);
            for at in (0..size).step_by(block as usize) {
                let from = at.saturating_sub(3);
                let n = 6.min(size - from) as usize;
                let bytes: Vec<u8> = (1..=n as u8).map(|b| b ^ at as u8).collect();
                fram.write(from, &bytes).unwrap();
                let stored = c.borrow().cells.0[from as usize..][..n].to_vec();
                assert_eq!(stored, bytes, "{} at {at:x}", part.name());
                let mut read = vec![0; n];
                fram.read(from, &mut read).unwrap();
                assert_eq!(read, bytes, "{} at {at:x}", part.name());
            }
            let first = c.borrow_mut().cell(0);
            fram.write(size - 1, &[0x77]).unwrap();
            assert_eq!(c.borrow_mut().cell(size - 1), 0x77);
            let starts = c.borrow().starts;
            assert_eq!(fram.write(size - 1, &[0; 2]), Err(Error::OutOfRange));
            assert_eq!(fram.read(size, &mut [0]), Err(Error::OutOfRange));
            assert_eq!(c.borrow().starts, starts, "nothing on the bus");
            assert_eq!(c.borrow_mut().cell(0), first, "nothing wrapped");
        }
    }
}

#[test]
fn another_chip_is_refused() {
    let c = RefCell::new(chip::<32768>(Part::MB85RC256V));
    let mut fram = I2cFram::new(Wires(&c), Part::MB85RC256V);
    fram.init().unwrap();
    for part in [Part::MB85RC512T, Part::FM24V02A] {
        let mut fram = I2cFram::new(Wires(&c), part);
        assert_eq!(fram.init(), Err(Error::WrongDevice), "{}", part.name());
    }
    // Another address, and a part without an ID.
    let mut fram = I2cFram::new(Wires(&c), Part::MB85RC256V).with_pins(1);
    assert_eq!(fram.init(), Err(Error::NoAnswer));
    let mut fram = I2cFram::new(Wires(&c), Part::FM24W256).with_pins(1);
    assert_eq!(fram.init(), Err(Error::NoAnswer));
    let c = RefCell::new(chip::<32768>(Part::FM24W256));
    assert_eq!(
        I2cFram::new(Wires(&c), Part::MB85RC256V).init(),
        Err(Error::NoAnswer)
    );
    I2cFram::new(Wires(&c), Part::FM24W256).init().unwrap();
}

#[test]
fn it_is_the_byte_device_of_the_failure_model() {
    fn contract<M: Medium>(_: &M) -> Contract {
        M::CONTRACT
    }
    fn later<M: AsyncMedium>(_: &M) -> Contract {
        M::CONTRACT
    }
    let chip = RefCell::new(chip::<2048>(Part::MB85RC16));
    let c = contract(&I2cFram::new(Wires(&chip), Part::MB85RC16));
    assert_eq!(c, later(&AsyncI2cFram::new(Slow(&chip), Part::MB85RC16)));
    assert!(c.is_sound());
    assert_eq!((c.read_size, c.write_size, c.unit), (1, 1, 1));
    assert_eq!((c.torn, c.erase), (Torn::Prefix, None));
}

#[test]
fn the_traits() {
    fn run<M: Medium>(mut m: M) -> M::Error {
        assert_eq!(m.capacity(), 2048);
        m.write(2040, b"12345678").unwrap();
        // An erase does nothing: the bytes keep their values.
        m.erase(0, 2048).unwrap();
        m.flush().unwrap();
        let mut b = [0; 4];
        m.read(2044, &mut b).unwrap();
        assert_eq!(&b, b"5678");
        assert!(m.erase(1, 0).is_err());
        m.erase(0, 2049).unwrap_err()
    }
    fn store<S: Storage<Error: core::fmt::Debug>>(mut s: S) -> S::Error {
        assert_eq!(s.capacity(), 2048);
        s.write(3, &[1, 2, 3]).unwrap();
        let mut b = [0; 3];
        s.read(3, &mut b).unwrap();
        assert_eq!(b, [1, 2, 3]);
        s.write(2046, &b).unwrap_err()
    }
    let c = RefCell::new(chip::<2048>(Part::MB85RC16));
    let e = Error::<Fault>::OutOfRange;
    assert_eq!(run(I2cFram::new(Wires(&c), Part::MB85RC16)), e);
    assert_eq!(&c.borrow().cells.bytes()[2040..], b"12345678");
    assert_eq!(store(I2cFram::new(Wires(&c), Part::MB85RC16)), e);
}

/// A record on the async driver counts boots; the blocking form reads the same bytes.
#[test]
fn an_async_record() {
    let c = RefCell::new(chip::<2048>(Part::MB85RC16));
    for boot in 0..3u32 {
        let fram = AsyncI2cFram::new(Slow(&c), Part::MB85RC16).with_max_burst(5);
        block_on(async {
            let opened = nvmem::asynch::Record::open(fram, 200..328, 0u32).await;
            let mut boots = opened.unwrap();
            assert_eq!(*boots.get(), boot);
            boots.set(boot + 1).await.unwrap();
        });
    }
    let mut fram = I2cFram::new(Wires(&c), Part::MB85RC16);
    let read = nvmem::Record::<u32, _>::read(&mut fram, 200..328);
    assert_eq!(read.unwrap(), Some(3));
}
