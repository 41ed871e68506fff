//! `arithmetic [--seed N] [--calls N] PATH…`: calls the arithmetic that the compiler expects under
//! the names of the MSP430 ABI, as it is in an image, with random operands, and compares with this
//! machine's. Prints `msp430.arithmetic_calls N`.

use msp430_emu::arithmetic::{HELPERS, check, check_memory};
use msp430_emu::{Image, Random};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let (mut seed, mut calls) = (1, 2000);
    let mut images = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number =
            || -> Result<u64, Error> { Ok(args.next().ok_or("a number is missing")?.parse()?) };
        match a.as_str() {
            "--seed" => seed = number()?,
            "--calls" => calls = number()?,
            // As the other programs take it; the group does not matter here.
            _ => images.push(a.split('=').next().unwrap_or_default().to_owned()),
        }
    }
    let mut rng = Random::new(seed);
    let (mut all, mut missing) = (0, Vec::new());
    let images: Vec<_> = images
        .iter()
        .map(|p| Ok(Image::parse(&std::fs::read(p)?)?))
        .collect::<Result<_, Error>>()?;
    for h in &HELPERS {
        let mut found = false;
        for image in &images {
            let n = check(image, h, calls, &mut rng).map_err(|e| format!("seed {seed}: {e}"))?;
            found |= n > 0;
            all += n;
        }
        if !found {
            missing.push(h.name);
        }
    }
    for image in &images {
        let n = check_memory(image, calls, &mut rng).map_err(|e| format!("seed {seed}: {e}"))?;
        all += n;
    }
    if !missing.is_empty() {
        return Err(format!("in no image: {}", missing.join(", ")).into());
    }
    println!("msp430.arithmetic_calls {all}");
    Ok(())
}
