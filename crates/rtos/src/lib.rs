#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]
// What the port's instructions need there; on all other machines a stable compiler does.
#![cfg_attr(
    all(feature = "msp430", target_arch = "msp430"),
    feature(asm_experimental_arch)
)]

#[cfg(any(
    all(feature = "cortex-m", target_arch = "arm", target_os = "none"),
    all(feature = "riscv", target_arch = "riscv32", target_os = "none"),
    all(feature = "msp430", target_arch = "msp430")
))]
#[allow(unsafe_code)]
mod bare;
mod control;
#[cfg(all(feature = "cortex-m", target_arch = "arm", target_os = "none"))]
#[allow(unsafe_code)]
pub mod cortex_m;
#[cfg(all(feature = "cortex-m", target_arch = "arm", target_os = "none"))]
#[allow(unsafe_code)]
mod cortex_m_switch;
mod energy;
mod error;
#[cfg(any(
    all(feature = "cortex-m", target_arch = "arm", target_os = "none"),
    all(feature = "riscv", target_arch = "riscv32", target_os = "none"),
    all(feature = "msp430", target_arch = "msp430")
))]
#[allow(unsafe_code)]
mod guard;
#[cfg(feature = "host")]
#[allow(unsafe_code)]
pub mod host;
pub mod inspect;
mod joined;
mod kernel;
mod locks;
mod me;
#[cfg(all(feature = "msp430", target_arch = "msp430"))]
#[allow(unsafe_code)]
pub mod msp430;
#[cfg(all(feature = "msp430", target_arch = "msp430"))]
#[allow(unsafe_code)]
mod msp430_switch;
#[cfg(all(feature = "msp430fr5994", target_arch = "msp430"))]
#[allow(unsafe_code)]
pub mod msp430fr5994;
mod notify;
mod objects;
mod places;
mod port;
mod post;
mod ram;
#[cfg(all(feature = "riscv", target_arch = "riscv32", target_os = "none"))]
#[allow(unsafe_code)]
pub mod riscv;
#[cfg(all(feature = "riscv", target_arch = "riscv32", target_os = "none"))]
#[allow(unsafe_code)]
mod riscv_switch;
mod schedule;
#[allow(unsafe_code)]
mod section;
mod shared;
mod spawn;
mod system;
mod tags;
mod thread;
mod timers;
mod turns;
mod wakes;

pub use energy::{Idle, energy};
pub use error::{OpenError, StackOverflow, code};
pub use joined::{Joiner, With};
pub use kernel::{Isr, Kernel, Sys};
pub use locks::Locks;
pub use notify::{wait_notification, wait_notification_timeout};
pub use nv_replay;
pub use nv_replay::pmem_tx::nvmem;
pub use nv_replay::{Config, Error, pmem_tx};
pub use objects::{Events, Mutex, Queue, Semaphore, Step, Until, now};
pub use places::{Alive, Always, Made, Places};
#[cfg(feature = "instrument")]
pub use port::Event;
pub use port::{Port, Runs, Spawn};
pub use spawn::Reserved;
pub use system::{Changes, Notifies, Parks, Room, System, ThreadControl, ThreadId, ThreadSpec};
pub use thread::{Guard, Thread};
pub use timers::{Timer, TimerId, expired};
pub use turns::{Turn, TurnWith};
pub use wakes::{wait_until, wait_until_timeout};

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
    pub use crate::places::each_place;
    pub use crate::port::assert_preempted;
    pub use crate::ram::{Memory, Ram};
    pub use crate::shared::{In, KeyCell, Shares};
    pub use crate::spawn::{PlaceSpec, arguments, reserved, run_place};
    pub use crate::system::{
        CellsOf, Each, Layout, ObjectSpec, Opened, OpenedIn, PlacesIn, Threads,
    };
    pub use crate::system::{all_objects, assert_control, end_of_all, open, open_in, share};
    pub use crate::tags::assert_numbers;
    pub use crate::thread::{kept, run};
    pub use nv_replay::pmem_tx::SharedRoots;
}
