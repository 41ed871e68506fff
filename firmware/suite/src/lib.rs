//! The operations of Relume's crates as small programs, each written once: they run on a host under
//! `powerfail`, in emulators with the power cut at every instruction, and on boards.
//!
//! A scenario is a function that gets a [`Scene`]. Every boot calls it from the start:
//!
//! ```text
//! open or format -> compare with the mailbox -> one operation -> write its number -> ... -> end
//!                                               ^                to the mailbox |
//!                                               +-------------------------------+
//! ```
//!
//! The mailbox survives power cuts and says how many operations are done. The memory must hold
//! exactly so many, or one more: the cut came before the mailbox was written. [`abi`] says where
//! memory lies on each machine.
#![no_std]
// Planted bugs of registers.
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

pub mod abi;
pub mod board;
pub mod checkpoint;
pub mod contexts;
pub mod costs;
pub mod devices;
mod flash;
pub mod heap;
pub mod heap_costs;
mod heap_driver;
pub mod heap_interrupts;
mod heap_list;
mod heap_queue;
pub mod heap_work;
pub mod joined;
pub mod journals;
#[cfg(target_os = "none")]
pub mod machine;
mod mailbox;
pub mod mirror;
pub mod nvlist;
pub mod nvmem;
pub mod objects;
pub mod planted;
pub mod programs;
pub mod replay;
pub mod rtos;
mod scene;
pub mod switch;
pub mod threads;
pub mod tx;

pub use abi::code;
pub use mailbox::Mailbox;
pub use scene::{Bench, Scene};

use ::nvmem::Model;
use pmem_tx::Width;

/// The models that every primitive runs on.
pub trait Mapped: Model<Unit: Width> {}
impl<M: Model<Unit: Width>> Mapped for M {}

/// A failure model for callers that only list names.
pub type HostModel = ::nvmem::InOrder32;

/// A program that checks itself, at every boot.
pub struct Scenario<M: Mapped> {
    /// Its name, unique in its group.
    pub name: &'static str,
    /// Bytes of non-volatile memory that it is given, from the start.
    pub bytes: usize,
    /// Whether it only measures. It does too much for two cuts everywhere, and a cut in it finds
    /// nothing new.
    pub measures: bool,
    /// Whether the timer interrupts it: once in a run, and in another run before each instruction.
    /// The cuts are then made in the interrupt handler.
    pub interrupts: bool,
    /// Whether it has several threads, which the timer's interrupt switches: before each
    /// instruction, and everything is cut then.
    pub preempts: bool,
    /// Whether a cut may leave a word that is neither the old one nor the new one, as on flash.
    pub torn: bool,
    /// How many cuts are left out; 0 for none.
    ///
    /// With interrupts: one interrupt in this many is cut at every store of its handler. The
    /// others are cut only after the handler has saved everything.
    ///
    /// With several threads: the interrupts of one instruction in this many come.
    ///
    /// Without interrupts: the boots are long. A boot after the first cut is always cut up to its
    /// first write to a mailbox cell of its own. One boot in this many is also cut up to its next
    /// write there.
    pub sample: u16,
    /// Whether it is a whole program: it is not cut at every instruction, which are too many.
    pub whole: bool,
    /// Whether such a program runs with a cut after each of many seeded periods.
    pub periods: bool,
    /// The program. It returns when all its operations are done.
    pub run: fn(&mut Scene<'_, M>),
}

impl<M: Mapped> Scenario<M> {
    /// A scenario in which every cut is made.
    pub const fn new(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            name,
            bytes,
            measures: false,
            interrupts: false,
            preempts: false,
            torn: false,
            sample: 0,
            whole: false,
            periods: false,
            run,
        }
    }

