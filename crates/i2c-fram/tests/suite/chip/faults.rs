//! The power goes at every clock; bus errors come back as errors; futures are dropped.

use crate::chip::bench::Slow;
use embassy_futures::block_on;
use embassy_futures::poll_once;
use i2c_fram::sim::{Chip, Fault, Wires, chip};
use i2c_fram::{AsyncI2cFram, Error, I2cFram, Part};
use nvmem::ram::RamFram;
use std::cell::RefCell;
use std::pin::pin;

const PART: Part = Part::FM24CL04B;
const NEW: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/// Three bytes are in the first block.
const AT: usize = 253;

fn blank() -> RefCell<Chip<RamFram<512>>> {
    RefCell::new(chip(PART))
}

/// A prefix of the new bytes is stored, all other bytes are unchanged. Its length.
fn stored(c: &RefCell<Chip<RamFram<512>>>) -> usize {
    let chip = c.borrow();
    let cells = chip.cells.bytes();
    let n = cells[AT..].iter().take_while(|b| **b != 0).count();
    let expected = |i: usize| {
        if (AT..AT + n).contains(&i) {
            NEW[i - AT]
        } else {
            0
        }
    };
    assert!(cells.iter().enumerate().all(|(i, b)| *b == expected(i)));
    n
}

#[test]
fn the_power_goes_at_every_clock() {
    let mut seen = [0; 10];
    for clocks in 0.. {
        let c = blank();
        let mut fram = I2cFram::new(Wires(&c), PART).with_max_burst(4);
        c.borrow_mut().cut_after(clocks);
        let r = fram.write(AT as u32, &NEW);
        let n = stored(&c);
        seen[n] += 1;
        if r.is_ok() {
            assert_eq!(n, 9);
            break;
        }
        assert_eq!(r, Err(Error::Bus(Fault::PowerOff)));
        c.borrow_mut().power_cycle();
        fram.init().unwrap();
        fram.write(AT as u32, &NEW).unwrap();
        assert_eq!(stored(&c), 9);
    }
    // A byte has nine clocks and is stored at the eighth. Before the first, fourth and eighth
    // byte come two bytes of addresses.
    assert_eq!(seen, [26, 9, 9, 27, 9, 9, 9, 27, 9, 2]);
}

/// A chip that is gone for a part of a write. What is stored is a prefix, and the caller hears.
#[test]
fn a_bus_error_is_reported() {
    for burst in 1..=9 {
        let c = blank();
        let mut fram = I2cFram::new(Wires(&c), PART).with_max_burst(burst);
        c.borrow_mut().pins = 0b010;
        assert_eq!(
            fram.write(AT as u32, &NEW),
            Err(Error::Bus(Fault::NoDevice))
        );
        assert_eq!(fram.read(0, &mut [0; 3]), Err(Error::Bus(Fault::NoDevice)));
        assert_eq!(stored(&c), 0);
        c.borrow_mut().pins = 0;
        fram.write(AT as u32, &NEW).unwrap();
        assert_eq!(stored(&c), 9);
    }
}

#[test]
fn a_write_that_is_dropped_leaves_a_prefix() {
    let mut seen = Vec::new();
    for polls in 0.. {
        let c = blank();
        let mut fram = AsyncI2cFram::new(Slow(&c), PART).with_max_burst(4);
        let done = {
            let mut write = pin!(fram.write(AT as u32, &NEW));
            (0..polls).any(|_| block_on(async { poll_once(write.as_mut()) }).is_ready())
        };
        seen.push(stored(&c));
        // The driver still works.
        block_on(fram.write(AT as u32, &NEW)).unwrap();
        assert_eq!(stored(&c), 9);
        if done {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen, (0..=9).collect::<Vec<_>>());
}
