//! Programs as data, and what makes them.

use core::fmt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// What a step does. Devices are 0 to 2, rings 0 and 1. A `fails` of `n` lets the `n`-th write to
/// the bus fail, and 0 none.
#[derive(Clone, Copy, Debug)]
pub enum Do {
    Change {
        device: u8,
        value: u32,
    },
    /// A call that sets registers and context.
    Act {
        device: u8,
        value: u32,
        fails: u8,
    },
    /// A call that sets them, and returns an error of its own.
    ActAndFail {
        device: u8,
        value: u32,
    },
    /// A call that sets them, and unwinds.
    ActAndUnwind {
        device: u8,
        value: u32,
    },
    /// A call of the first device, in which the second one is called. With an even value, the outer
    /// call fails if the inner one does.
    Nested {
        devices: [u8; 2],
        value: u32,
        fails: [u8; 2],
    },
    /// A use without a change, which may disturb the device and fail.
    Use {
        device: u8,
        fails: bool,
    },
    Once {
        fails: u8,
    },
    Take(u8),
    Lost(u8),
    /// An interrupt in the middle of the step posts so many events.
    Post(u8, u16),
    /// The commit fails after all devices were staged.
    BreakJoin,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Commits,
    Aborts,
    /// The first error of a call aborts it.
    AbortsAtError,
}

#[derive(Clone, Debug)]
pub enum Op {
    Step(Vec<Do>, End),
    Post(u8, u16),
    Use {
        device: u8,
        fails: u8,
    },
    /// A device that commits by itself: the context changes, and the hardware follows.
    OwnChange {
        wide: bool,
        value: u32,
        fails: u8,
    },
    OwnAct {
        wide: bool,
        value: u32,
        fails: u8,
    },
    OwnOnce {
        fails: u8,
    },
    /// The program was restored from a checkpoint of this boot: the devices that commit by
    /// themselves go back with it. Without one, it takes one.
    Rewind,
    /// So many writes later the hardware fails: while it follows a commit, or is built.
    Fails(u8),
}

/// What one device does in its life.
#[derive(Clone)]
pub struct Program {
    /// Which devices are eager: a bit for each.
    pub eager: u8,
    /// Steps that have committed are not made again; else the program begins anew in each boot.
    pub replays: bool,
    pub ops: Vec<Op>,
}

/// As it stands in a test.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program {
            eager,
            replays,
            ops,
        } = self;
        write!(
            f,
            "Program {{ eager: {eager}, replays: {replays}, ops: vec!["
        )?;
        for op in ops {
            match op {
                Op::Step(all, end) => write!(f, "Step(vec!{all:?}, {end:?}), ")?,
                _ => write!(f, "{op:?}, ")?,
            }
        }
        f.write_str("] }")
    }
}

/// A ring, and how many events it gets: in a burst so many that its count of losses is full.
fn posts(bursts: bool) -> impl Strategy<Value = (u8, u16)> {
    let many = if bursts { 254..262_u16 } else { 1..4 };
    (0..2_u8, prop_oneof![6 => 1..4_u16, 1 => many])
}

fn fails() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0_u8), 1 => 1..6_u8]
}

fn dos(bursts: bool) -> impl Strategy<Value = Do> {
    let value = || 0..1000_u32;
    let device = || 0..3_u8;
    prop_oneof![
        3 => (device(), value()).prop_map(|(device, value)| Do::Change { device, value }),
        4 => (device(), value(), fails())
            .prop_map(|(device, value, fails)| Do::Act { device, value, fails }),
        2 => (device(), value()).prop_map(|(device, value)| Do::ActAndFail { device, value }),
        1 => (device(), value()).prop_map(|(device, value)| Do::ActAndUnwind { device, value }),
        2 => ([device(), device()], value(), [fails(), fails()])
            .prop_map(|(devices, value, fails)| Do::Nested { devices, value, fails }),
        2 => (device(), any::<bool>()).prop_map(|(device, fails)| Do::Use { device, fails }),
        1 => fails().prop_map(|fails| Do::Once { fails }),
        2 => (0..2_u8).prop_map(Do::Take),
        2 => (0..2_u8).prop_map(Do::Lost),
        1 => posts(bursts).prop_map(|(ring, n)| Do::Post(ring, n)),
        1 => Just(Do::BreakJoin),
    ]
}

fn ops(bursts: bool) -> impl Strategy<Value = Op> {
    let end =
        prop_oneof![4 => Just(End::Commits), 2 => Just(End::Aborts), 2 => Just(End::AbortsAtError)];
    let steps = prop::collection::vec(dos(bursts), 1..6);
    let own = || (any::<bool>(), 0..1000_u32, fails());
    prop_oneof![
        6 => (steps, end).prop_map(|(dos, end)| Op::Step(dos, end)),
        3 => posts(bursts).prop_map(|(ring, n)| Op::Post(ring, n)),
        1 => (0..3_u8, fails()).prop_map(|(device, fails)| Op::Use { device, fails }),
        1 => own().prop_map(|(wide, value, fails)| Op::OwnChange { wide, value, fails }),
        1 => own().prop_map(|(wide, value, fails)| Op::OwnAct { wide, value, fails }),
        1 => fails().prop_map(|fails| Op::OwnOnce { fails }),
        1 => Just(Op::Rewind),
        1 => (1..12_u8).prop_map(Op::Fails),
    ]
}

/// Programs of at most so many operations.
pub fn programs_of(most: usize) -> impl Strategy<Value = Program> {
    programs_with(most, true)
}

/// The same without bursts of events, each of which is hundreds of cuts.
pub fn short_programs_of(most: usize) -> impl Strategy<Value = Program> {
    programs_with(most, false)
}

fn programs_with(most: usize, bursts: bool) -> impl Strategy<Value = Program> {
    let ops = prop::collection::vec(ops(bursts), 1..=most);
    (any::<u8>(), any::<bool>(), ops).prop_map(|(eager, replays, ops)| Program {
        eager,
        replays,
        ops,
    })
}

/// The operation of this number in a life that does not end. A step that posts a burst of events
/// takes longer than a boot of it.
pub fn nth(seed: u64, at: u32) -> Op {
    drawn(&ops(false), seed << 32 | u64::from(at))
}

/// The eager devices of a boot of such a life, which begins at this operation.
pub fn nth_boot(seed: u64, at: u32) -> u8 {
    drawn(&any::<u8>(), !seed << 32 | u64::from(at))
}

fn drawn<S: Strategy>(strategy: &S, seed: u64) -> S::Value {
    let config = Config {
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let tree = strategy.new_tree(&mut TestRunner::new(config));
    tree.expect("nothing is refused").current()
}
