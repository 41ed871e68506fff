//! `cargo xtask`: the one entry point for people and for CI.
//!
//! It is a library, too: `evaluation/` runs programs, finds the workspace and starts the rig with
//! it. Evaluations are a package of their own, so that no other command compiles them.

// The suite itself would bring all crates.
#[allow(dead_code)]
#[path = "../../firmware/suite/src/abi.rs"]
mod abi;
pub mod adoption;
pub mod boards;
mod ci;
mod consumers;
mod demo;
mod docs;
mod evaluate;
pub mod figures;
mod firmware;
mod inspect;
mod kill;
pub mod loops;
pub mod machine;
pub mod msp430;
pub mod project;
pub mod qemu;
pub mod run;
mod sabotage;
pub mod shard;
pub mod sizes;
mod test;

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
  cargo xtask demo                   see it work: a minute, nothing to install
  cargo xtask ci --only fmt,clippy   a few of the checks; without --only all of them
  cargo xtask test                   all checks, after installing what they need

`cargo xtask COMMAND --help` explains a command. Logs are in target/xtask."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    /// Installs missing targets, components and programs, then runs `ci`
    Test(ci::Args),
    Ci(ci::Args),
    Consumers(consumers::Args),
    Evaluate(evaluate::Args),
    Firmware(firmware::Args),
    Boards(boards::Args),
    Machine(machine::Args),
    Sabotage(sabotage::Args),
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
        Command::Test(a) => test::run(a),
        Command::Ci(a) => ci::run(a),
        Command::Consumers(a) => consumers::run(a),
        Command::Evaluate(a) => evaluate::run(a),
        Command::Firmware(a) => firmware::run(a),
        Command::Boards(a) => boards::run(a),
        Command::Machine(a) => machine::run(a),
        Command::Sabotage(a) => sabotage::run(a),
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
