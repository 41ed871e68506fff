//! Cases in which the chip fails silently and the driver reports an error. The first tests check
//! the model itself.

use crate::chip::bench::{Delay, Fault, Plain, plain};
use embedded_hal::spi::{Operation, SpiDevice};
use proptest::prelude::*;
use spi_fram::sim::Kind;
use spi_fram::{Error, Part, Protection, SpiFram};

const FULL: Part = Part::new("full", 512).with_sleep(400);

fn send<const N: usize>(bench: &mut Plain<N>, bytes: &[u8]) {
    SpiDevice::write(bench, bytes).expect("a working bus");
}

fn ask<const N: usize, const L: usize>(bench: &mut Plain<N>, bytes: &[u8]) -> [u8; L] {
    let mut answer = [0; L];
    let mut both = [Operation::Write(bytes), Operation::Read(&mut answer)];
    SpiDevice::transaction(bench, &mut both).expect("a working bus");
    answer
}

#[test]
fn the_model_drops_a_write_without_permission_and_forgets_it_after_one() {
    let mut b = plain::<512>(Part::FM25L16B);
    send(&mut b, &[0x02, 0, 5, 1]);
    assert_eq!(ask(&mut b, &[0x03, 0, 5]), [0xEE]);
    send(&mut b, &[0x06]);
    assert_eq!(ask(&mut b, &[0x05]), [0x02]);
    send(&mut b, &[0x02, 0, 5, 1]);
    assert_eq!(ask(&mut b, &[0x05]), [0x00]);
    send(&mut b, &[0x02, 0, 5, 2]);
    assert_eq!(ask(&mut b, &[0x03, 0, 5]), [1]);
    // Write enable withdrawn by WRDI; WREN with an extra byte; a write that ends within its address
    // clears the latch.
    for before in [&[0x04][..], &[0x06, 0x00], &[0x02, 0]] {
        send(&mut b, &[0x06]);
        send(&mut b, before);
        let expected = if before.len() == 2 && before[0] == 6 {
            // The first WREN still enables the write.
            [9]
        } else {
            [1]
        };
        send(&mut b, &[0x02, 0, 5, 9]);
        assert_eq!(ask(&mut b, &[0x03, 0, 5]), expected, "{before:?}");
        send(&mut b, &[0x06]);
        send(&mut b, &[0x02, 0, 5, 1]);
    }
}

#[test]
fn the_model_goes_on_at_its_start() {
    let mut b = plain::<512>(Part::FM25L16B);
    send(&mut b, &[0x06]);
    send(&mut b, &[0x02, 0x01, 0xFF, 7, 8]);
    assert_eq!(ask(&mut b, &[0x03, 0x01, 0xFF]), [7, 8, 0xEE]);
    // Upper address bits are ignored.
    assert_eq!(ask(&mut b, &[0x03, 0xFF, 0xFF]), [7]);
}

#[test]
fn the_model_protects_blocks_and_the_pin_locks_them() {
    let mut b = plain::<512>(Part::FM25L16B);
    for (bits, end) in [(0x04u8, 384u16), (0x08, 256), (0x0C, 0), (0x00, 512)] {
        send(&mut b, &[0x06]);
        send(&mut b, &[0x01, bits]);
        assert_eq!(ask(&mut b, &[0x05]), [bits]);
        for at in [0, 255, 256, 383, 384, 511] {
            let [high, low] = u16::to_be_bytes(at);
            send(&mut b, &[0x06]);
            send(&mut b, &[0x02, high, low, bits + 1]);
            let [now] = ask(&mut b, &[0x03, high, low]);
            assert_eq!(now == bits + 1, at < end, "{bits:x} {at}");
        }
    }
    // Not without write enable, not with the pin low and WPEN set; again with the pin high.
    send(&mut b, &[0x01, 0x0C]);
    assert_eq!(ask(&mut b, &[0x05]), [0]);
    b.chip.borrow_mut().wp_high = false;
    for (value, then) in [(0x84, 0x84), (0x00, 0x84)] {
        send(&mut b, &[0x06]);
        send(&mut b, &[0x01, value]);
        assert_eq!(ask(&mut b, &[0x05]), [then]);
    }
    b.chip.borrow_mut().wp_high = true;
    send(&mut b, &[0x06]);
    send(&mut b, &[0x01, 0x00]);
    assert_eq!(ask(&mut b, &[0x05]), [0]);
}

