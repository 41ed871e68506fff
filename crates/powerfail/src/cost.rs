//! The cost of a run, in operations of the medium.

use crate::medium::{Attach, Media, MediaLayout};
use crate::observe::Recorder;
use crate::trace::Record;

/// The operation counts of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Stores by the library: atomic units of a mapped medium, bytes or words of a device.
    pub stores: u64,
    /// Bytes of those stores.
    pub bytes: u64,
    /// Bytes of the units that user code changed in lent ranges, as far as events showed them.
    pub lent_bytes: u64,
    /// Fences.
    pub fences: u64,
    /// Loans begun.
    pub loans: u64,
    /// Commands to a device that write or erase.
    pub bursts: u64,
    /// Erase units erased.
    pub erases: u64,
    /// Bytes read, through the store module or from a device.
    pub reads: u64,
}

impl Cost {
    /// Time and energy according to a data sheet's figures.
    pub fn at(&self, p: &Price) -> Estimate {
        let bytes = self.bytes + self.lent_bytes;
        let ns = bytes as f64 * p.ns_per_byte
            + self.bursts as f64 * p.ns_per_burst
            + self.reads as f64 * p.ns_per_byte_read
            + self.erases as f64 * p.ns_per_erase;
        Estimate {
            microseconds: ns / 1e3,
            microjoules: ns * 1e-9 * p.milliwatts * 1e3,
        }
    }
}

impl std::ops::Sub for Cost {
    type Output = Cost;
    fn sub(self, o: Cost) -> Cost {
        Cost {
            stores: self.stores - o.stores,
            bytes: self.bytes - o.bytes,
            lent_bytes: self.lent_bytes - o.lent_bytes,
            fences: self.fences - o.fences,
            loans: self.loans - o.loans,
            bursts: self.bursts - o.bursts,
            erases: self.erases - o.erases,
            reads: self.reads - o.reads,
        }
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;
    fn add(self, o: Cost) -> Cost {
        Cost {
            stores: self.stores + o.stores,
            bytes: self.bytes + o.bytes,
            lent_bytes: self.lent_bytes + o.lent_bytes,
            fences: self.fences + o.fences,
            loans: self.loans + o.loans,
            bursts: self.bursts + o.bursts,
            erases: self.erases + o.erases,
            reads: self.reads + o.reads,
        }
    }
}

/// The time and power that a medium's operations take. You give all figures; [`Price::serial`]
/// derives them for a memory behind SPI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The part, and the document with the figures.
    pub source: &'static str,
    /// Time to write a byte.
    pub ns_per_byte: f64,
    /// Time that a command takes in addition to its data.
    pub ns_per_burst: f64,
    /// Time to read a byte.
    pub ns_per_byte_read: f64,
    /// Time to erase a unit.
    pub ns_per_erase: f64,
    /// Power during any of these operations.
    pub milliwatts: f64,
}

impl Price {
    /// A serial memory that writes as fast as its bus; each command sends `overhead` bytes of
    /// opcode and address.
    pub const fn serial(source: &'static str, hertz: f64, overhead: u32, milliwatts: f64) -> Self {
        let byte = 8e9 / hertz;
        Price {
            source,
            ns_per_byte: byte,
            ns_per_burst: byte * overhead as f64,
            ns_per_byte_read: byte,
            ns_per_erase: 0.0,
            milliwatts,
        }
    }
}

/// Time and energy according to a [`Price`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Time.
    pub microseconds: f64,
    /// Energy.
    pub microjoules: f64,
}

/// Reads the counters in the middle of a [`measure`].
pub struct Meter<'r> {
    rec: &'r Recorder,
}

impl Meter<'_> {
    /// The cost of the run so far. User writes to ranges that are still lent count once they are
    /// seen.
    pub fn cost(&self) -> Cost {
        let mut r = self.rec.0.borrow_mut();
        r.scan_loans();
        r.cost
    }
}

/// Runs `program` once without any cut, and returns what it cost the medium.
///
/// ```
/// use powerfail::{measure, Cost, Mapped};
/// use nvmem::InOrder32;
///
/// let mut second = Cost::default();
/// let all = measure(Mapped::<InOrder32>::new(64), |nv, meter| {
///     // SAFETY: units of the region, and no reference to them exists.
///     unsafe { nv.store(0, 1) };
///     let before = meter.cost();
///     unsafe { nv.store(4, 1) };
///     second = meter.cost() - before;
/// });
/// assert_eq!((all.stores, all.bytes), (2, 8));
/// assert_eq!((second.stores, second.bytes), (1, 4));
/// ```
pub fn measure<M: Media>(media: M, program: impl for<'r> FnOnce(M::Nv<'r>, &Meter<'r>)) -> Cost {
    let (arena, parts) = MediaLayout::of(&media).arena(None, 0);
    let base = arena.base();
    let rec = Recorder::new(Record::new(arena, parts.clone()));
    rec.0.borrow_mut().budget = usize::MAX;
    let mut at = Attach {
        rec: &rec,
        base,
        parts: parts.iter(),
    };
    nvmem::instrument::observe(&rec, || {
        // SAFETY: the arena is in `rec`, and nothing else touches it until the run is over.
        let nv = unsafe { media.attach(&mut at) };
        program(nv, &Meter { rec: &rec })
    });
    let mut r = rec.0.borrow_mut();
    r.close();
    r.cost
}
