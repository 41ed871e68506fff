//! A test bench: a bus with the chip on it, `SpiDevice` blocking and async, a delay that advances
//! the chip's clock, and faults.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Error, ErrorKind, ErrorType, Operation, SpiDevice};
use nvmem::Medium;
use nvmem::ram::RamFram;
use spi_fram::Part;
use spi_fram::sim::{Chip, Kind};
use std::cell::RefCell;
use std::rc::Rc;

/// Errors of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The power is off: the test's run ends here.
    Power,
    /// An injected error.
    Bus,
}

impl Error for Fault {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// The chip and its wires. A clone is another end of the same wires.
pub struct Bench<M, S> {
    pub chip: Rc<RefCell<Chip<M, S>>>,
    /// Bytes on the bus until it fails once.
    pub fault: Rc<RefCell<Option<u64>>>,
    /// The lengths of all transactions, including opcodes and addresses.
    pub lengths: Rc<RefCell<Vec<usize>>>,
}

impl<M, S> Clone for Bench<M, S> {
    fn clone(&self) -> Self {
        Bench {
            chip: self.chip.clone(),
            fault: self.fault.clone(),
            lengths: self.lengths.clone(),
        }
    }
}

pub type Plain<const N: usize> = Bench<RamFram<N>, RamFram<1>>;

/// A chip of this part with `N` bytes of cells, its whole size as far as the chip knows.
pub fn plain<const N: usize>(part: Part) -> Plain<N> {
    Bench::new(Kind::of(part), RamFram::filled(0xEE), RamFram::filled(0))
}

impl<M: Medium, S: Medium> Bench<M, S> {
    pub fn new(kind: Kind, cells: M, status: S) -> Self {
        Bench {
            chip: Rc::new(RefCell::new(Chip::new(kind, cells, status))),
            fault: Rc::default(),
            lengths: Rc::default(),
        }
    }

    pub fn transactions(&self) -> usize {
        self.lengths.borrow().len()
    }

    fn byte(&self, out: u8) -> Result<u8, Fault> {
        if let Some(left) = &mut *self.fault.borrow_mut() {
            if *left == 0 {
                *left = u64::MAX;
                return Err(Fault::Bus);
            }
            *left -= 1;
        }
        if let Some(n) = self.lengths.borrow_mut().last_mut() {
            *n += 1;
        }
        let mut chip = self.chip.borrow_mut();
        let mut read = 0;
        for i in (0..8).rev() {
            read = read << 1 | chip.clock(out >> i & 1 != 0) as u8;
        }
        // 1 MHz.
        chip.now += 8_000;
        if !chip.powered() {
            return Err(Fault::Power);
        }
        Ok(read)
    }

    fn operation(&self, op: &mut Operation<'_, u8>) -> Result<(), Fault> {
        match op {
            Operation::Read(words) => words.iter_mut().try_for_each(|w| {
                *w = self.byte(0x00)?;
                Ok(())
            }),
            Operation::Write(words) => words.iter().try_for_each(|w| self.byte(*w).map(|_| ())),
            Operation::Transfer(..) | Operation::TransferInPlace(_) | Operation::DelayNs(_) => {
                panic!("not used by the driver")
            }
        }
    }
}

/// Chip select: released at the end, also after a transaction that failed or was dropped.
struct Selected<'a, M: Medium, S: Medium>(&'a Bench<M, S>);

impl<'a, M: Medium, S: Medium> Selected<'a, M, S> {
    fn new(b: &'a Bench<M, S>) -> Self {
        b.lengths.borrow_mut().push(0);
        b.chip.borrow_mut().select();
        Selected(b)
    }
}

impl<M: Medium, S: Medium> Drop for Selected<'_, M, S> {
    fn drop(&mut self) {
        self.0.chip.borrow_mut().deselect();
    }
}

impl<M, S> ErrorType for Bench<M, S> {
    type Error = Fault;
}

impl<M: Medium, S: Medium> SpiDevice for Bench<M, S> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Fault> {
        let s = Selected::new(self);
        operations.iter_mut().try_for_each(|op| s.0.operation(op))
    }
}

/// Yields to the executor once for each byte.
impl<M: Medium, S: Medium> embedded_hal_async::spi::SpiDevice for Bench<M, S> {
    async fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Fault> {
        let s = Selected::new(self);
        for op in operations {
            match op {
                Operation::Read(words) => {
                    for w in words.iter_mut() {
                        embassy_futures::yield_now().await;
                        *w = s.0.byte(0)?;
                    }
                }
                Operation::Write(words) => {
                    for w in words.iter() {
                        embassy_futures::yield_now().await;
                        s.0.byte(*w)?;
                    }
                }
                _ => panic!("not used by the driver"),
            }
        }
        Ok(())
    }
}

/// Advances the chip's clock.
pub struct Delay<M, S>(pub Bench<M, S>);

impl<M, S> DelayNs for Delay<M, S> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.chip.borrow_mut().now += u64::from(ns);
    }
}

impl<M, S> embedded_hal_async::delay::DelayNs for Delay<M, S> {
    async fn delay_ns(&mut self, ns: u32) {
        embassy_futures::yield_now().await;
        self.0.chip.borrow_mut().now += u64::from(ns);
    }
}
