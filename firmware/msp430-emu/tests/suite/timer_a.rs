//! Timer A: counts, flags and interrupts, with the instants worked out by hand.

use crate::support::*;
use msp430_emu::{Cpu, Event, PC, SP, SR, Stop, TimerA, Unobserved, flag};

const CTL: u16 = 0x0340;
const CCTL0: u16 = 0x0342;
const CCTL1: u16 = 0x0344;
const R: u16 = 0x0350;
const CCR0: u16 = 0x0352;
const IV: u16 = 0x036e;
const VECTOR: u16 = 0xffea;
const OVERFLOW: u16 = 0xffe8;
const HANDLER: u16 = 0x6000;

const SMCLK: u16 = 0x0200;
const BY_4: u16 = 0x0080;
const UP: u16 = 0x0010;
const CONTINUOUS: u16 = 0x0020;
const UP_DOWN: u16 = 0x0030;
const CLEAR: u16 = 0x0004;
const TAIE: u16 = 0x0002;
const TAIFG: u16 = 0x0001;
const CCIE: u16 = 0x0010;
const CCIFG: u16 = 0x0001;

/// A program that writes these to registers, each in 4 cycles, and goes on as given. The last one
/// is written when 4 cycles of each of the others have passed.
fn started(writes: &[(u16, u16)], then: &[u16]) -> Cpu {
    let store = |(at, v): &(u16, u16)| [double(MOV, 0, INCREMENT, 2, INDEXED), *v, *at];
    let mut code: Vec<u16> = writes.iter().flat_map(store).collect();
    code.extend(then);
    let mut cpu = machine(&code);
    cpu.set_timer(Some(TimerA::ta0()));
    cpu.set_word(VECTOR, HANDLER);
    writes.iter().for_each(|_| step(&mut cpu));
    assert_eq!(cpu.cycles, 4 * writes.len() as u64);
    cpu
}

/// Jumps to itself in 2 cycles.
const LOOP: u16 = 0x3fff;

/// Runs the loop until this many cycles since the timer's start, which was 4 cycles before the end
/// of the writes; what the registers say then.
fn at(cpu: &mut Cpu, start: u64, cycles: u64) -> (u16, bool, bool) {
    while cpu.cycles < start + cycles {
        step(cpu);
    }
    assert_eq!(cpu.cycles, start + cycles);
    // A load brings the count up to date.
    let mut other = cpu.clone();
    other.set_word(0x7000, double(MOV, 2, INDEXED, 6, REGISTER));
    other.set_word(0x7002, R);
    other.regs[PC] = 0x7000;
    step(&mut other);
    let (compare, overflow) = (other.word(CCTL0) & CCIFG, other.word(CTL) & TAIFG);
    (other.regs[6], compare != 0, overflow != 0)
}

#[test]
fn up_to_ccr0_and_from_0_again() {
    let mut cpu = started(&[(CCR0, 9), (CTL, SMCLK | UP | CLEAR)], &[LOOP]);
    // 10 counts a period: 0 to 9.
    assert_eq!(at(&mut cpu, 4, 8), (8, false, false));
    assert_eq!(at(&mut cpu, 4, 10), (0, true, true));
    assert_eq!(at(&mut cpu, 4, 24), (4, true, true));
    let mut cpu = started(&[(CCR0, 8), (CTL, SMCLK | UP | CLEAR)], &[LOOP]);
    // The flag of CCR0 a count before that of 0.
    assert_eq!(at(&mut cpu, 4, 6), (6, false, false));
    assert_eq!(at(&mut cpu, 4, 8), (8, true, false));
    assert_eq!(at(&mut cpu, 4, 10), (1, true, true));
}

#[test]
fn a_divider_and_another_clock() {
    let mut cpu = started(&[(CCR0, 9), (CTL, SMCLK | BY_4 | UP | CLEAR)], &[LOOP]);
    assert_eq!(at(&mut cpu, 4, 34), (8, false, false));
    assert_eq!(at(&mut cpu, 4, 36), (9, true, false));
    assert_eq!(at(&mut cpu, 4, 40), (0, true, true));
    let mut cpu = started(&[(CCR0, 9), (CTL, UP | CLEAR)], &[LOOP]);
    assert_eq!(at(&mut cpu, 4, 40), (0, false, false));
    let mut cpu = started(&[(CCR0, 0), (CTL, SMCLK | UP | CLEAR)], &[LOOP]);
    assert_eq!(at(&mut cpu, 4, 40), (0, false, false));
}

#[test]
fn continuous_and_up_down() {
    let mut cpu = started(&[(CCR0, 50), (CTL, SMCLK | CONTINUOUS | CLEAR)], &[LOOP]);
    assert_eq!(at(&mut cpu, 4, 48), (48, false, false));
    assert_eq!(at(&mut cpu, 4, 50), (50, true, false));
    assert_eq!(at(&mut cpu, 4, 0x1_0000), (0, true, true));
    let mut cpu = started(&[(CCR0, 50), (CTL, SMCLK | UP_DOWN | CLEAR)], &[LOOP]);
    assert_eq!(at(&mut cpu, 4, 50), (50, true, false));
    assert_eq!(at(&mut cpu, 4, 60), (40, true, false));
    assert_eq!(at(&mut cpu, 4, 98), (2, true, false));
    assert_eq!(at(&mut cpu, 4, 100), (0, true, true));
    assert_eq!(at(&mut cpu, 4, 110), (10, true, true));
}

