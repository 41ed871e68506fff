//! Flash that counts what it is told to do, and keeps its contract.

use checkpoint::nvmem::device::{Contract, Medium, Misuse, check_range};
use checkpoint::{Cost, Log, Store, Work};
use contract::nor;
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

#[path = "../../../../crates/checkpoint/tests/suite/support/nor.rs"]
mod contract;

/// A machine of the study: its flash, and how much RAM it has.
pub trait Part: 'static {
    /// In keys.
    const NAME: &'static str;
    /// What the flash promises.
    const CONTRACT: Contract;
    /// The model of the flash.
    const COST: Cost;
    /// Bytes of RAM.
    const RAM: usize;
    /// A log for all of RAM.
    type Log: Fresh;
}

/// What can be made on new flash that counts.
pub trait Fresh: Store + Sized {
    /// For a memory of which so many bytes are in use: three times as many, and what else it needs.
    fn fresh(used: u32) -> (Self, Tally);
}

impl<P: Part, const CELLS: usize, const UNITS: usize> Fresh for Log<Flash<P>, CELLS, UNITS> {
    fn fresh(used: u32) -> (Self, Tally) {
        let bytes = Self::bytes(used);
        let flash = Flash::new(bytes as usize);
        let tally = flash.tally.clone();
        let log = Log::open(flash, 0..bytes, 1).expect("there is room");
        (log.with_cost(&P::COST), tally)
    }
}

/// The paper's Cortex-M3, an STM32L152RE.
#[derive(Debug)]
pub enum M3 {}
impl Part for M3 {
    const NAME: &'static str = "m3";
    const CONTRACT: Contract = nor("stm32l1", 128, 256, 0x00);
    const COST: Cost = Cost::STM32L1;
    const RAM: usize = 80 * 1024;
    type Log = Log<Flash<Self>, 660, 1100>;
}

/// The paper's Cortex-M0, an STM32F091RC.
#[derive(Debug)]
pub enum M0 {}
impl Part for M0 {
    const NAME: &'static str = "m0";
    const CONTRACT: Contract = nor("stm32f0", 4, 2048, 0xFF);
    const COST: Cost = Cost::STM32F0;
    const RAM: usize = 32 * 1024;
    type Log = Log<Flash<Self>, 270, 80>;
}

/// A machine with the M3's RAM and a serial flash.
#[derive(Debug)]
pub enum Spi {}
impl Part for Spi {
    const NAME: &'static str = "spi";
    const CONTRACT: Contract = nor("spi-nor", 1, 4096, 0xFF);
    const COST: Cost = Cost::SPI_NOR;
    const RAM: usize = 80 * 1024;
    type Log = Log<Flash<Self>, 660, 90>;
}

/// A handle on the counts that stays usable while something else owns the flash.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    work: Rc<Cell<Work>>,
    comparing: Rc<Cell<bool>>,
}

impl Tally {
    /// What was counted since the last time; from now on what is read is compared, or only read.
    pub fn take(&self, comparing: bool) -> Work {
        self.comparing.set(comparing);
        self.work.take()
    }
}

/// Flash of a part.
#[derive(Debug)]
pub struct Flash<P> {
    bytes: Vec<u8>,
    /// Of each word whether it was programmed since it was erased.
    programmed: Vec<bool>,
    /// What it counts.
    pub tally: Tally,
    _part: PhantomData<P>,
}

impl<P: Part> Flash<P> {
    /// Erased, with so many bytes at least.
    pub fn new(bytes: usize) -> Self {
        let e = P::CONTRACT.erase.expect("flash is erased");
        let bytes = bytes.next_multiple_of(e.size as usize);
        Flash {
            bytes: vec![e.erased; bytes],
            programmed: vec![false; bytes / P::CONTRACT.write_size as usize],
            tally: Tally::default(),
            _part: PhantomData,
        }
    }

    fn count(&self, f: impl FnOnce(&mut Work)) {
        let mut w = self.tally.work.get();
        f(&mut w);
        self.tally.work.set(w);
    }
}

impl<P: Part> Medium for Flash<P> {
    type Error = Misuse;
    const CONTRACT: Contract = P::CONTRACT;

    fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), P::CONTRACT.read_size, self.capacity())?;
        let comparing = self.tally.comparing.get();
        self.count(|w| {
            *(if comparing {
                &mut w.compared
            } else {
                &mut w.read
            }) += buf.len() as u64
        });
        buf.copy_from_slice(&self.bytes[at as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        let word = P::CONTRACT.write_size;
        check_range(at, bytes.len(), word, self.capacity())?;
        for w in &mut self.programmed[(at / word) as usize..][..bytes.len() / word as usize] {
            if std::mem::replace(w, true) {
                return Err(Misuse::NotErased);
            }
        }
        self.count(|w| {
            w.written += bytes.len() as u64;
            w.programs += P::COST.operations(at, bytes.len() as u32);
        });
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        let e = P::CONTRACT.erase.expect("flash is erased");
        check_range(
            from,
            to.saturating_sub(from) as usize,
            e.size,
            self.capacity(),
        )?;
        let word = P::CONTRACT.write_size;
        self.bytes[from as usize..to as usize].fill(e.erased);
        self.programmed[(from / word) as usize..(to / word) as usize].fill(false);
        self.count(|w| w.erases += u64::from((to - from) / e.size));
        Ok(())
    }
}
