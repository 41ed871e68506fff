//! The exact bytes of each command on the bus, blocking and async.

use embassy_futures::block_on;
use embedded_hal_mock::eh1::delay::{CheckedDelay, Transaction as Wait};
use embedded_hal_mock::eh1::spi::{Mock, Transaction as T};
use spi_fram::{
    AddressWidth, AsyncSpiFram, DeviceId, Error, Identity, Part, Protection, SpiFram, Status,
};

/// A transaction that sends these bytes.
fn sends(bytes: &[u8]) -> Vec<T<u8>> {
    vec![
        T::transaction_start(),
        T::write_vec(bytes.to_vec()),
        T::transaction_end(),
    ]
}

/// A transaction that sends a command's header and then data.
fn writes(head: &[u8], data: &[u8]) -> Vec<T<u8>> {
    vec![
        T::transaction_start(),
        T::write_vec(head.to_vec()),
        T::write_vec(data.to_vec()),
        T::transaction_end(),
    ]
}

/// A transaction that sends a command's header and receives data.
fn reads(head: &[u8], answer: &[u8]) -> Vec<T<u8>> {
    vec![
        T::transaction_start(),
        T::write_vec(head.to_vec()),
        T::read_vec(answer.to_vec()),
        T::transaction_end(),
    ]
}

const WREN: &[u8] = &[0x06];

/// Runs the calls on a blocking and on an async driver. Each bus expects exactly these
/// transactions, and each delay these microseconds.
macro_rules! on_the_bus {
    ($part:expr, [$($bus:expr),*], [$($us:expr),*], |$fram:ident, $delay:ident, $wait:ident| $body:block) => {{
        let selections: Vec<Vec<T<u8>>> = vec![$($bus),*];
        let bus = selections.concat();
        let us: Vec<Wait> = vec![$(Wait::delay_us($us)),*];
        {
            macro_rules! $wait { ($e:expr) => { $e } }
            let mut spi = Mock::new(&bus);
            let mut $delay = CheckedDelay::new(&us);
            #[allow(unused_mut)]
            let mut $fram = SpiFram::new(spi.clone(), $part);
            $body
            spi.done();
            $delay.done();
        }
        {
            macro_rules! $wait { ($e:expr) => { block_on($e) } }
            let mut spi = Mock::new(&bus);
            let mut $delay = CheckedDelay::new(&us);
            #[allow(unused_mut)]
            let mut $fram = AsyncSpiFram::new(spi.clone(), $part);
            $body
            spi.done();
            $delay.done();
        }
    }};
}

#[test]
fn read() {
    on_the_bus!(
        Part::MB85RS64V,
        [reads(&[0x03, 0x12, 0x34], &[1, 2, 3])],
        [],
        |fram, d, now| {
            let mut b = [0; 3];
            now!(fram.read(0x1234, &mut b)).unwrap();
            assert_eq!(b, [1, 2, 3]);
        }
    );
    on_the_bus!(
        Part::MB85RS4MT,
        [reads(&[0x03, 0x07, 0xFF, 0xFE], &[8, 9])],
        [],
        |fram, d, now| {
            let mut b = [0; 2];
            now!(fram.read(0x7_FFFE, &mut b)).unwrap();
            assert_eq!(b, [8, 9]);
        }
    );
}

#[test]
fn write() {
    on_the_bus!(
        Part::MB85RS512T,
        [sends(WREN), writes(&[0x02, 0xFF, 0xF0], &[7, 8])],
        [],
        |fram, d, now| { now!(fram.write(0xFFF0, &[7, 8])).unwrap() }
    );
    on_the_bus!(
        Part::CY15B104Q,
        [sends(WREN), writes(&[0x02, 0x01, 0x02, 0x03], &[0xAA])],
        [],
        |fram, d, now| { now!(fram.write(0x1_0203, &[0xAA])).unwrap() }
    );
}

#[test]
fn bursts() {
    on_the_bus!(
        Part::MB85RS1MT,
        [
            sends(WREN),
            writes(&[0x02, 0x00, 0xFF, 0xFE], &[1, 2, 3, 4]),
            sends(WREN),
            writes(&[0x02, 0x01, 0x00, 0x02], &[5]),
            reads(&[0x03, 0x00, 0xFF, 0xFE], &[1, 2, 3, 4]),
            reads(&[0x03, 0x01, 0x00, 0x02], &[5])
        ],
        [],
        |fram, d, now| {
            let mut fram = fram.with_max_burst(4);
            now!(fram.write(0xFFFE, &[1, 2, 3, 4, 5])).unwrap();
            let mut b = [0; 5];
            now!(fram.read(0xFFFE, &mut b)).unwrap();
            assert_eq!(b, [1, 2, 3, 4, 5]);
        }
    );
    // A limit of 0 counts as 1 byte.
    on_the_bus!(
        Part::MB85RS16,
        [reads(&[0x03, 0, 0], &[1]), reads(&[0x03, 0, 1], &[2])],
        [],
        |fram, d, now| {
            let mut fram = fram.with_max_burst(0);
            now!(fram.read(0, &mut [0; 2])).unwrap();
        }
    );
}

#[test]
fn nothing_for_nothing() {
    on_the_bus!(Part::MB85RS16, [], [], |fram, d, now| {
        now!(fram.read(2048, &mut [])).unwrap();
        now!(fram.write(2048, &[])).unwrap();
    });
}

#[test]
fn out_of_range_never_reaches_the_bus() {
    on_the_bus!(Part::MB85RS16, [], [], |fram, d, now| {
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
    });
    // The last byte is inside.
    on_the_bus!(
        Part::MB85RS16,
        [reads(&[0x03, 0x07, 0xFF], &[1])],
        [],
        |fram, d, now| {
            now!(fram.read(2047, &mut [0])).unwrap();
        }
    );
}

