//! `cargo xtask`: the one entry point for people and for CI.

mod ci;
mod demo;
mod docs;
mod evaluate;
mod firmware;
mod inspect;
mod machine;
mod msp430;
mod project;
mod qemu;
mod run;
mod sabotage;
mod shard;
mod sizes;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Everything that is done to this repository, by people and by CI.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    /// Installs the targets, components and programs that are missing, then runs `ci`
    Test(ci::Args),
    Ci(ci::Args),
    Evaluate(evaluate::Args),
    Firmware(firmware::Args),
    Machine(machine::Args),
    Sabotage(sabotage::Args),
    Sizes(sizes::Args),
    Inspect(inspect::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(a) => demo::run(a),
        Command::Test(a) => test::run(a),
        Command::Ci(a) => ci::run(a),
        Command::Evaluate(a) => evaluate::run(a),
        Command::Firmware(a) => firmware::run(a),
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
