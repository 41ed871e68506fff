//! Flash that loses power at a chosen operation. The test decides whether the torn content reads
//! old or new.

use super::nor::nor;
use checkpoint::nvmem::device::{Contract, Medium};
use std::ops::Range;

/// One operation of the flash: it programs one word, or erases one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Program(u32),
    Erase(u32),
}

/// A word or an erase unit whose operation was cut.
#[derive(Clone, Debug)]
struct Wound {
    at: u32,
    new: Vec<u8>,
    reads_new: bool,
}

/// NOR flash in RAM, programmed by `WORD` bytes and erased by `ERASE` to 0xFF.
#[derive(Clone)]
pub struct TornFlash<const WORD: usize, const ERASE: usize> {
    /// The old content of torn words and units.
    bytes: Vec<u8>,
    wounds: Vec<Wound>,
    on: bool,
    /// The operation to cut.
    cut: fn(Op) -> bool,
    /// How many of those operations to let pass.
    skip: u32,
}

/// The power is off.
#[derive(Debug, PartialEq)]
pub struct Off;

impl<const WORD: usize, const ERASE: usize> TornFlash<WORD, ERASE> {
    pub fn new(len: usize) -> Self {
        TornFlash {
            bytes: vec![0xFF; len],
            wounds: Vec::new(),
            on: true,
            cut: |_| false,
            skip: 0,
        }
    }

    /// Power is back, without another cut.
    pub fn boot(&mut self) {
        (self.on, self.cut) = (true, |_| false);
    }

    /// Power is back, and is cut in the operation after `skip` of those that `cut` selects.
    pub fn boot_until(&mut self, skip: u32, cut: fn(Op) -> bool) {
        (self.on, self.skip, self.cut) = (true, skip, cut);
    }

    /// Makes torn content in these bytes read new, or old, from now on.
    pub fn reads(&mut self, range: Range<u32>, new: bool) {
        let wounds = self.wounds.iter_mut().filter(|w| range.contains(&w.at));
        wounds.for_each(|w| w.reads_new = new);
    }

    /// Makes the last cut operation's content read new, or old, from now on.
    pub fn last_reads(&mut self, new: bool) {
        self.wounds.last_mut().expect("a cut").reads_new = new;
    }

    /// One operation on as many bytes as it has.
    fn operate(&mut self, op: Op, at: u32, new: &[u8]) -> Result<(), Off> {
        let range = at..at + new.len() as u32;
        if self.on && (self.cut)(op) {
            self.on = self.skip > 0;
            self.skip = self.skip.saturating_sub(1);
            if !self.on {
                let new = new.to_vec();
                self.wounds.push(Wound {
                    at,
                    new,
                    reads_new: false,
                });
            }
        }
        if !self.on {
            return Err(Off);
        }
        let to = &mut self.bytes[range.start as usize..range.end as usize];
        if let Op::Program(_) = op {
            assert!(to.iter().all(|b| *b == 0xFF), "programmed twice");
        }
        to.copy_from_slice(new);
        // Only an erase makes torn content stable.
        self.wounds
            .retain(|w| !range.contains(&w.at) || op == Op::Program(at));
        assert!(
            op == Op::Erase(at) || !self.wounds.iter().any(|w| range.contains(&w.at)),
            "a torn word is programmed"
        );
        Ok(())
    }
}

impl<const WORD: usize, const ERASE: usize> Medium for TornFlash<WORD, ERASE> {
    type Error = Off;
    const CONTRACT: Contract = nor("torn-flash", WORD as u32, ERASE as u32, 0xFF);
    fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Off> {
        buf.copy_from_slice(&self.bytes[at as usize..][..buf.len()]);
        for w in self.wounds.iter().filter(|w| w.reads_new) {
            for (i, b) in w.new.iter().enumerate() {
                let i = (w.at + i as u32).checked_sub(at);
                if let Some(to) = i.and_then(|i| buf.get_mut(i as usize)) {
                    *to = *b;
                }
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Off> {
        for (at, word) in (at..).step_by(WORD).zip(bytes.chunks(WORD)) {
            self.operate(Op::Program(at), at, word)?;
        }
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Off> {
        for at in (from..to).step_by(ERASE) {
            self.operate(Op::Erase(at), at, &[0xFF; ERASE])?;
        }
        Ok(())
    }
}
