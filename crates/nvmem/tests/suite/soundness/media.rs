//! Media that return wrong data, fail or unwind at any call, with any content. The program
//! continues after each.

use nvmem::device::{Contract, EraseUnit, Medium, Torn};
use nvmem::level::WearLevelled;
use nvmem::superblock::{Copies, Superblock};
use nvmem::{Maybe, Persist, Record};
use powerfail::Rng;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Value {
    on: bool,
    mode: Maybe<char>,
    n: u16,
}

const VALUE: Value = Value {
    on: true,
    mode: Maybe::Some('ß'),
    n: 7,
};

/// A pseudo-random number decides the behaviour of each call.
struct Liar<'s, const ERASE: u32> {
    random: &'s RefCell<Rng>,
    bytes: Vec<u8>,
    /// One call in this many goes wrong.
    rate: u32,
}

impl<const ERASE: u32> Liar<'_, ERASE> {
    fn next(&self) -> u32 {
        self.random.borrow_mut().next_u32()
    }

    fn call(&self) -> Result<(), ()> {
        match self.next() % (3 * self.rate) {
            0 => Err(()),
            1 => resume_unwind(Box::new(())),
            _ => Ok(()),
        }
    }
}

impl<const ERASE: u32> Medium for Liar<'_, ERASE> {
    type Error = ();
    const CONTRACT: Contract = Contract {
        name: "liar",
        read_size: 1,
        write_size: 4,
        unit: 1,
        torn: if ERASE == 0 {
            Torn::Arbitrary
        } else {
            Torn::Unstable
        },
        erase: if ERASE == 0 {
            None
        } else {
            Some(EraseUnit {
                size: ERASE,
                erased: 0xFF,
                write_once: true,
                endurance: 0,
            })
        },
    };
    fn capacity(&self) -> u32 {
        // Not the same each time.
        match self.next() % 8 {
            0 => 0,
            1 => u32::MAX,
            2 => self.bytes.len() as u32 - 1,
            _ => self.bytes.len() as u32,
        }
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
        self.call()?;
        for (i, b) in buf.iter_mut().enumerate() {
            let there = self.bytes.get(at as usize + i).copied();
            *b = there.unwrap_or(0);
            if self.next().is_multiple_of(8 * self.rate) {
                *b = self.next() as u8;
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), ()> {
        for (i, b) in bytes.iter().enumerate() {
            // Copies each given byte, so that Miri detects uninitialised ones.
            if let Some(to) = self.bytes.get_mut(at as usize + i) {
                *to = *b;
            }
        }
        self.call()
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), ()> {
        let len = self.bytes.len();
        self.bytes[(from as usize).min(len)..(to as usize).min(len)].fill(0xFF);
        self.call()
    }
    fn flush(&mut self) -> Result<(), ()> {
        self.call()
    }
}

fn times() -> u32 {
    if cfg!(miri) { 2 } else { 400 }
}

/// A record on a medium that returns wrong data has a value of its type, or is an error.
fn record<const ERASE: u32>(len: usize) {
    for seed in 0..times() {
        let random = RefCell::new(Rng::new(seed.into()));
        let mut liar = Liar::<ERASE> {
            random: &random,
            bytes: vec![0xFF; len],
            rate: 1 + seed % 40,
        };
        let mut opened = 0;
        for n in 0..6 {
            let done = catch_unwind(AssertUnwindSafe(|| {
                let all = 0..len as u32;
                let mut r = Record::open_or_migrate(&mut liar, all.clone(), VALUE, |old: u32| {
                    if old.is_multiple_of(2) {
                        resume_unwind(Box::new(()));
                    }
                    VALUE
                })?;
                let was = *r.get();
                assert!(was.mode.map(u32::from).into_option().unwrap_or(0) < 0x11_0000);
                let kept = r.set(Value { n, ..was });
                assert_eq!(r.get().n, if kept.is_ok() { n } else { was.n });
                // Migrate from another type.
                Record::format(&mut liar, all, u32::from(n)).map(drop)
            }));
            opened += u32::from(matches!(done, Ok(Ok(()))));
        }
        let _ = opened;
    }
}

#[test]
fn a_record_on_a_medium_that_lies() {
    record::<0>(128);
    record::<64>(3 * 64);
}

#[test]
fn wear_levelling_on_a_medium_that_lies() {
    for seed in 0..times() {
        let random = RefCell::new(Rng::new(seed.into()));
        let mut liar = Liar::<128> {
            random: &random,
            bytes: vec![0xFF; 7 * 128],
            rate: 10 + seed % 200,
        };
        let mut table = [0; 64];
        for _ in 0..4 {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let mut d = WearLevelled::<_, 8>::open(&mut liar, &mut table)?;
                for n in 0..12u32 {
                    // It is used again, also after it unwound.
                    let _ = catch_unwind(AssertUnwindSafe(|| {
                        let mut b = [0; 9];
                        let _ = d.write(n * 5, &[n as u8; 9]);
                        let _ = d.read(n * 4, &mut b);
                        let _ = d.damaged_pages();
                    }));
                }
                WearLevelled::<_, 8>::format(&mut liar, &mut table).map(drop)
            }));
        }
    }
}

/// Any bytes give a newest copy or none.
#[test]
fn copies_of_any_bytes() {
    let sb = Superblock {
        kind: *b"TEST",
        version: 1,
        fingerprint: 2,
        params: [3; 8],
    };
    let mut place = MaybeUninit::uninit();
    let both = Copies::zeroed(&mut place);
    for n in 0..if cfg!(miri) { 8 } else { 4000u32 } {
        both.fill(n as usize % 3, &sb, n as u16, n % 5 == 0);
        let bytes = both.as_bytes_mut();
        let len = bytes.len();
        bytes[n.wrapping_mul(0x9E37_79B9) as usize % len] ^= (n % 7) as u8;
        for copy in 0..3 {
            let _ = (
                both.copy(copy),
                both.kind(copy),
                both.params(copy),
                both.superblock(copy),
            );
            if let Some(s) = Superblock::decode(both.copy(copy)) {
                // A format marker contains only the kind.
                assert!(s.superblock == sb || s.formatting && s.superblock.kind == sb.kind);
            }
        }
        if let Some(newest) = both.newest() {
            assert!(newest.copy() < 2);
            assert_eq!(both.kind(newest.copy()), sb.kind);
            let whole = both.has_layout(newest.copy(), &sb.layout());
            assert!(both.has_magic() && whole != newest.is_formatting());
        }
        let mut out = String::new();
        nvmem::inspect::superblock(both.as_bytes_mut(), &mut out).unwrap();
        nvmem::inspect::records(
            &both.as_bytes_mut()[n as usize % 100..],
            n as usize % 9,
            &mut out,
        )
        .unwrap();
    }
}
