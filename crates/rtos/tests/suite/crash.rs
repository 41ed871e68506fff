//! Power cuts and preemptions in programs that between them use every call.
//!
//! Most go two cuts deep, with a preemption at each point; the longest ones by turns, and each of
//! these with `POWERFAIL_SAMPLE=all`. Of three small programs all images are explored that any
//! number of cuts can leave. `cargo test -p nv-rtos --test suite crash:: -- --nocapture` prints
//! the number of cuts.

use crate::support::Seen;
use crate::turns::{deep, in_turn, is_chosen};
use powerfail::{Summary, explore};

/// One boot of a program: opens its system and runs its threads until all have ended without error.
macro_rules! run {
    ($nv:ident, $w:ident: $($thread:expr),+ $(,)?) => {
        let (kernel, mut threads) = Plan::open($nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        $w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                Plan::spawn(&kernel, places, kit, $($thread),+);
            });
        });
        let all = [$(stringify!($thread)),+].len();
        (0..all).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    };
}

/// A program on one medium: a module with its system.
macro_rules! program {
    ($file:literal, $medium:ident, $model:ty, $seq:literal) => {
        pub mod $medium {
            #![allow(dead_code, unused_imports)]
            use crate::support::*;
            use nv_rtos::nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
            use nv_rtos::pmem_tx::PBox;
            use nv_rtos::{Error, Thread, Until, code, now};
            use nv_rtos::{wait_notification, wait_notification_timeout};
            use powerfail::World;
            use std::cell::Cell;
            use std::mem::MaybeUninit;
            pub type Fram = On<$model>;
            const SEQ: u8 = $seq;
            const MESSAGES: u32 = 2;
            const ROUNDS: u32 = 2;
            include!($file);

            /// A formatted region.
            pub fn image() -> Vec<u8> {
                let mut words = vec![MaybeUninit::new(0u64); crate::crash::BYTES / 8];
                assert!(Plan::open(Region::new(&mut words)).is_ok());
                // SAFETY: initialised above; padding of roots is zero.
                let words = words.iter().map(|w| unsafe { w.assume_init() });
                words.flat_map(u64::to_ne_bytes).collect()
            }
        }
    };
}

/// A program on several media. Each is a copy of the kernel, which takes long to build, so those
/// after the first one need the feature `media`. Half of the programs have a write buffer first.
macro_rules! programs {
    ($($name:ident, $file:literal:
       [$medium:ident = $model:ty, $seq:literal
        $(; $more:ident = $of:ty, $numbers:literal)+])+) => {$(
        mod $name {
            program!($file, $medium, $model, $seq);
            $(#[cfg(feature = "media")]
            program!($file, $more, $of, $numbers);)+
        }
    )+};
}

programs! {
    semaphore, "programs/semaphore.rs":
        [in_order_32 = InOrder32, 6; buffered_16 = Buffered16, 4]
    queue, "programs/queue.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    mutex, "programs/mutex.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 4]
    recursive, "programs/recursive.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    events, "programs/events.rs":
        [in_order_32 = InOrder32, 6; buffered_16 = Buffered16, 4]
    fails, "programs/fails.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    clock, "programs/clock.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    shared, "programs/shared.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    daemons, "programs/daemons.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 4]
    timers, "programs/timers.rs":
        [in_order_32 = InOrder32, 5; buffered_32 = Buffered32, 4; buffered_16 = Buffered16, 4]
    turns, "programs/turns.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    wraps, "programs/wraps.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 4]
    interrupts, "programs/interrupts.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    posts, "programs/posts.rs":
        [buffered_32 = Buffered32, 4; in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    mq, "programs/mq.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    lives, "programs/lives.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 7]
    priorities, "programs/priorities.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    aborts, "programs/aborts.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    spawns, "programs/spawns.rs":
        [in_order_32 = InOrder32, 5; buffered_32 = Buffered32, 5; buffered_16 = Buffered16, 4]
    reborn, "programs/reborn.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    respawns, "programs/respawns.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    makes, "programs/makes.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    permits, "programs/permits.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    alarms, "programs/alarms.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    kicks, "programs/kicks.rs":
        [buffered_32 = Buffered32, 4; in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    tries, "programs/tries.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    latches, "programs/latches.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    lenders, "programs/lenders.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    notify, "programs/notify.rs":
        [in_order_32 = InOrder32, 5; buffered_16 = Buffered16, 4]
    beside, "programs/beside.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    em, "programs/em.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 5]
    few_messages, "programs/few_messages.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 4]
    few_units, "programs/few_units.rs":
        [buffered_16 = Buffered16, 4; in_order_32 = InOrder32, 4]
    few_locks, "programs/few_locks.rs":
        [in_order_32 = InOrder32, 4; buffered_16 = Buffered16, 4]
}