#[test]
fn an_interrupt_each_period_and_its_flag_is_reset() {
    let inc = double(ADD, 3, 1, 5, REGISTER);
    let writes = [(CCR0, 99), (CCTL0, CCIE), (CTL, SMCLK | UP | CLEAR)];
    let mut cpu = started(&writes, &[inc, 0x3ffe]);
    cpu.set_word(HANDLER, double(ADD, 3, 1, 10, REGISTER));
    cpu.set_word(HANDLER + 2, RETI);
    cpu.regs[SR] = flag::GIE;
    // The count is 99 in cycle 8 + 99 and each 100 cycles after it.
    let mut taken = Vec::new();
    while cpu.cycles < 10_050 {
        let before = cpu.cycles;
        if cpu.step(&mut Unobserved) == Ok(Event::Interrupt) {
            taken.push(before);
            assert_eq!(cpu.word(CCTL0), CCIE);
        }
    }
    assert_eq!(taken.len(), 100);
    for (n, at) in taken.into_iter().enumerate() {
        // After at most the 2 cycles of the instruction that runs.
        let late = at - (107 + 100 * n as u64);
        assert!(late < 2, "{n}: {at}");
    }
    assert_eq!(cpu.regs[10], 100);
    // 12 of each 100 cycles are the handler's; the loop takes 3.
    assert!((2900..=2950).contains(&cpu.regs[5]), "{}", cpu.regs[5]);
    assert_eq!(cpu.regs[SP], 0x3000);
}

#[test]
fn a_flag_that_a_program_sets_interrupts_when_it_is_enabled() {
    let cpu = started(&[(CCTL0, CCIFG)], &[LOOP]);
    assert!(!cpu.is_pending());
    let mut cpu = started(&[(CCTL0, CCIE | CCIFG)], &[LOOP, LOOP]);
    assert!(cpu.is_pending());
    cpu.regs[SR] = flag::GIE;
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!((cpu.regs[PC], cpu.word(CCTL0)), (HANDLER, CCIE));
    assert!(!cpu.is_pending());
    // One that a program resets does not.
    let mut cpu = started(&[(CCTL0, CCIE | CCIFG), (CCTL0, CCIE)], &[LOOP]);
    cpu.regs[SR] = flag::GIE;
    step(&mut cpu);
}

#[test]
fn the_overflow_has_the_other_vector_and_its_flag_waits_for_iv() {
    let writes = [(CCR0, 5), (CTL, SMCLK | UP | CLEAR | TAIE)];
    let mut cpu = started(&writes, &[LOOP]);
    cpu.set_word(OVERFLOW, HANDLER);
    cpu.set_word(HANDLER, double(MOV, 2, INDEXED, 6, REGISTER));
    cpu.set_word(HANDLER + 2, IV);
    cpu.regs[SR] = flag::GIE;
    // Six counts after cycle 4 it is 0 again, which is when the first jump ends.
    step(&mut cpu);
    assert_eq!(cpu.cycles, 10);
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!(cpu.regs[PC], HANDLER);
    assert!(cpu.is_pending(), "its flag is not reset by itself");
    step(&mut cpu);
    assert_eq!(cpu.regs[6], 0x0e);
    assert_eq!(cpu.word(CTL) & TAIFG, 0);
}

#[test]
fn a_timer_by_hand() {
    let writes = [(CCR0, 9), (CCTL0, CCIE), (CTL, SMCLK | UP | CLEAR)];
    let mut cpu = machine(&[LOOP]);
    cpu.set_timer(Some(TimerA::ta0().by_hand()));
    // It is stopped.
    cpu.timer_compares();
    assert_eq!(cpu.word(CCTL0), 0);
    let mut code = Vec::new();
    for (at, v) in writes {
        code.extend([double(MOV, 0, INCREMENT, 2, INDEXED), v, at]);
    }
    code.push(LOOP);
    for (n, w) in code.iter().enumerate() {
        cpu.set_word(CODE + 2 * n as u16, *w);
    }
    assert_eq!(cpu.run(1000, &mut Unobserved), Stop::Limit);
    assert!(!cpu.is_pending() && cpu.word(R) == 0);
    cpu.timer_compares();
    assert!(cpu.is_pending());
    assert_eq!((cpu.word(R), cpu.word(CCTL0)), (9, CCIE | CCIFG));
}

#[test]
fn a_program_interrupts_itself() {
    let mut cpu = started(&[(CCTL1, CCIE), (CCTL1, CCIE | CCIFG)], &[LOOP]);
    cpu.set_word(OVERFLOW, HANDLER);
    assert!(cpu.is_pending());
    // The register names the flag, and an access resets it; the timer's own flag stays.
    assert_eq!(cpu.word(IV), 2);
    let mut read = cpu.clone();
    read.set_word(0x7000, double(MOV, 2, INDEXED, 6, REGISTER));
    read.set_word(0x7002, IV);
    read.regs[PC] = 0x7000;
    step(&mut read);
    assert_eq!((read.regs[6], read.word(CCTL1)), (2, CCIE));
    assert!(!read.is_pending());
    // It comes when interrupts are enabled, below that of CCR0, and stays pending until the handler
    // resets the flag.
    step(&mut cpu);
    assert_eq!(cpu.regs[PC] & 0xff00, 0x5000);
    cpu.set_word(VECTOR, 0x6100);
    cpu.set_word(CTL, SMCLK | UP);
    cpu.set_word(CCTL0, CCIE);
    cpu.timer_compares();
    cpu.regs[SR] = flag::GIE;
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!(cpu.regs[PC], 0x6100);
    cpu.regs[SR] = flag::GIE;
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Interrupt));
    assert_eq!((cpu.regs[PC], cpu.word(CCTL1)), (HANDLER, CCIE | CCIFG));
    cpu.set_word(HANDLER, double(AND, 0, INCREMENT, 2, INDEXED));
    cpu.set_word(HANDLER + 2, !CCIFG);
    cpu.set_word(HANDLER + 4, CCTL1);
    assert!(cpu.is_pending());
    step(&mut cpu);
    assert!(!cpu.is_pending());
}
