//! The rig itself: small programs with one fault each, the same on every machine, and what must be
//! found in them.

use crate::explore::{Case, Explored, Failure, Limits, Why, explore};
use crate::image::Image;
use crate::machine::{Boot, End, FaultKind, Machine};
use crate::machines;
use crate::replay::{Cut, Line};
use crate::report;
use crate::state::Log;
use object::{Object, ObjectSection};
use relume_suite::abi::{self, Machine as Map};
use std::path::Path;
use std::process::Command;

/// What is tested, by its number in the programs.
const RIGHT: u16 = 0;
const WRONG_ORDER: u16 = 1;
const WIDE: u16 = 2;
const HANG: u16 = 3;
const CODE: u16 = 4;
const UNDEFINED: u16 = 5;
const GARBAGE: u16 = 6;
const OUTSIDE: u16 = 7;
const NOWHERE: u16 = 8;
const NONE: u16 = 9;
const CONDITION: u16 = 10;
const REGISTER: u16 = 11;
const DEVICE: u16 = 12;
const SENSOR: u16 = 13;
const NARROW: u16 = 14;

const PROGRAMS: [(&Map, &str); 3] = [
    (&abi::ARM, include_str!("tests/arm.s")),
    (&abi::RISCV, include_str!("tests/riscv.s")),
    (&abi::MSP430, include_str!("tests/msp430.s")),
];

/// A library that has nothing but a program. For the target without a `core` of its own it has none
/// either.
fn library(map: &Map, program: &str) -> String {
    if map.name != "msp430" {
        return format!("#![no_std]\ncore::arch::global_asm!({program:?});");
    }
    format!(
        "#![feature(no_core, lang_items, rustc_attrs, decl_macro, asm_experimental_arch)]
        #![no_core]
        #[rustc_builtin_macro]
        macro global_asm() {{}}
        #[lang = \"pointee_sized\"]
        trait PointeeSized {{}}
        #[lang = \"meta_sized\"]
        trait MetaSized: PointeeSized {{}}
        #[lang = \"sized\"]
        trait Sized: MetaSized {{}}
        global_asm!({program:?});"
    )
}

/// A program, assembled by rustc: the nightly for the MSP430.
fn assembled(map: &Map, program: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!(
        "rig-{}-{}-{:?}",
        map.name,
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&out).unwrap();
    let source = out.join("program.rs");
    std::fs::write(&source, library(map, program)).unwrap();
    let object = out.join("program.o");
    let mut c = Command::new("rustc");
    if map.name == "msp430" {
        // It is a toolchain's name for rustup, which would otherwise be told by the variable.
        c.arg("+nightly").env_remove("RUSTUP_TOOLCHAIN");
    }
    // There the toolchain that has the targets is the chosen one.
    c.current_dir(dir).args([
        "--cap-lints=allow",
        "--edition=2024",
        "--crate-type=lib",
        "--emit=obj",
        "--target",
        map.target,
    ]);
    let done = c.arg("-o").arg(&object).arg(&source).status().unwrap();
    assert!(done.success());
    let data = std::fs::read(&object).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let code = file.section_by_name(".text").unwrap();
    assert_eq!(code.relocations().count(), 0, "it must run where it is put");
    let code = code.data().unwrap().to_vec();
    std::fs::remove_dir_all(&out).unwrap();
    code
}

/// A machine with its program.
fn machine(map: &Map, program: &str) -> Box<dyn Machine> {
    let mut segments = vec![(map.code, assembled(map, program))];
    if map.name == "msp430" {
        let vector = (map.code as u16).to_le_bytes();
        segments.push((map.code + map.code_len - 2, vector.to_vec()));
    }
    machines::make(map.name, Image::raw(map.code, segments)).unwrap()
}

pub fn case(number: u16) -> Case {
    Case {
        name: format!("test_{number}"),
        number,
        bytes: 16,
        ..Case::default()
    }
}

fn reach() -> Limits {
    Limits {
        depth: None,
        first_only: false,
        most: 1000,
        sample: None,
    }
}

fn run(m: &mut dyn Machine, number: u16) -> Explored {
    explore(m, &case(number), &reach()).unwrap()
}

fn on_each(f: impl Fn(&mut dyn Machine)) {
    for (map, program) in PROGRAMS {
        f(&mut *machine(map, program));
    }
}

fn first(m: &mut dyn Machine, number: u16) -> Failure {
    run(m, number).first.expect("it was not found")
}

