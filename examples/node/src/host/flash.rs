//! A simulated NOR flash that takes its time, with figures of an nRF52: words of 4 bytes in 41 µs,
//! pages of 4 KiB in 85 ms. A word that a power cut catches reads as anything until it is erased.

use crate::random::Random;
use core::cell::RefCell;
use embassy_time::Timer;
use nv_mirror::nvmem::device::{AsyncMedium, Contract, EraseUnit, Torn};
use std::collections::BTreeMap;

/// Pages.
pub const PAGES: usize = 4;
/// Bytes of a page.
pub const PAGE: usize = 4096;
const WORD: usize = 4;
const WORD_US: u64 = 41;
const ERASE_US: u64 = 85_000;
const ERASED: u8 = 0xFF;

/// What is under way.
#[derive(Clone, Copy)]
enum InFlight {
    Word(usize),
    Page(usize),
}

struct Inner {
    bytes: Vec<u8>,
    /// Bits that are not known, of the words that a cut has caught.
    unstable: BTreeMap<usize, [u8; WORD]>,
    in_flight: Option<InFlight>,
    erases: [u64; PAGES],
    words: u64,
    /// Power cuts while it was writing or erasing.
    caught: u64,
    random: Random,
}

/// The flash. It survives everything.
pub struct Flash(RefCell<Inner>);

/// What the flash refuses.
#[derive(Debug)]
pub enum Refused {
    /// It is outside, or misaligned.
    Range,
    /// The word is not erased.
    NotErased,
}

impl Flash {
    pub fn blank(seed: u64) -> Self {
        Flash(RefCell::new(Inner {
            bytes: vec![ERASED; PAGES * PAGE],
            unstable: BTreeMap::new(),
            in_flight: None,
            erases: [0; PAGES],
            words: 0,
            caught: 0,
            random: Random(seed),
        }))
    }

    /// The power goes.
    pub fn cut(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.caught += u64::from(inner.in_flight.is_some());
        match inner.in_flight.take() {
            None => {}
            Some(InFlight::Word(at)) => {
                inner.unstable.insert(at, [ERASED; WORD]);
            }
            Some(InFlight::Page(at)) => {
                // Some words are erased, some are as they were, some are neither.
                for word in (at..at + PAGE).step_by(WORD) {
                    match inner.random.below(4) {
                        0 => inner.bytes[word..word + WORD].fill(ERASED),
                        1 => {}
                        _ => {
                            inner.unstable.insert(word, [ERASED; WORD]);
                        }
                    }
                }
            }
        }
    }

    /// Erases of each page, words that were programmed, and cuts meanwhile.
    pub fn work(&self) -> ([u64; PAGES], u64, u64) {
        let inner = self.0.borrow();
        (inner.erases, inner.words, inner.caught)
    }

    fn check(&self, at: u32, len: usize, of: usize) -> Result<usize, Refused> {
        let at = at as usize;
        let fits = at.checked_add(len).is_some_and(|end| end <= PAGES * PAGE);
        (fits && at.is_multiple_of(of) && len.is_multiple_of(of))
            .then_some(at)
            .ok_or(Refused::Range)
    }
}

impl AsyncMedium for &Flash {
    type Error = Refused;

    const CONTRACT: Contract = Contract {
        name: "flash",
        read_size: 1,
        write_size: WORD as u32,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: PAGE as u32,
            erased: ERASED,
            write_once: true,
            endurance: 10_000,
        }),
    };

    fn capacity(&self) -> u32 {
        (PAGES * PAGE) as u32
    }

    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        let at = self.check(at, buf.len(), 1)?;
        let inner = &mut *self.0.borrow_mut();
        buf.copy_from_slice(&inner.bytes[at..at + buf.len()]);
        let first = at / WORD * WORD;
        for (word, mask) in inner.unstable.range(first..at + buf.len()) {
            for (i, bits) in mask.iter().enumerate() {
                if let Some(to) = (word + i).checked_sub(at).and_then(|i| buf.get_mut(i)) {
                    *to ^= bits & inner.random.below(256) as u8;
                }
            }
        }
        Ok(())
    }

    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        let at = self.check(at, bytes.len(), WORD)?;
        for (word, from) in (at..).step_by(WORD).zip(bytes.chunks_exact(WORD)) {
            {
                let inner = &mut *self.0.borrow_mut();
                let is_erased = inner.bytes[word..word + WORD] == [ERASED; WORD];
                if !is_erased || inner.unstable.contains_key(&word) {
                    return Err(Refused::NotErased);
                }
                inner.in_flight = Some(InFlight::Word(word));
            }
            Timer::after_micros(WORD_US).await;
            let inner = &mut *self.0.borrow_mut();
            inner.in_flight = None;
            inner.words += 1;
            inner.bytes[word..word + WORD].copy_from_slice(from);
        }
        Ok(())
    }

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        let len = to.saturating_sub(from) as usize;
        let from = self.check(from, len, PAGE)?;
        for page in (from..from + len).step_by(PAGE) {
            self.0.borrow_mut().in_flight = Some(InFlight::Page(page));
            Timer::after_micros(ERASE_US).await;
            let inner = &mut *self.0.borrow_mut();
            inner.in_flight = None;
            inner.erases[page / PAGE] += 1;
            inner.bytes[page..page + PAGE].fill(ERASED);
            inner
                .unstable
                .retain(|at, _| !(page..page + PAGE).contains(at));
        }
        Ok(())
    }
}
