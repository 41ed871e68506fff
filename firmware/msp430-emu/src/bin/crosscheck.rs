//! `crosscheck [--seed N] [--programs N] [--length N] [IMAGE.elf …]`: compares our core with mspdebug's simulator, on random
//! programs and on images, and prints `msp430.crosscheck_instructions N`.

use msp430_emu::crosscheck::{self, DEVIATIONS, Report};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (mut seed, mut programs, mut length) = (1, 60, 2000);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number = || -> Result<u64, Box<dyn std::error::Error>> {
            Ok(args.next().ok_or("a number is missing")?.parse()?)
        };
        match a.as_str() {
            "--seed" => seed = number()?,
            "--programs" => programs = number()?,
            "--length" => length = number()?,
            _ => return Err(format!("what is {a}?").into()),
        }
    }
    let mut all = Report::default();
    println!("seeds {seed} to {}", seed + programs - 1);
    for n in seed..seed + programs {
        all.add(&crosscheck::random(n, length, None)?);
    }
    println!("msp430.crosscheck_instructions {}", all.instructions);
    for ((_, name), n) in DEVIATIONS.iter().zip(all.deviations) {
        println!("deviation {name} {n}");
    }
    Ok(())
}
