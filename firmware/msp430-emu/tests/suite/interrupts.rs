//! Interrupts, CPUOFF, the observers, and the end of a run.

use crate::support::*;
use msp430_emu::{Event, Observer, PC, SR, Stop, Store, TimerA, Unobserved, Watch, Width, flag};
use std::ops::ControlFlow;

const VECTOR: u16 = 0xffea;
const HANDLER: u16 = 0x6000;
const LOOP: u16 = 0x3fff;

#[test]
fn an_interrupt_pushes_pc_and_sr_in_6_cycles() {
    let mut cpu = machine(&[LOOP]);
    cpu.set_word(VECTOR, HANDLER);
    cpu.regs[SR] = flag::GIE | flag::C | flag::SCG0;
    cpu.raise(VECTOR);
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!(cpu.regs[..3], [HANDLER, 0x2ffc, flag::SCG0]);
    assert_eq!(
        (cpu.word(0x2ffe), cpu.word(0x2ffc)),
        (CODE, flag::GIE | flag::C | flag::SCG0)
    );
    assert_eq!((cpu.cycles, cpu.instructions), (6, 0));
    cpu.set_word(HANDLER, RETI);
    step(&mut cpu);
    assert_eq!(
        cpu.regs[..3],
        [CODE, 0x3000, flag::GIE | flag::C | flag::SCG0]
    );
    assert_eq!(cpu.cycles, 11);
}

#[test]
fn without_gie_it_waits() {
    let mut cpu = machine(&[LOOP]);
    cpu.raise(VECTOR);
    step(&mut cpu);
    assert!(cpu.is_pending());
    assert_eq!(cpu.regs[PC], CODE);
}

#[test]
fn the_instruction_after_eint_is_executed_first() {
    let eint = double(BIS, 2, 3, 2, REGISTER);
    let inc = double(ADD, 3, 1, 5, REGISTER);
    let mut cpu = machine(&[eint, inc, inc]);
    cpu.set_word(VECTOR, HANDLER);
    cpu.raise(VECTOR);
    step(&mut cpu);
    step(&mut cpu);
    assert_eq!(cpu.regs[5], 1);
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
}

#[test]
fn the_highest_vector_is_first() {
    let mut cpu = machine(&[LOOP]);
    cpu.set_word(0xfff0, 0x6000);
    cpu.set_word(0xffea, 0x7000);
    cpu.regs[SR] = flag::GIE;
    cpu.raise(0xffea);
    cpu.raise(0xfff0);
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!(cpu.regs[PC], 0x6000);
    assert!(cpu.is_pending());
}

#[test]
fn cpuoff_ends_a_run_or_waits_for_the_timer() {
    let off = double(BIS, 0, INCREMENT, 2, REGISTER);
    let mut cpu = machine(&[off, flag::CPUOFF | flag::GIE, LOOP]);
    assert_eq!(cpu.run(100, &mut Unobserved), Stop::Off);
    assert_eq!(cpu.instructions, 1);
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Off));

    // The handler ends the sleep: it clears CPUOFF in the SR that RETI takes.
    cpu.set_word(VECTOR, HANDLER);
    cpu.set_word(HANDLER, double(BIC, 0, INCREMENT, 1, INDEXED));
    cpu.set_word(HANDLER + 2, flag::CPUOFF);
    cpu.set_word(HANDLER + 4, 0);
    cpu.set_word(HANDLER + 6, RETI);
    // TA0, up to 999 and with its interrupt: the registers are written by the program.
    let write = |at, v| [double(MOV, 0, INCREMENT, 2, INDEXED), v, at];
    let code = [write(0x352, 999), write(0x342, 0x10), write(0x340, 0x214)].concat();
    for (n, w) in code.iter().enumerate() {
        cpu.set_word(0x7000 + 2 * n as u16, *w);
    }
    cpu.set_timer(Some(TimerA::ta0()));
    (cpu.regs[PC], cpu.regs[SR]) = (0x7000, 0);
    assert_eq!(cpu.run(3, &mut Unobserved), Stop::Limit);
    (cpu.regs[PC], cpu.regs[SR]) = (CODE + 4, flag::CPUOFF | flag::GIE);
    assert_eq!(cpu.run(10, &mut Unobserved), Stop::Limit);
    assert_eq!(cpu.regs[PC], CODE + 4);
    assert!(cpu.cycles > 1000);
}

#[test]
fn stores_are_seen_where_they_are_watched() {
    let mut cpu = machine(&[
        double(MOV, 4, REGISTER, 2, INDEXED),
        0x4000,
        double(MOV | BYTE, 4, REGISTER, 2, INDEXED),
        0x4003,
        double(MOV, 4, REGISTER, 2, INDEXED),
        0x5100,
    ]);
    cpu.regs[4] = 0x1234;
    cpu.set_word(0x4002, 0xabcd);
    let mut watch = Watch::new().range(0x4000..=0x4fff);
    assert_eq!(cpu.run(3, &mut watch), Stop::Limit);
    let first = Store {
        address: 0x4000,
        width: Width::Word,
        old: 0,
        new: 0x1234,
        pc: CODE,
        instruction: 0,
        cycle: 0,
    };
    let second = Store {
        address: 0x4003,
        width: Width::Byte,
        old: 0xab,
        new: 0x34,
        pc: CODE + 4,
        instruction: 1,
        cycle: 3,
    };
    assert_eq!(watch.log, [first, second]);
}

#[test]
fn an_observer_ends_a_run_behind_the_store() {
    struct At(u16);
    impl Observer for At {
        fn store(&mut self, s: &Store) -> ControlFlow<()> {
            if s.address == self.0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let mut cpu = machine(&[double(MOV, 4, REGISTER, 2, INDEXED), 0x1804, LOOP]);
    assert_eq!(cpu.run(100, &mut At(0x1804)), Stop::Observer);
    assert_eq!((cpu.instructions, cpu.regs[PC]), (1, CODE + 4));
    assert_eq!(cpu.run(100, &mut At(0x1804)), Stop::Limit);
}

#[test]
fn reset_goes_to_the_vector_and_keeps_the_memory() {
    let mut cpu = machine(&[LOOP]);
    cpu.set_word(0xfffe, 0x7000);
    cpu.regs[SR] = flag::GIE | flag::CPUOFF;
    cpu.regs[7] = 7;
    cpu.raise(VECTOR);
    cpu.reset();
    assert_eq!((cpu.regs[PC], cpu.regs[SR], cpu.regs[7]), (0x7000, 0, 7));
    assert!(!cpu.is_pending());
    assert_eq!(cpu.word(CODE), LOOP);
}