    /// A scenario in which an interrupt comes at every instruction.
    pub const fn interrupted(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            interrupts: true,
            ..Self::new(name, bytes, run)
        }
    }

    /// A scenario of several threads.
    pub const fn preempted(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            preempts: true,
            ..Self::new(name, bytes, run)
        }
    }

    /// The same, where one instruction in so many is enough, unless all are asked for.
    pub const fn preempted_at_some(
        name: &'static str,
        bytes: usize,
        run: fn(&mut Scene<'_, M>),
        sample: u16,
    ) -> Self {
        Scenario {
            sample,
            ..Self::preempted(name, bytes, run)
        }
    }

    /// A scenario with long boots, see [`Scenario::sample`].
    pub const fn long(
        name: &'static str,
        bytes: usize,
        run: fn(&mut Scene<'_, M>),
        sample: u16,
    ) -> Self {
        Scenario {
            sample,
            ..Self::new(name, bytes, run)
        }
    }

    /// The same on a memory whose words a cut can tear.
    pub const fn torn(
        name: &'static str,
        bytes: usize,
        run: fn(&mut Scene<'_, M>),
        sample: u16,
    ) -> Self {
        Scenario {
            torn: true,
            sample,
            ..Self::new(name, bytes, run)
        }
    }

    /// A whole program, which runs without a cut.
    pub const fn whole(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            whole: true,
            ..Self::new(name, bytes, run)
        }
    }

    /// A whole program that is cut after seeded periods.
    pub const fn periods(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            periods: true,
            ..Self::whole(name, bytes, run)
        }
    }

    /// A scenario that measures.
    pub const fn measuring(name: &'static str, bytes: usize, run: fn(&mut Scene<'_, M>)) -> Self {
        Scenario {
            name,
            bytes,
            measures: true,
            interrupts: false,
            preempts: false,
            torn: false,
            sample: 0,
            whole: false,
            periods: false,
            run,
        }
    }
}

/// The scenarios that are linked into one image.
pub struct Group<M: Mapped> {
    /// The image's name.
    pub name: &'static str,
    /// The primitive whose operations these are.
    pub primitive: &'static str,
    /// The scenarios; the mailbox's first cell is an index into them.
    pub scenarios: &'static [Scenario<M>],
}

/// All groups, in a fixed order. A primitive has several where one image would not fit into the
/// lower 64 KiB of an MSP430.
pub const fn groups<M: Mapped>() -> [Group<M>; 43] {
    [
        nvmem::group(),
        tx::group(),
        objects::group(),
        contexts::group(),
        costs::tx_group(),
        replay::group(),
        replay::loops_group(),
        replay::objects_group(),
        replay::updates_group(),
        joined::group(),
        costs::replay_group(),
        nvlist::group(),
        nvlist::costs_group(),
        heap::group(),
        heap::snapshot_group(),
        heap::queue_group(),
        heap::queue_snapshot_group(),
        heap_interrupts::group(),
        heap_costs::group(),
        heap_work::group(),
        heap_costs::snapshot_group(),
        checkpoint::group(),
        checkpoint::interrupt_group(),
        switch::group(),
        threads::group(),
        rtos::group(),
        rtos::events_group(),
        rtos::timers_group(),
        rtos::locks_group(),
        rtos::posts_group(),
        rtos::places_group(),
        rtos::costs_group(),
        programs::mq_group(),
        programs::etl_group(),
        journals::group(),
        devices::costs_group(),
        checkpoint::calls_group(),
        board::group(),
        board::events_group(),
        board::radio_group(),
        mirror::group(),
        mirror::flash_group(),
        planted::group(),
    ]
}

/// `(name, primitive, program)` of all scenarios.
pub fn scenarios<M: Mapped>()
-> impl Iterator<Item = (&'static str, &'static str, fn(&mut Scene<'_, M>))> {
    let of = |g: Group<M>| {
        let each = move |s: &'static Scenario<M>| (s.name, g.primitive, s.run);
        g.scenarios.iter().map(each)
    };
    groups::<M>().into_iter().flat_map(of)
}
