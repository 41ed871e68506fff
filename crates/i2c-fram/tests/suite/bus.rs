//! The exact bytes of each call on the bus, blocking and async.

use embassy_futures::block_on;
use embedded_hal::i2c::{ErrorKind, NoAcknowledgeSource};
use embedded_hal_mock::eh1::i2c::{Mock, Transaction as T};
use i2c_fram::{AsyncI2cFram, DeviceId, Error, I2cFram, Part};

/// A write of a header and data, without a start between them.
fn writes(device: u8, head: &[u8], data: &[u8]) -> Vec<T> {
    vec![
        T::transaction_start(device),
        T::write(device, head.to_vec()),
        T::write(device, data.to_vec()),
        T::transaction_end(device),
    ]
}

fn reads(device: u8, head: &[u8], answer: &[u8]) -> Vec<T> {
    vec![T::write_read(device, head.to_vec(), answer.to_vec())]
}

/// Runs the calls on a blocking and on an async driver. Each bus expects exactly these
/// transactions.
macro_rules! on_the_bus {
    ($part:expr, [$($bus:expr),*], |$fram:ident, $wait:ident| $body:block) => {{
        let all: Vec<Vec<T>> = vec![$($bus),*];
        let bus = all.concat();
        {
            macro_rules! $wait { ($e:expr) => { $e } }
            let mut i2c = Mock::new(&bus);
            #[allow(unused_mut)]
            let mut $fram = I2cFram::new(i2c.clone(), $part);
            $body
            i2c.done();
        }
        {
            macro_rules! $wait { ($e:expr) => { block_on($e) } }
            let mut i2c = Mock::new(&bus);
            #[allow(unused_mut)]
            let mut $fram = AsyncI2cFram::new(i2c.clone(), $part);
            $body
            i2c.done();
        }
    }};
}

#[test]
fn two_address_bytes() {
    on_the_bus!(
        Part::MB85RC256V,
        [
            writes(0x50, &[0x12, 0x34], &[1, 2, 3]),
            reads(0x50, &[0x7F, 0xFE], &[8, 9])
        ],
        |fram, now| {
            now!(fram.write(0x1234, &[1, 2, 3])).unwrap();
            let mut b = [0; 2];
            now!(fram.read(0x7FFE, &mut b)).unwrap();
            assert_eq!(b, [8, 9]);
        }
    );
}

#[test]
fn one_address_byte() {
    on_the_bus!(
        Part::MB85RC04V,
        [writes(0x57, &[0x34], &[1]), reads(0x56, &[0xFF], &[8])],
        |fram, now| {
            // A0 does not exist.
            let mut fram = fram.with_pins(0b111);
            now!(fram.write(0x134, &[1])).unwrap();
            now!(fram.read(0xFF, &mut [0])).unwrap();
        }
    );
    // Across blocks, and no pins.
    on_the_bus!(
        Part::FM24CL16B,
        [
            writes(0x55, &[0xFE], &[1, 2]),
            writes(0x56, &[0x00], &[3]),
            reads(0x55, &[0xFE], &[1, 2]),
            reads(0x56, &[0x00], &[3])
        ],
        |fram, now| {
            let mut fram = fram.with_pins(0b111);
            now!(fram.write(0x5FE, &[1, 2, 3])).unwrap();
            let mut b = [0; 3];
            now!(fram.read(0x5FE, &mut b)).unwrap();
            assert_eq!(b, [1, 2, 3]);
        }
    );
}

#[test]
fn seventeen_bits() {
    on_the_bus!(
        Part::FM24V10,
        [
            writes(0x54, &[0xFF, 0xFF], &[1]),
            writes(0x55, &[0x00, 0x00], &[2]),
            reads(0x55, &[0xFF, 0xFF], &[7])
        ],
        |fram, now| {
            let mut fram = fram.with_pins(0b101);
            now!(fram.write(0xFFFF, &[1, 2])).unwrap();
            now!(fram.read(0x1_FFFF, &mut [0])).unwrap();
        }
    );
}

#[test]
fn bursts() {
    on_the_bus!(
        Part::MB85RC64A,
        [
            writes(0x50, &[0x00, 0xFE], &[1, 2, 3, 4]),
            writes(0x50, &[0x01, 0x02], &[5]),
            reads(0x50, &[0x00, 0xFE], &[1, 2, 3, 4]),
            reads(0x50, &[0x01, 0x02], &[5])
        ],
        |fram, now| {
            let mut fram = fram.with_max_burst(4);
            now!(fram.write(0xFE, &[1, 2, 3, 4, 5])).unwrap();
            let mut b = [0; 5];
            now!(fram.read(0xFE, &mut b)).unwrap();
            assert_eq!(b, [1, 2, 3, 4, 5]);
        }
    );
    // A limit of 0 counts as 1 byte.
    on_the_bus!(
        Part::MB85RC64A,
        [reads(0x50, &[0, 0], &[1]), reads(0x50, &[0, 1], &[2])],
        |fram, now| {
            let mut fram = fram.with_max_burst(0);
            now!(fram.read(0, &mut [0; 2])).unwrap();
        }
    );
}

#[test]
fn nothing_for_nothing_and_out_of_range() {
    on_the_bus!(Part::MB85RC16, [], |fram, now| {
        now!(fram.read(2048, &mut [])).unwrap();
        now!(fram.write(2048, &[])).unwrap();
        for (at, len) in [
            (2048, 1),
            (2047, 2),
            (0, 2049),
            (u32::MAX, 1),
            (u32::MAX, 4),
        ] {
            let mut buf = vec![0; len];
            assert_eq!(now!(fram.read(at, &mut buf)), Err(Error::OutOfRange));
            assert_eq!(now!(fram.write(at, &buf)), Err(Error::OutOfRange));
        }
        assert_eq!(now!(fram.device_id()), Err(Error::Unsupported));
    });
}

#[test]
fn init() {
    let id = [0x00, 0xA5, 0x10];
    on_the_bus!(
        Part::MB85RC256V,
        [reads(0x7C, &[0xA6], &id), reads(0x7C, &[0xA6], &id)],
        |fram, now| {
            let mut fram = fram.with_pins(0b011);
            now!(fram.init()).unwrap();
            assert_eq!(now!(fram.device_id()), Ok(DeviceId(id)));
        }
    );
    // A chip of another capacity.
    on_the_bus!(
        Part::MB85RC512T,
        [reads(0x7C, &[0xA0], &id)],
        |fram, now| {
            assert_eq!(now!(fram.init()), Err(Error::WrongDevice));
        }
    );
    // No chip, and another fault.
    let nobody = ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address);
    on_the_bus!(
        Part::MB85RC512T,
        [
            vec![T::write_read(0x7C, vec![0xA0], vec![0; 3]).with_error(nobody)],
            vec![T::write_read(0x7C, vec![0xA0], vec![0; 3]).with_error(ErrorKind::Bus)]
        ],
        |fram, now| {
            assert_eq!(now!(fram.init()), Err(Error::NoAnswer));
            assert_eq!(now!(fram.init()), Err(Error::Bus(ErrorKind::Bus)));
        }
    );
    // Without an ID, one byte is read.
    on_the_bus!(
        Part::FM24CL64B,
        [
            reads(0x50, &[0, 0], &[0]),
            vec![T::write_read(0x50, vec![0, 0], vec![0]).with_error(nobody)]
        ],
        |fram, now| {
            now!(fram.init()).unwrap();
            assert_eq!(now!(fram.init()), Err(Error::NoAnswer));
        }
    );
}
