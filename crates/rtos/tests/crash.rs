//! Power cuts and preemptions in programs that between them use every call.
//!
//! `cargo test -p nv-rtos --test crash -- --nocapture` prints the number of cuts.

mod support;

use powerfail::{Summary, explore};
use support::{Buffered16, On, Seen};

/// A program on several media: each a module with its system.
macro_rules! programs {
    ($($name:ident, $file:literal: [$($medium:ident = $model:ty, $seq:literal);+])+) => {$(
        mod $name {$(
            pub mod $medium {
                #![allow(dead_code, unused_imports)]
                use crate::support::*;
                use nv_rtos::nvmem::{Buffered32, InOrder16, InOrder32, Region};
                use nv_rtos::{Error, Thread, Until, code, now};
                use powerfail::World;
                pub type Fram = On<$model>;
                const SEQ: u8 = $seq;
                include!($file);
            }
        )+}
    )+};
}

programs! {
    semaphore, "programs/semaphore.rs":
        [in_order_32 = InOrder32, 6; buffered_16 = Buffered16, 4]
    queue, "programs/queue.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
}

const BYTES: usize = 2560;

/// Runs a program under cuts, and under each preemption.
macro_rules! campaign {
    ($program:ident :: $medium:ident, $depth:literal, $preemptions:literal) => {
        told(
            concat!(stringify!($program), "::", stringify!($medium)),
            explore(
                powerfail::Mapped::<$program::$medium::Fram>::new(BYTES),
                $program::$medium::life,
            )
            .world(Seen::default())
            .name(concat!(stringify!($program), "::", stringify!($medium)))
            .depth($depth)
            .max_depth($depth)
            .preemptions($preemptions)
            .run(),
        )
    };
}

fn told(name: &str, s: Summary) {
    println!("{name}: {s}");
    println!("rtos.{name}.cuts {}", s.cuts);
    assert!(s.partial || s.cuts > 200, "{s}");
}

#[test]
fn semaphores() {
    campaign!(semaphore::in_order_32, 1, 1);
    campaign!(semaphore::buffered_16, 1, 1);
}

#[test]
fn queues() {
    campaign!(queue::in_order_32, 1, 1);
    campaign!(queue::buffered_16, 1, 1);
}
