#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]
// What the port's instructions need there; on all other machines a stable compiler does.
#![cfg_attr(
    all(feature = "msp430", target_arch = "msp430"),
    feature(asm_experimental_arch)
)]

mod boot;
mod commit;
mod control;
mod energy;
mod error;
mod events;
pub mod inspect;
mod joined;
mod kernel;
mod made;
mod me;
#[cfg(all(feature = "msp430fr5994", target_arch = "msp430"))]
#[allow(unsafe_code)]
pub mod msp430fr5994;
mod mutex;
mod object;
mod port;
mod queue;
mod ram;
mod schedule;
#[allow(unsafe_code)]
mod section;
mod semaphore;
mod shared;
mod spawn;
mod store;
mod system;
mod thread;
mod timer;
mod turns;

pub use energy::{Idle, energy};
pub use error::{OpenError, StackOverflow, code};
pub use events::{Events, Until, wait_notification, wait_notification_timeout};
pub use joined::{Joiner, With};
pub use kernel::{Isr, Kernel, Sys};
pub use made::{Alive, Always, Made, Places};
pub use mutex::{Locks, Mutex};
pub use nv_replay;
pub use nv_replay::pmem_tx::nvmem;
pub use nv_replay::{Config, Error, pmem_tx};
pub use object::{Step, now};
#[cfg(feature = "instrument")]
pub use port::Event;
#[cfg(all(feature = "cortex-m", target_arch = "arm", target_os = "none"))]
pub use port::cortex_m;
#[cfg(feature = "host")]
pub use port::host;
#[cfg(all(feature = "msp430", target_arch = "msp430"))]
pub use port::msp430;
#[cfg(all(feature = "riscv", target_arch = "riscv32", target_os = "none"))]
pub use port::riscv;
pub use port::{Port, Runs, Spawn};
pub use queue::Queue;
pub use schedule::{wait_until, wait_until_timeout};
pub use semaphore::Semaphore;
pub use spawn::Reserved;
pub use system::{Changes, Notifies, Parks, Room, System, ThreadControl, ThreadId, ThreadSpec};
pub use thread::{Guard, Thread};
pub use timer::{Timer, TimerId, expired};
pub use turns::{Turn, TurnWith};

#[cfg(feature = "host")]
extern crate std;

/// The most threads of a system.
pub const THREADS_MAX: usize = 8;
/// The most words of objects that one step changes: one for a semaphore or an event group, one for
/// each message.
pub const OPERATIONS_MAX: usize = 8;
/// The most locks that a thread has at a time. A mutex that it has locked twice counts twice.
pub const LOCKS_MAX: usize = 4;

/// For [`system!`].
#[doc(hidden)]
pub mod __private {
    pub use crate::made::each_place;
    pub use crate::port::assert_preempted;
    pub use crate::ram::{Memory, Ram};
    pub use crate::shared::{In, KeyCell, Shares};
    pub use crate::spawn::{PlaceSpec, arguments, reserved, run_place};
    pub use crate::store::assert_numbers;
    pub use crate::system::{
        CellsOf, Each, Layout, ObjectSpec, Opened, OpenedIn, PlacesIn, Threads,
    };
    pub use crate::system::{all_objects, assert_control, end_of_all, open, open_in, share};
    pub use crate::thread::{kept, run};
    pub use nv_replay::pmem_tx::SharedRoots;
}
