//! `cargo xtask`: the one entry point for people and for CI.
//!
//! It is a library, too: `lab/evaluation` runs programs, finds the workspace and starts the rig
//! with it. The lab is a workspace of its own, so that no other command compiles it.

// The suite itself would bring all crates.
#[allow(dead_code)]
#[path = "../../firmware/suite/src/abi.rs"]
mod abi;
pub mod adoption;
pub mod boards;
mod ci;
pub mod clocks;
pub mod commit;
mod consumers;
pub mod coverage;
mod demo;
mod docs;
mod evaluate;
pub mod figures;
mod firmware;
pub mod generated;
mod inspect;
mod install;
mod kill;
pub mod lab;
pub mod loops;
pub mod machine;
pub mod msp430;
#[cfg(test)]
mod programs_of_tests;
pub mod project;
pub mod qemu;
pub mod run;
pub mod sabotage;
pub mod safe;
pub mod shard;
pub mod sizes;
pub mod stacks;
pub mod stats;
mod test_program;

pub use firmware::build_for_msp430;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Builds, tests, measures and shows Relume
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "\
To begin:
  cargo xtask demo                     see it work: a minute, nothing to install
  cargo xtask test                     the checks that need no other tools: 20 minutes
  cargo xtask test --only fmt,clippy   a few of them
  cargo xtask ci                       a part of all others, which the commit chooses

`cargo xtask COMMAND --help` explains a command. Logs are in target/xtask."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Test(ci::TestArgs),
    Ci(ci::Args),
    Consumers(consumers::Args),
    Docs(docs::Args),
    Evaluate(evaluate::Args),
    Firmware(firmware::Args),
    Boards(boards::Args),
    Machine(machine::Args),
    Sabotage(sabotage::Args),
    Coverage(coverage::Args),
    Sizes(sizes::Args),
    Inspect(inspect::Args),
}

/// The commands that may stand where the wrong word of this line is.
fn choices(words: impl IntoIterator<Item = String>) -> String {
    let mut here = Cli::command();
    for word in words {
        match here.find_subcommand(&word) {
            Some(c) => here = c.clone(),
            None => break,
        }
    }
    let names: Vec<_> = here
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    names.join(", ")
}

/// Parses the command line. Exits with a message if it is wrong, before anything is compiled.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|e| {
        if e.kind() == ErrorKind::InvalidSubcommand {
            eprintln!(
                "{e}\nThe choices are: {}",
                choices(std::env::args().skip(1))
            );
            std::process::exit(2);
        }
        e.exit()
    })
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let result = match parse().command {
        Command::Demo(a) => demo::run(a),
        Command::Test(a) => ci::test(a),
        Command::Ci(a) => ci::run(a),
        Command::Consumers(a) => consumers::run(a),
        Command::Docs(a) => docs::run(a),
        Command::Evaluate(a) => evaluate::run(a),
        Command::Firmware(a) => firmware::run(a),
        Command::Boards(a) => boards::run(a),
        Command::Machine(a) => machine::run(a),
        Command::Sabotage(a) => sabotage::run(a),
        Command::Coverage(a) => coverage::run(a),
        Command::Sizes(a) => sizes::run(a),
        Command::Inspect(a) => inspect::run(a),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choices_are_those_of_the_command_before_the_wrong_word() {
        Cli::command().debug_assert();
        let of = |line: &str| choices(line.split(' ').map(str::to_owned));
        assert_eq!(
            of("demo nonsense"),
            "activity, heap, checkpoint, async, node, rtos"
        );
        assert!(of("nonsense").starts_with("demo, test, ci, "));
    }
}