const BYTES: usize = 3072;

/// Runs a program under cuts, and under each preemption. `one_in` says of which share of the last
/// cut's states a run takes its sample. `more`: on a medium that is not the program's first one.
macro_rules! campaign {
    (more $($campaign:tt)+) => {
        #[cfg(feature = "media")]
        campaign!($($campaign)+)
    };
    ($program:ident :: $medium:ident, $depth:expr
       $(, $preemptions:literal)? $(; one_in $n:literal)?) => {
        told(
            concat!(stringify!($program), "::", stringify!($medium)),
            explore(
                powerfail::Mapped::<$program::$medium::Fram>::new(BYTES),
                $program::$medium::life,
            )
            .image($program::$medium::image())
            .world(Seen::default())
            .name(concat!(stringify!($program), "::", stringify!($medium)))
            .limit(16)
            .depth($depth)
            .max_depth($depth)
            $(.preemptions($preemptions))?
            $(.one_in($n))?
            .run(),
        )
    };
}

fn told(name: &str, s: Summary) {
    println!("{name}: {s}");
    println!("rtos.{name}.cuts {}", s.cuts);
    println!("rtos.{name}.points {}", s.points);
    assert!(s.partial || s.cuts > 100, "{s}");
}

#[test]
fn semaphore_program() {
    campaign!(semaphore::in_order_32, 2, 1; one_in 2);
    campaign!(more semaphore::buffered_16, 2, 1; one_in 2);
}

#[test]
fn queue_program() {
    campaign!(more queue::in_order_32, in_turn(1, 12), 1; one_in 2);
    campaign!(queue::buffered_16, in_turn(4, 12), 1; one_in 2);
}

#[test]
fn mutex_program() {
    campaign!(mutex::in_order_32, 2, 1);
    campaign!(more mutex::buffered_16, 2, 1);
}

#[test]
fn recursive_program() {
    campaign!(more recursive::in_order_32, 2, 1);
    campaign!(recursive::buffered_16, 2, 1);
}

#[test]
fn priorities_program() {
    campaign!(more priorities::in_order_32, 2);
    campaign!(priorities::buffered_16, 2);
}

#[test]
fn aborts_program() {
    campaign!(aborts::in_order_32, 1, 1; one_in 2);
    campaign!(more aborts::buffered_16, 1; one_in 2);
}

#[test]
fn spawns_program() {
    campaign!(spawns::in_order_32, 2; one_in 3);
    campaign!(spawns::in_order_32, 1, 1; one_in 3);
    campaign!(more spawns::buffered_32, 1; one_in 3);
    campaign!(more spawns::buffered_16, 2; one_in 3);
}

#[test]
fn reborn_program() {
    campaign!(reborn::in_order_32, 2);
    campaign!(more reborn::buffered_16, 2);
}

#[test]
fn respawns_program() {
    campaign!(more respawns::in_order_32, 2);
    campaign!(respawns::buffered_16, 1);
}

#[test]
fn makes_program() {
    campaign!(more makes::in_order_32, 2; one_in 2);
    campaign!(more makes::in_order_32, 1, 1; one_in 2);
    campaign!(makes::buffered_16, 2; one_in 2);
}

#[test]
fn alarms_program() {
    campaign!(alarms::in_order_32, 2);
    campaign!(alarms::in_order_32, 1, 1);
    campaign!(more alarms::buffered_16, 1);
}

#[test]
fn permits_program() {
    campaign!(permits::in_order_32, 2);
    campaign!(permits::in_order_32, 1, 1);
    campaign!(more permits::buffered_16, 2);
}

#[test]
fn lenders_program() {
    campaign!(more lenders::in_order_32, 2);
    campaign!(lenders::buffered_16, 2);
}

#[test]
fn kicks_program() {
    campaign!(more kicks::in_order_32, 1, 1; one_in 2);
    campaign!(kicks::buffered_32, 1, 1; one_in 2);
    campaign!(more kicks::buffered_16, 1, 1; one_in 2);
}

#[test]
fn tries_program() {
    campaign!(tries::in_order_32, 2);
    campaign!(tries::in_order_32, 1, 1);
    campaign!(more tries::buffered_16, 2);
    campaign!(more tries::buffered_16, 1, 1);
}

#[test]
fn latches_program() {
    campaign!(latches::in_order_32, 2);
    campaign!(latches::in_order_32, 1, 1);
    campaign!(more latches::buffered_16, 2);
    if is_chosen(1, 10) {
        campaign!(more latches::buffered_16, 1, 1);
    }
}