fn fault(f: &Failure) -> FaultKind {
    match &f.why {
        Why::Ended(End::Fault(f), _) => f.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_repairs_itself_passes_and_comes_to_an_end() {
    on_each(|m| {
        let e = run(m, RIGHT);
        assert_eq!((e.failures, e.first), (0, None));
        assert!(e.closed);
        assert_eq!(e.stores, 4);
        // Blank, and after each of the stores; a boot over a finished memory goes through the last
        // two again.
        assert_eq!(e.boots, 5);
        assert!(e.cuts > e.instructions);
    });
}

#[test]
fn two_stores_that_must_not_be_apart_are_found_apart() {
    on_each(|m| {
        let f = first(m, WRONG_ORDER);
        assert_eq!(f.why, Why::Ended(End::Status(abi::FAILED), 9));
        // The stores: the status, then the first of the two.
        assert_eq!(f.cuts, [2]);
    });
}

#[test]
fn a_store_of_several_units_is_cut_in_its_middle() {
    on_each(|m| {
        let e = run(m, WIDE);
        assert_eq!(e.stores, 2);
        let f = e.first.unwrap();
        assert_eq!(f.cuts, [2]);
        let text = report::failure(m, "test", &case(WIDE), &f, 10_000).unwrap();
        // There no instruction stores more than a unit: a wide store is two of them.
        let within = m.map().unit == 4;
        assert_eq!(text.contains(".1: before"), within, "{text}");
    });
}

#[test]
fn a_commit_word_that_stays_in_a_register_is_found() {
    on_each(|m| {
        let f = first(m, REGISTER);
        assert_eq!(f.why, Why::Ended(End::Status(abi::FAILED), 9));
        // The stores: the status, then the mailbox says that something is done which is not.
        assert_eq!(f.cuts, [2]);
    });
}

#[test]
fn a_hang_is_found() {
    on_each(|m| {
        let f = first(m, HANG);
        assert_eq!(f.why, Why::Ended(End::Limit, 0));
        assert_eq!(f.cuts, [2]);
    });
}

#[test]
fn the_rules_of_the_machine_are_kept() {
    on_each(|m| {
        assert_eq!(fault(&first(m, CODE)), FaultKind::StoreToCode);
        assert_eq!(fault(&first(m, UNDEFINED)), FaultKind::Undefined);
        assert_eq!(fault(&first(m, NOWHERE)), FaultKind::Load);
    });
}

#[test]
fn a_store_outside_of_the_region_is_found() {
    on_each(|m| match first(m, OUTSIDE).why {
        Why::Outside(s) => assert_eq!(s.at, 64),
        other => panic!("{other:?}"),
    });
}

#[test]
fn what_depends_on_garbage_is_found() {
    on_each(|m| {
        let f = first(m, GARBAGE);
        assert!(matches!(f.why, Why::Garbage(1)), "{f:?}");
    });
}

#[test]
fn a_store_under_a_condition_leaves_what_follows_alone() {
    on_each(|m| assert_eq!(run(m, CONDITION).failures, 0));
}

#[test]
fn what_the_outside_has_seen_survives_and_a_device_does_not() {
    on_each(|m| {
        let e = run(m, DEVICE);
        assert_eq!(e.stores, 1, "what a device keeps is no store to the memory");
        let f = e.first.unwrap();
        assert_eq!(f.why, Why::Ended(End::Status(abi::FAILED), 9));
        // The stores: the status, then the lamp.
        assert_eq!(f.cuts, [2]);
        let text = report::failure(m, "test", &case(DEVICE), &f, 10_000).unwrap();
        assert!(text.contains("bench 0 "), "{text}");
    });
}

#[test]
fn a_device_answers_loads() {
    on_each(|m| {
        let e = run(m, SENSOR);
        assert_eq!((e.failures, e.stores), (0, 1));
        assert_eq!(fault(&first(m, NARROW)), FaultKind::Load);
    });
}

#[test]
fn what_fails_without_a_cut_is_a_failure() {
    on_each(|m| {
        let e = run(m, NONE);
        assert_eq!(e.failures, 1);
        assert_eq!(e.first.unwrap().cuts, [0; 0]);
    });
}

#[test]
fn a_report_says_where_and_its_line_fails_again() {
    on_each(|m| {
        let f = first(m, WRONG_ORDER);
        let text = report::failure(m, "test", &case(WRONG_ORDER), &f, 10_000).unwrap();
        let nvm = match m.map().unit {
            2 => "nvm 0x000  0000 -> 0001",
            _ => "nvm 0x000  00000000 -> 00000001",
        };
        for part in ["cut 1 at i", "-> ", nvm, "1 bytes are other ones"] {
            assert!(text.contains(part), "`{part}` in\n{text}");
        }
        let line = text.split('\'').nth(1).unwrap().parse::<Line>().unwrap();
        assert_eq!(line.hash, m.image().hash);
        let again = report::repeat(m, &case(WRONG_ORDER), &line.cuts, 10_000).unwrap();
        assert!(again.1);
        // One instruction earlier the store has not been made.
        let mut before = line.cuts.clone();
        before[0].instructions -= 1;
        assert!(
            !report::repeat(m, &case(WRONG_ORDER), &before, 10_000)
                .unwrap()
                .1
        );
        let nowhere = Cut {
            instructions: 9999,
            units: 0,
            torn: 0,
        };
        assert!(report::repeat(m, &case(WRONG_ORDER), &[nowhere], 10_000).is_err());
    });
}

/// What a program of `tests/riscv_interrupts.s` has left in its first two words, with the timer's
/// interrupt at these instants.
fn interrupted(number: u16, instants: &[u64]) -> Result<[u32; 2], End> {
    let mut m = machine(&abi::RISCV, include_str!("tests/riscv_interrupts.s"));
    let mut state = case(number).blank();
    let boot = Boot {
        state: &state.clone(),
        seed: 1,
        limit: 1000,
        detail: true,
    };
    let ran = m.preempted(&boot, instants, &mut Log::default());
    m.state(&mut state);
    let word = |at| u32::from_le_bytes(state.nvm()[at..at + 4].try_into().unwrap());
    match ran.end {
        End::Status(abi::FINISHED) => Ok([word(0), word(4)]),
        other => Err(other),
    }
}

#[test]
fn a_riscv_core_takes_interrupts_as_its_registers_say() {
    // Before the instruction after the store to msip: mtvec direct, and vectored.
    assert_eq!(interrupted(0, &[]), Ok([3, 0]));
    assert_eq!(interrupted(1, &[]), Ok([3, 0]));
    // Two that are pending: the software's, then the timer's.
    assert_eq!(interrupted(2, &[]), Ok([0x37, 0]));
    // Not enabled in mie.
    assert_eq!(interrupted(4, &[]), Ok([0, 0]));
}

#[test]
fn a_riscv_core_waits_for_an_interrupt() {
    // The instant comes while it waits: it goes on behind the wfi, and takes the interrupt where
    // that is enabled.
    assert_eq!(interrupted(3, &[500]), Ok([0, 7]));
    // Nothing would ever wake it.
    match interrupted(3, &[]) {
        Err(End::Fault(f)) => assert_eq!(f.kind, FaultKind::Stopped),
        other => panic!("{other:?}"),
    }
}

/// An MSP430 that sleeps: mov #0x0010, &TA0CCTL0; mov #0x0214, &TA0CTL; bis #GIE + CPUOFF, SR; then
/// it stores what its handler has left in R10, and its status.
const SLEEPER: &str = "
    .text
reset:
    mov #0x0, &0x1804
    mov #0x2000, r1
    mov #9, &0x0352
    mov #0x0010, &0x0342
    mov #0x0214, &0x0340
    clr r10
    bis #0x0018, r2
    nop
    mov r10, &0x4000
    mov #1, &0x1804
    jmp .
";

#[test]
fn an_msp430_sleeps_until_the_next_instant() {
    // inc R10; bic #CPUOFF, 0(SP); reti
    let handler: [u16; 5] = [0x531A, 0xC0B1, 0x0010, 0x0000, 0x1300];
    let bytes = handler.iter().flat_map(|w| w.to_le_bytes()).collect();
    let map = &abi::MSP430;
    let vector = |at: u16| at.to_le_bytes().to_vec();
    let segments = vec![
        (map.code, assembled(map, SLEEPER)),
        (0x6000, bytes),
        (0xFFEA, vector(0x6000)),
        (map.code + map.code_len - 2, vector(map.code as u16)),
    ];
    let mut m = machines::make(map.name, Image::raw(map.code, segments)).unwrap();
    let state = case(0).blank();
    let boot = Boot {
        state: &state,
        seed: 1,
        limit: 1000,
        detail: true,
    };
    let mut now = state.clone();
    // Long before the limit, and long after the CPU is off.
    let ran = m.preempted(&boot, &[900], &mut Log::default());
    m.state(&mut now);
    assert_eq!(ran.end, End::Status(abi::FINISHED));
    assert_eq!(now.nvm()[..2], [1, 0]);
    // Before that it is taken where interrupts are enabled.
    let early = m.preempted(&boot, &[6], &mut Log::default());
    assert_eq!(early.instructions, ran.instructions);
    match m.preempted(&boot, &[], &mut Log::default()).end {
        End::Fault(f) => assert_eq!(f.kind, FaultKind::Stopped),
        other => panic!("{other:?}"),
    }
}
