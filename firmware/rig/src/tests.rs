//! The rig itself: small programs with one fault each, the same on every machine, and what must be
//! found in them.

use crate::explore::{Case, Explored, Failure, Limits, Why, explore};
use crate::image::Image;
use crate::machine::{End, FaultKind, Machine};
use crate::machines;
use crate::replay::{Cut, Line};
use crate::report;
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

/// A machine with its program, assembled by rustc: the nightly for the MSP430.
fn machine(map: &Map, program: &str) -> Box<dyn Machine> {
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
    let mut segments = vec![(map.code, code)];
    if map.name == "msp430" {
        let vector = (map.code as u16).to_le_bytes();
        segments.push((map.code + map.code_len - 2, vector.to_vec()));
    }
    machines::make(map.name, Image::raw(map.code, segments)).unwrap()
}

fn case(number: u16) -> Case {
    Case {
        name: format!("test_{number}"),
        number,
        argument: 0,
        rounds: 0,
        bytes: 16,
        measures: false,
        interrupts: false,
        interrupt: None,
        preempts: false,
        instants: Vec::new(),
        torn: false,
        sample: 0,
    }
}

fn reach() -> Limits {
    Limits {
        depth: None,
        first_only: false,
        most: 1000,
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