#[test]
fn beside_program() {
    campaign!(more beside::in_order_32, 1, 1);
    campaign!(beside::buffered_16, 1, 1);
}

#[test]
fn notify_program() {
    campaign!(notify::in_order_32, 1, 1);
    campaign!(more notify::buffered_16, 1, 1);
}

#[test]
fn lives_program() {
    campaign!(lives::in_order_32, 2);
    campaign!(more lives::buffered_16, 2);
}

#[test]
fn events_program() {
    campaign!(events::in_order_32, 2, 1; one_in 3);
    campaign!(more events::buffered_16, 2, 1; one_in 3);
}

#[test]
fn fails_program() {
    campaign!(more fails::in_order_32, 2, 1);
    campaign!(fails::buffered_16, 2, 1);
}

#[test]
fn clock_program() {
    campaign!(more clock::in_order_32, 2, 1);
    campaign!(clock::buffered_16, 2, 1);
}

#[test]
fn shared_program() {
    campaign!(more shared::in_order_32, 2; one_in 2);
    campaign!(more shared::in_order_32, 2, 1; one_in 2);
    campaign!(shared::buffered_16, 2; one_in 2);
}

#[test]
fn daemons_program() {
    campaign!(daemons::in_order_32, 1, 1);
    campaign!(more daemons::buffered_16, 2);
}

#[test]
fn timers_program() {
    campaign!(timers::in_order_32, 2; one_in 2);
    campaign!(timers::in_order_32, 1, 1; one_in 2);
    campaign!(more timers::buffered_32, 1; one_in 2);
    campaign!(more timers::buffered_16, 1, 1; one_in 2);
}

#[test]
fn turns_program() {
    campaign!(more turns::in_order_32, 2; one_in 3);
    campaign!(more turns::in_order_32, deep(), 1; one_in 3);
    campaign!(turns::buffered_16, 2; one_in 3);
    if is_chosen(9, 10) {
        campaign!(turns::buffered_16, deep(), 1; one_in 3);
    }
}

#[test]
fn wraps_program() {
    campaign!(wraps::in_order_32, 2, 1);
    campaign!(more wraps::buffered_16, 2, 1);
}

#[test]
fn interrupts_program() {
    campaign!(more interrupts::in_order_32, 2, 1);
    campaign!(interrupts::buffered_16, 2, 1);
}

#[test]
fn posts_program() {
    campaign!(more posts::in_order_32, in_turn(1, 10), 1);
    campaign!(posts::buffered_32, deep(), 1);
    campaign!(more posts::buffered_16, deep(), 1);
}

#[test]
fn mq_program() {
    campaign!(mq::in_order_32, in_turn(6, 12), 1; one_in 2);
    campaign!(more mq::buffered_16, in_turn(9, 12), 1; one_in 2);
}

#[test]
fn em_program() {
    campaign!(more em::in_order_32, 2);
    campaign!(em::buffered_16, 2);
    // All three threads have one priority.
    if is_chosen(4, 12) {
        campaign!(more em::in_order_32, 1, 1);
    }
}

/// Rounds of the programs of which all images are explored: more in long runs.
fn few() -> u32 {
    2 * deep()
}

/// Cuts a program until no cut leads to a new state, and preempts each of its lives.
macro_rules! closure {
    (more $($closure:tt)+) => {
        #[cfg(feature = "media")]
        closure!($($closure)+)
    };
    ($program:ident :: $medium:ident, $preemptions:expr) => {{
        let name = concat!(stringify!($program), "::", stringify!($medium));
        let s = explore(
            powerfail::Mapped::<$program::$medium::Fram>::new(BYTES),
            $program::$medium::life,
        )
        .image($program::$medium::image())
        .world(Seen::default())
        .name(name)
        .limit(usize::MAX)
        .closure()
        .preemptions($preemptions)
        .run();
        assert_eq!(s.sampled, 0, "a state is left out: {s}");
        assert!(s.partial || s.depth > 1, "{s}");
        told(name, s);
    }};
}

#[test]
fn all_images_of_few_messages() {
    closure!(few_messages::in_order_32, 1);
    closure!(more few_messages::buffered_16, 1);
}

#[test]
fn all_images_of_few_units() {
    closure!(few_units::buffered_16, 1);
    closure!(more few_units::in_order_32, 1);
}

#[test]
fn all_images_of_few_locks() {
    closure!(few_locks::in_order_32, deep());
    closure!(more few_locks::buffered_16, 1);
}
