//! The interface between the rig and an emulated machine.

use crate::image::Image;
use crate::state::{Log, State, mix};
use relume_suite::abi;

/// A machine with an image in it.
///
/// An implementation keeps its engine, translated code and buffers from boot to boot, because they
/// are slow to make. A program sees nothing of the boot before except what [`Boot`] names.
pub trait Machine {
    /// Where its memory lies.
    fn map(&self) -> &'static abi::Machine;

    /// What runs on it.
    fn image(&self) -> &Image;

    /// Switches the power on: the state is in the non-volatile memory and in the mailbox, the
    /// volatile RAM and all registers hold garbage made from the seed, peripherals are as after a
    /// reset, and the program runs from the reset vector until it stores its status (anything but
    /// [`abi::RUNNING`]), breaks a rule of the machine, or reaches the limit.
    ///
    /// Clears the log and records each store to the state in it, in atomic units, before it is
    /// made; the store of the status is the last one.
    fn boot(&mut self, boot: &Boot<'_>, log: &mut Log) -> Ran;

    /// As [`Machine::boot`], always with detail, but for an interrupt of the timer once `at`
    /// instructions have ended: one of those that [`Machine::interruptible`] gives. The handler's
    /// instructions count; the core's own stores to the stack do not.
    fn interrupted(&mut self, boot: &Boot<'_>, at: u64, log: &mut Log) -> Ran;

    /// As [`Machine::boot`], always with detail, but the timer's interrupt becomes pending when so
    /// many instructions have ended, for each of the instants in ascending order. It is taken when
    /// the core takes it: after a masked section, after a more urgent handler, or in the middle of
    /// a less urgent one.
    fn preempted(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Ran;

    /// The instructions of such a run, and the registers before each, where the machine can tell.
    /// An
    /// instant may have [`LATE`].
    fn traced(&mut self, boot: &Boot<'_>, instants: &[u64]) -> Vec<Traced> {
        let _ = (boot, instants);
        Vec::new()
    }

    /// As [`Machine::boot`], always with detail. The registers before each instruction at one of
    /// these addresses, where the machine can tell.
    fn passed(&mut self, boot: &Boot<'_>, at: &[u32], log: &mut Log) -> (Ran, Vec<Traced>) {
        let _ = at;
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        (self.boot(boot, log), Vec::new())
    }

    /// As [`Machine::preempted`]. After how many instructions of this boot an interrupt would be
    /// taken, because none is masked there.
    fn interruptible(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Vec<u64>;

    /// What the memory holds now.
    fn state(&self, into: &mut State);

    /// The instructions from `from` to before `to`: address and text.
    fn disassemble(&self, from: u32, to: u32) -> Vec<(u32, String)>;
}

/// Of an instant: the interrupt becomes pending when the core has taken what is pending already,
/// and
/// before the first instruction of that handler.
pub const LATE: u64 = 1 << 63;

/// A core's registers as a trace has them: those that it numbers, then its status. What is not used
/// is 0.
pub type Registers = [u32; 40];

/// An instruction of a run, and the registers before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// How many instructions had ended.
    pub ended: u64,
    /// Its address.
    pub pc: u32,
    /// The registers.
    pub registers: Registers,
}

/// How to boot.
pub struct Boot<'a> {
    /// The memory and mailbox that survived.
    pub state: &'a State,
    /// Seed of the garbage in RAM and registers.
    pub seed: u64,
    /// Instructions after which it counts as hanging. With `detail` no instruction more is
    /// executed.
    pub limit: u64,
    /// Whether stores have their instruction's number and address, and the stack is measured. May
    /// be slower.
    pub detail: bool,
}

/// The result of a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// Instructions executed, the one that stored the status included. Without `detail` a few more:
    /// the last basic block counts whole.
    pub instructions: u64,
    /// With `detail`, the address of the instruction at which it ended: the one that stored the
    /// status or broke a rule, or the first that was not executed any more.
    pub pc: u32,
    /// Cycles, where the machine knows them.
    pub cycles: Option<u64>,
    /// The greatest depth of the stack in bytes, with `detail`.
    pub stack: Option<u32>,
}

/// How a boot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The program stored this status.
    Status(u16),
    /// It broke a rule of the machine.
    Fault(Fault),
    /// It reached the limit.
    Limit,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub kind: FaultKind,
    /// The instruction's address, where it is known: always with `detail`.
    pub pc: u32,
    /// The address that was accessed, or the number of an exception.
    pub address: u32,
}

/// Rules of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// No such instruction, or one that traps.
    Undefined,
    /// A load from where there is no memory.
    Load,
    /// A store to where there is no memory, or to the mailbox beyond its cells.
    Store,
    /// A store to code.
    StoreToCode,
    /// A jump to where there is no code.
    Fetch,
    /// An exception, or an interrupt that was not enabled.
    Exception,
    /// The machine stopped without a status.
    Stopped,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let what = match self.kind {
            FaultKind::Undefined => "undefined instruction",
            FaultKind::Load => "load from outside of memory",
            FaultKind::Store => "store outside of memory",
            FaultKind::StoreToCode => "store to code",
            FaultKind::Fetch => "jump to outside of the code",
            FaultKind::Exception => "exception",
            FaultKind::Stopped => return write!(f, "stopped without a status"),
        };
        write!(f, "{what} ({:#x})", self.address)
    }
}

/// The seed of no garbage: all is zero, as in an emulator that was just started.
pub const ZERO: u64 = u64::MAX;

/// Volatile garbage, made once for each seed.
#[derive(Default)]
pub struct Garbage(Vec<(u64, Box<[u8]>)>);

impl Garbage {
    /// Fills RAM.
    pub fn fill(&mut self, seed: u64, ram: &mut [u8]) {
        let known = self
            .0
            .iter()
            .position(|g| g.0 == seed && g.1.len() == ram.len());
        let i = known.unwrap_or_else(|| {
            let mut all = vec![0; ram.len()].into_boxed_slice();
            let words = all.chunks_mut(8).enumerate();
            for (i, w) in words.filter(|_| seed != ZERO) {
                w.copy_from_slice(&mix(seed << 32 | i as u64).to_le_bytes()[..w.len()]);
            }
            self.0.push((seed, all));
            self.0.len() - 1
        });
        ram.copy_from_slice(&self.0[i].1);
    }

    /// The garbage of a register.
    pub fn register(seed: u64, n: u32) -> u32 {
        match seed {
            ZERO => 0,
            _ => mix(!seed << 16 ^ u64::from(n)) as u32,
        }
    }

    /// How far down from its end RAM was written since it was filled, static variables (`from`
    /// bytes at its start) left out.
    pub fn depth(&self, seed: u64, ram: &[u8], from: usize) -> Option<u32> {
        let was = &self.0.iter().find(|g| g.0 == seed)?.1;
        let first = (from..ram.len()).find(|i| ram[*i] != was[*i]);
        Some((ram.len() - first.unwrap_or(ram.len())) as u32)
    }
}