#[test]
fn status() {
    on_the_bus!(
        Part::MB85RS64T,
        [reads(&[0x05], &[0x8A])],
        [],
        |fram, d, now| {
            let s: Status = now!(fram.status()).unwrap();
            assert!(s.write_enabled() && s.pin_locks());
            assert_eq!(s.protection(), Protection::UpperHalf);
            // Now the driver knows the protection.
            assert_eq!(now!(fram.write(4095, &[1, 2])), Err(Error::Protected));
        }
    );
    // A data line that is pulled up.
    on_the_bus!(
        Part::MB85RS64T,
        [reads(&[0x05], &[0xFF])],
        [],
        |fram, d, now| {
            assert_eq!(now!(fram.status()), Err(Error::NoAnswer));
        }
    );
}

#[test]
fn protect() {
    // Bits 4 to 6 keep their values; the latch is not written.
    on_the_bus!(
        Part::MB85RS64V,
        [
            reads(&[0x05], &[0x52]),
            sends(WREN),
            sends(&[0x01, 0xD4]),
            reads(&[0x05], &[0xD4])
        ],
        [],
        |fram, d, now| { now!(fram.protect(Protection::UpperQuarter, true)).unwrap() }
    );
    // The chip keeps the old setting: WPEN is set and the pin is low.
    on_the_bus!(
        Part::MB85RS64V,
        [
            reads(&[0x05], &[0x8C]),
            sends(WREN),
            sends(&[0x01, 0x00]),
            reads(&[0x05], &[0x8C])
        ],
        [],
        |fram, d, now| {
            assert_eq!(
                now!(fram.protect(Protection::Nothing, false)),
                Err(Error::Protected)
            )
        }
    );
}

#[test]
fn write_disable() {
    on_the_bus!(Part::FM25W256, [sends(&[0x04])], [], |fram, d, now| {
        now!(fram.write_disable()).unwrap()
    });
}

#[test]
fn device_id() {
    let id = [0x04, 0x7F, 0x49, 0x03, 255, 255, 255, 255, 255];
    on_the_bus!(
        Part::MB85RS4MT,
        [reads(&[0x9F], &id)],
        [],
        |fram, d, now| {
            assert_eq!(now!(fram.device_id()), Ok(DeviceId(id)));
        }
    );
}

#[test]
fn sleep_and_wake() {
    on_the_bus!(
        Part::MB85RS4MT,
        [
            sends(&[0xB9]),
            reads(&[0x05], &[0xFF]),
            reads(&[0x03, 0, 0, 0], &[1])
        ],
        [450],
        |fram, delay, now| {
            now!(fram.sleep()).unwrap();
            // None of these calls uses the bus.
            assert_eq!(now!(fram.read(0, &mut [0])), Err(Error::Asleep));
            assert_eq!(now!(fram.write(0, &[0])), Err(Error::Asleep));
            assert_eq!(now!(fram.status()), Err(Error::Asleep));
            assert_eq!(now!(fram.device_id()), Err(Error::Asleep));
            assert_eq!(now!(fram.write_disable()), Err(Error::Asleep));
            assert_eq!(
                now!(fram.protect(Protection::All, false)),
                Err(Error::Asleep)
            );
            assert_eq!(now!(fram.sleep()), Err(Error::Asleep));
            now!(fram.wake(&mut delay)).unwrap();
            now!(fram.read(0, &mut [0])).unwrap();
        }
    );
    on_the_bus!(Part::MB85RS64V, [], [], |fram, delay, now| {
        assert_eq!(now!(fram.sleep()), Err(Error::Unsupported));
        now!(fram.wake(&mut delay)).unwrap();
    });
}

#[test]
fn init() {
    let id = [0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xC2, 0x24, 0x00];
    on_the_bus!(
        Part::FM25V10,
        [
            reads(&[0x05], &[0]),
            reads(&[0x9F], &id),
            reads(&[0x05], &[0x0C])
        ],
        [450],
        |fram, delay, now| {
            now!(fram.init(&mut delay)).unwrap();
            assert_eq!(now!(fram.write(0, &[1])), Err(Error::Protected));
        }
    );
    // A chip of half the capacity: refused before any other command.
    on_the_bus!(
        Part::FM25V20A,
        [reads(&[0x05], &[0]), reads(&[0x9F], &id)],
        [450],
        |fram, delay, now| { assert_eq!(now!(fram.init(&mut delay)), Err(Error::WrongDevice)) }
    );
    // A line that nothing drives.
    for line in [0x00, 0xFF] {
        on_the_bus!(
            Part::MB85RS256B,
            [reads(&[0x9F], &[line; 9])],
            [],
            |fram, delay, now| { assert_eq!(now!(fram.init(&mut delay)), Err(Error::NoAnswer)) }
        );
    }
    // Without sleep and ID, `init` reads only the status.
    on_the_bus!(
        Part::FM25L16B,
        [reads(&[0x05], &[0])],
        [],
        |fram, delay, now| { now!(fram.init(&mut delay)).unwrap() }
    );
    // A part that is not listed.
    let mine = Part::new("mine", 0x2_0000)
        .with_identity(Identity::Fujitsu(&[7]))
        .with_sleep(400);
    assert_eq!(
        (mine.address(), mine.capacity()),
        (AddressWidth::Three, 0x2_0000)
    );
    on_the_bus!(
        mine,
        [
            reads(&[0x05], &[0]),
            reads(&[0x9F], &[4, 0x7F, 0x27, 3, 0, 0, 0, 0, 0]),
            reads(&[0x05], &[0])
        ],
        [400],
        |fram, delay, now| { now!(fram.init(&mut delay)).unwrap() }
    );
}