#[test]
fn the_model_sleeps_until_it_is_selected_and_then_some() {
    let mut b = plain::<512>(FULL);
    send(&mut b, &[0xB9]);
    assert!(b.chip.borrow().sleeps());
    assert_eq!(ask(&mut b, &[0x03, 0, 0]), [0xFF]);
    assert!(!b.chip.borrow().sleeps());
    assert_eq!(ask(&mut b, &[0x03, 0, 0]), [0xFF]);
    assert_eq!(b.chip.borrow().forbidden, 1);
    b.chip.borrow_mut().now += 400_000;
    assert_eq!(ask(&mut b, &[0x03, 0, 0]), [0xEE]);
}

#[test]
fn every_part_is_recognised_and_written_to_its_last_byte() {
    for part in Part::ALL {
        let b = crate::chip::bench::Bench::new(
            Kind::of(part),
            crate::chip::traits::Cells(vec![0; part.capacity() as usize]),
            crate::chip::traits::Cells(vec![0]),
        );
        let mut fram = SpiFram::new(b.clone(), part);
        fram.init(&mut Delay(b.clone())).unwrap();
        let last = part.capacity() - 1;
        for (at, v) in [
            (last, 1),
            (0, 2),
            (part.capacity() / 2, 3),
            (255, 4),
            (256, 5),
        ] {
            fram.write(at, &[v]).unwrap();
            assert_eq!(b.chip.borrow_mut().cell(at), v, "{} {at:x}", part.name());
        }
        let mut read = [0];
        fram.read(last, &mut read).unwrap();
        assert_eq!(read, [1], "{}", part.name());
        assert_eq!(fram.write(last, &[0; 2]), Err(Error::OutOfRange));
        assert_eq!(fram.read(part.capacity(), &mut [0]), Err(Error::OutOfRange));
        // Nothing wrapped to the start.
        assert_eq!(b.chip.borrow_mut().cell(0), 2);
        assert_eq!(b.chip.borrow().forbidden, 0);
    }
}

#[test]
fn another_chip_is_refused() {
    let mut kind = Kind::of(Part::MB85RS2MTA);
    kind.part = Part::MB85RS1MT;
    let b = crate::chip::bench::Bench::new(
        kind,
        crate::chip::traits::Cells(vec![0; 16]),
        crate::chip::traits::Cells(vec![0]),
    );
    let mut fram = SpiFram::new(b.clone(), Part::MB85RS1MT);
    assert_eq!(fram.init(&mut Delay(b.clone())), Err(Error::WrongDevice));
    // No chip.
    b.chip.borrow_mut().kind = Kind::of(Part::FM25L16B);
    let mut fram = SpiFram::new(b.clone(), Part::MB85RS1MT);
    assert_eq!(fram.init(&mut Delay(b)), Err(Error::NoAnswer));
}

#[test]
fn protection_is_seen_kept_and_given_up() {
    let b = plain::<2048>(Part::FM25L16B);
    let mut fram = SpiFram::new(b.clone(), Part::FM25L16B);
    // Undefined bits that some chips store.
    b.chip.borrow_mut().status.bytes_mut()[0] = 0x50;
    fram.protect(Protection::UpperHalf, true).unwrap();
    assert_eq!(b.chip.borrow_mut().status_bits(), 0xD8);
    fram.write(1023, &[1]).unwrap();
    let sent = b.transactions();
    assert_eq!(fram.write(1023, &[1, 2]), Err(Error::Protected));
    assert_eq!(fram.write(2047, &[1]), Err(Error::Protected));
    assert_eq!(b.transactions(), sent, "nothing on the bus");
    assert_eq!(b.chip.borrow_mut().cell(1023), 1);
    // A new driver reads the protection in `init`; before that it cannot know it.
    let mut later = SpiFram::new(b.clone(), Part::FM25L16B);
    later.init(&mut Delay(b.clone())).unwrap();
    assert_eq!(later.write(1024, &[1]), Err(Error::Protected));
    // The pin locks the protection.
    b.chip.borrow_mut().wp_high = false;
    assert_eq!(
        fram.protect(Protection::Nothing, false),
        Err(Error::Protected)
    );
    assert_eq!(fram.write(1024, &[1]), Err(Error::Protected));
    b.chip.borrow_mut().wp_high = true;
    fram.protect(Protection::Nothing, false).unwrap();
    assert_eq!(b.chip.borrow_mut().status_bits(), 0x50);
    fram.write(2047, &[3]).unwrap();
    assert_eq!(b.chip.borrow_mut().cell(2047), 3);
}

