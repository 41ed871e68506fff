//! Where the simulator is known not to do what the user's guide says. Just that is left out of the
//! comparison; both go on from what our core has.

use crate::cpu::{Cpu, PC, SP};
use crate::decode::{Double, Instruction, Operand, Single};
use crate::timer_a::TA0;
use crate::watch::{Observer, Store, Width};
use std::ops::ControlFlow;

/// One known deviation of mspdebug 0.22 from the user's guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// A word is read from an odd address as such; the bus has no bit 0. (Stores are right.)
    OddLoad,
    /// `PUSH SP` pushes the value before the decrement. The guide decrements first: after
    /// `PUSH SP`, `POP SP` the stack pointer is two lower (SLAU367, figure 4-8).
    PushSp,
    /// `PUSH.B` clears the upper byte of the stack's word; the guide leaves it.
    PushByte,
    /// A byte `@SP+` increments SP by 1; the guide: always by 2.
    PopByte,
    /// DADD of digits above 9, which the guide leaves undefined: no deviation, but nothing to
    /// compare.
    Digits,
    /// A load from a register of timer A, which the simulator has not.
    Timer,
    /// Bit 0 of PC or SP can be set.
    OddRegister,
}

/// In the order of the counts in a report.
pub const DEVIATIONS: [(Deviation, &str); 7] = [
    (Deviation::OddLoad, "odd_load"),
    (Deviation::PushSp, "push_sp"),
    (Deviation::PushByte, "push_byte"),
    (Deviation::PopByte, "pop_byte"),
    (Deviation::Digits, "digits"),
    (Deviation::Timer, "timer"),
    (Deviation::OddRegister, "odd_register"),
];

/// The accesses of one instruction.
#[derive(Default)]
pub(super) struct Accesses {
    pub loads: Vec<(u16, Width)>,
    pub stores: Vec<Store>,
}

impl Observer for Accesses {
    fn load(&mut self, address: u16, width: Width) -> ControlFlow<()> {
        self.loads.push((address, width));
        ControlFlow::Continue(())
    }

    fn store(&mut self, store: &Store) -> ControlFlow<()> {
        self.stores.push(*store);
        ControlFlow::Continue(())
    }
}

/// The deviation that an instruction meets; `before` is the machine in front of it.
pub(super) fn find(before: &Cpu, i: Instruction, a: &Accesses) -> Option<Deviation> {
    if a.loads
        .iter()
        .any(|(at, w)| *w == Width::Word && at & 1 != 0)
    {
        return Some(Deviation::OddLoad);
    }
    if a.loads.iter().any(|(at, _)| TA0.contains(at)) {
        return Some(Deviation::Timer);
    }
    match i {
        Instruction::Single {
            op: Single::Push,
            operand: Operand::Register(1),
            ..
        } => Some(Deviation::PushSp),
        Instruction::Double {
            byte: true,
            src: Operand::Increment(1),
            ..
        }
        | Instruction::Single {
            byte: true,
            operand: Operand::Increment(1),
            ..
        } => Some(Deviation::PopByte),
        Instruction::Single {
            op: Single::Push,
            byte: true,
            ..
        } => Some(Deviation::PushByte),
        Instruction::Double {
            op: Double::Dadd,
            src,
            dst,
            ..
        } if above_9(before, src, dst, a) => Some(Deviation::Digits),
        _ => may_be_odd(before, i).then_some(Deviation::OddRegister),
    }
}

/// Whether an operand of DADD has a digit above 9.
fn above_9(before: &Cpu, src: Operand, dst: Operand, a: &Accesses) -> bool {
    let mut values: Vec<_> = a.loads.iter().map(|(at, _)| before.word(*at)).collect();
    for o in [src, dst] {
        match o {
            Operand::Register(r) => values.push(before.regs[usize::from(r)]),
            Operand::Immediate => values.push(before.word(before.regs[PC].wrapping_add(2))),
            _ => {}
        }
    }
    let bad = |v: &u16| (0..16).step_by(4).any(|s| v >> s & 15 > 9);
    values.iter().any(bad)
}

/// Whether the value for PC or SP may have bit 0 set.
fn may_be_odd(before: &Cpu, i: Instruction) -> bool {
    match i {
        Instruction::Double {
            op,
            dst: Operand::Register(0 | 1),
            ..
        } => !matches!(op, Double::Cmp | Double::Bit),
        Instruction::Single {
            op,
            operand: Operand::Register(0 | 1),
            ..
        } => !matches!(op, Single::Push | Single::Call),
        Instruction::Single {
            op: Single::Call, ..
        } => true,
        Instruction::Reti => before.word(before.regs[SP].wrapping_add(2)) & 1 != 0,
        _ => false,
    }
}

/// Whether nothing can be compared: the deviation changes an address that the same instruction
/// uses.
pub(super) fn spreads(i: Instruction) -> bool {
    let pops = |o| matches!(o, Operand::Increment(1));
    match i {
        // Two deviations at once.
        Instruction::Double {
            op: Double::Dadd,
            src,
            ..
        } if pops(src) => true,
        Instruction::Double {
            byte: true,
            src,
            dst: Operand::Register(1) | Operand::Indexed(1),
            ..
        } => pops(src),
        Instruction::Single {
            byte: true,
            op: Single::Push,
            operand,
        } => pops(operand),
        _ => false,
    }
}
