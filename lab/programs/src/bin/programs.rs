//! Any of the programs on a host: `programs NAME CUTS EVENTS`. The power fails so many times, in
//! each life after a random number of events, on average so many.

use lab_programs::cuts::*;
use std::process::ExitCode;

const USAGE: &str = "usage: programs NAME [CUTS [EVENTS]], with the name of a program, as etl";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let mut number = |or: u64| args.next().map_or(Some(or), |n| n.parse().ok());
    let numbers = (number(500), number(400));
    let (Some(cuts), Some(events)) = numbers else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match by_name(&name, cuts, events.max(1)) {
        Some(summary) => println!("{name}: {summary}"),
        None => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