#[test]
fn sleep_is_left_after_the_recovery_time() {
    let b = plain::<8192>(Part::MB85RS64T);
    let mut fram = SpiFram::new(b.clone(), Part::MB85RS64T);
    let mut delay = Delay(b.clone());
    fram.sleep().unwrap();
    assert!(b.chip.borrow().sleeps());
    assert_eq!(fram.write(0, &[1]), Err(Error::Asleep));
    assert!(b.chip.borrow().sleeps(), "nothing on the bus");
    fram.wake(&mut delay).unwrap();
    fram.write(0, &[1]).unwrap();
    let mut read = [0];
    fram.read(0, &mut read).unwrap();
    assert_eq!(read, [1]);
    // Waking an awake chip does no harm.
    fram.wake(&mut delay).unwrap();
    fram.write(1, &[2]).unwrap();
    assert_eq!(b.chip.borrow_mut().cell(1), 2);
    assert_eq!(b.chip.borrow().forbidden, 0);
}

/// The processor is reset while the chip sleeps.
#[test]
fn init_wakes_a_chip_that_sleeps_from_before() {
    let b = plain::<8192>(Part::MB85RS64T);
    SpiFram::new(b.clone(), Part::MB85RS64T).sleep().unwrap();
    let mut fram = SpiFram::new(b.clone(), Part::MB85RS64T);
    fram.init(&mut Delay(b.clone())).unwrap();
    fram.write(0, &[1]).unwrap();
    assert_eq!(b.chip.borrow_mut().cell(0), 1);
}

#[test]
fn a_write_costs_what_the_documentation_says() {
    for (part, head) in [(Part::FM25L16B, 3), (Part::MB85RS1MT, 4)] {
        let b = plain::<2048>(part);
        let mut fram = SpiFram::new(b.clone(), part).with_max_burst(10);
        fram.write(0, &[0; 25]).unwrap();
        fram.read(0, &mut [0; 11]).unwrap();
        let l = b.lengths.borrow().clone();
        let expected = [1, head + 10, 1, head + 10, 1, head + 5, head + 10, head + 1];
        assert_eq!(l, expected);
    }
}

proptest! {
    /// Reads and writes of any ranges, in bursts of any length, behave as on an array; refused ones
    /// change nothing.
    #[test]
    fn it_is_an_array(
        burst in 0u32..20,
        calls in prop::collection::vec((any::<bool>(), 0u32..2200, 0usize..60), 1..40),
    ) {
        let b = plain::<2048>(Part::FM25L16B);
        let mut fram = SpiFram::new(b.clone(), Part::FM25L16B).with_max_burst(burst);
        let mut array = [0xEE; 2048];
        for (i, (write, at, len)) in calls.into_iter().enumerate() {
            let range = at as usize..at as usize + len;
            if write {
                let bytes: Vec<u8> = (0..len).map(|j| (i * 7 + j) as u8).collect();
                let r = fram.write(at, &bytes);
                match array.get_mut(range) {
                    Some(a) => {
                        prop_assert_eq!(r, Ok(()));
                        a.copy_from_slice(&bytes);
                    }
                    None => prop_assert_eq!(r, Err(Error::<Fault>::OutOfRange)),
                }
            } else {
                let mut buf = vec![0; len];
                let r = fram.read(at, &mut buf);
                match array.get(range) {
                    Some(a) => {
                        prop_assert_eq!(r, Ok(()));
                        prop_assert_eq!(a, &buf[..]);
                    }
                    None => prop_assert_eq!(r, Err(Error::<Fault>::OutOfRange)),
                }
            }
        }
        let chip = b.chip.borrow();
        prop_assert_eq!(chip.cells.bytes(), &array);
    }
}
