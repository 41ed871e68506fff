//! Bus errors come back as errors; the power is cut at every clock.

use crate::chip::bench::{Delay, Fault, Plain, plain};
use nvmem::{Persist, Record};
use spi_fram::{Error, Part, Protection, SpiFram};

const PART: Part = Part::MB85RS64T;
type Chip = Plain<8192>;

fn chip() -> (Chip, SpiFram<Chip>) {
    let b = plain(PART);
    let fram = SpiFram::new(b.clone(), PART);
    (b, fram)
}

/// After a fault: a prefix of the new bytes is stored, all other bytes are unchanged.
fn is_prefix(b: &Chip, at: usize, new: &[u8], old: u8) -> usize {
    let chip = b.chip.borrow();
    let cells = chip.cells.bytes();
    let n = new
        .iter()
        .zip(&cells[at..])
        .take_while(|(n, c)| n == c)
        .count();
    let rest = cells[..at].iter().chain(&cells[at + n..]);
    assert!(rest.clone().all(|c| *c == old), "more than a prefix");
    n
}

/// The bus fails once, at each byte of a write in bursts.
#[test]
fn a_bus_error_leaves_a_prefix_and_the_next_write_works() {
    let new: Vec<u8> = (1..=40).collect();
    let mut lengths = Vec::new();
    for at in 0.. {
        let (b, fram) = chip();
        let mut fram = fram.with_max_burst(16);
        *b.fault.borrow_mut() = Some(at);
        let r = fram.write(100, &new);
        let n = is_prefix(&b, 100, &new, 0xEE);
        if r.is_ok() {
            assert_eq!((n, at), (40, 3 * (1 + 3) + 40));
            break;
        }
        assert_eq!(r, Err(Error::Bus(Fault::Bus)), "at byte {at}");
        lengths.push(n);
        fram.write(100, &new).unwrap();
        assert_eq!(is_prefix(&b, 100, &new, 0xEE), 40);
    }
    // Every prefix occurs.
    lengths.dedup();
    assert_eq!(lengths, (0..40).collect::<Vec<_>>());
}

/// Every command at every byte: the driver returns the bus's error, and the chip works afterwards.
#[test]
fn every_command_reports_the_bus_error() {
    type Command = fn(
        &mut SpiFram<Chip>,
        &mut Delay<nvmem::ram::RamFram<8192>, nvmem::ram::RamFram<1>>,
    ) -> Result<(), Error<Fault>>;
    let commands: [(&str, u64, Command); 9] = [
        ("read", 3 + 4, |f, _| f.read(0, &mut [0; 4])),
        ("write", 1 + 3 + 4, |f, _| f.write(0, &[1, 2, 3, 4])),
        ("status", 2, |f, _| f.status().map(|_| ())),
        ("protect", 2 + 1 + 2 + 2, |f, _| {
            f.protect(Protection::UpperQuarter, false)
        }),
        ("id", 10, |f, _| f.device_id().map(|_| ())),
        ("write_disable", 1, |f, _| f.write_disable()),
        ("sleep", 1, |f, _| f.sleep()),
        ("wake", 2, |f, d| f.wake(d)),
        ("init", 2 + 10 + 2, |f, d| f.init(d)),
    ];
    for (name, bytes, command) in commands {
        for at in 0..=bytes {
            let (b, mut fram) = chip();
            let mut delay = Delay(b.clone());
            *b.fault.borrow_mut() = Some(at);
            let r = command(&mut fram, &mut delay);
            if at == bytes {
                assert_eq!(r, Ok(()), "{name} has {bytes} bytes");
                continue;
            }
            assert_eq!(r, Err(Error::Bus(Fault::Bus)), "{name} at byte {at}");
            if name == "sleep" || name == "wake" {
                // It is unknown whether the chip sleeps.
                assert_eq!(fram.write(9, &[7]), Err(Error::Asleep));
            }
            // As at the first power-up, with unknown contents.
            b.chip.borrow_mut().now += 1_000_000;
            fram.init(&mut delay).unwrap();
            fram.write(9, &[7]).unwrap();
            assert_eq!(b.chip.borrow_mut().cell(9), 7, "{name} at byte {at}");
        }
    }
}

/// A bus error during a record's update leaves the old value or the new one, and the program
/// continues.
#[test]
fn a_record_survives_bus_errors() {
    #[derive(Persist, Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Value {
        a: u32,
        b: u32,
    }
    let value = |n| Value { a: n, b: !n };
    for at in 0.. {
        let (b, fram) = chip();
        // A blank range is all zeros or all ones.
        b.chip.borrow_mut().cells.bytes_mut().fill(0);
        let mut r = Record::open(fram, 0..128, value(1)).unwrap();
        *b.fault.borrow_mut() = Some(at);
        let set = r.set(value(2));
        let faulted = *b.fault.borrow() == Some(u64::MAX);
        *b.fault.borrow_mut() = None;
        assert_eq!(set.is_err(), faulted, "at byte {at}");
        let mut again = Record::open(SpiFram::new(b, PART), 0..128, value(9)).unwrap();
        let n = again.get().a;
        assert!(
            *again.get() == value(n) && (n == 2 || faulted && n == 1),
            "{n} at {at}"
        );
        again.set(value(3)).unwrap();
        if !faulted {
            assert!(at > 30, "the update has more bytes");
            break;
        }
    }
}

/// The power is cut at each clock of a write: only whole bytes are stored, in order, and the write
/// enable latch is cleared.
#[test]
fn the_power_goes_at_every_clock() {
    let new = [0x00, 0xFF, 0xA5, 0x5A, 0x11];
    let mut seen = [0; 6];
    for clocks in 0.. {
        let (b, mut fram) = chip();
        b.chip.borrow_mut().fuse = Some(clocks);
        let r = fram.write(7, &new);
        let n = is_prefix(&b, 7, &new, 0xEE);
        seen[n] += 1;
        if r.is_ok() {
            break;
        }
        assert_eq!(r, Err(Error::Bus(Fault::Power)));
        // WREN, the opcode and two address bytes come first.
        assert_eq!(
            n as u64,
            (clocks / 8).saturating_sub(4),
            "at clock {clocks}"
        );
        b.chip.borrow_mut().power_cycle();
        assert!(!b.chip.borrow().latch());
        let mut fram = SpiFram::new(b.clone(), PART);
        fram.init(&mut Delay(b.clone())).unwrap();
        fram.write(7, &new).unwrap();
        assert_eq!(is_prefix(&b, 7, &new, 0xEE), 5);
    }
    assert_eq!(seen, [40, 8, 8, 8, 8, 1]);
}

/// The power is cut at each clock of a change of protection: the old one or the new one remains.
#[test]
fn protection_changes_at_once() {
    let mut seen = [0, 0];
    for clocks in 0.. {
        let (b, mut fram) = chip();
        b.chip.borrow_mut().status.bytes_mut()[0] = 0x04;
        b.chip.borrow_mut().fuse = Some(clocks);
        let r = fram.protect(Protection::UpperHalf, false);
        let bits = b.chip.borrow_mut().status_bits();
        assert!(bits == 0x04 || bits == 0x08, "{bits:x}");
        seen[usize::from(bits == 0x08)] += 1;
        if r.is_ok() {
            assert_eq!(bits, 0x08);
            break;
        }
    }
    assert_eq!(seen, [40, 17]);
}
