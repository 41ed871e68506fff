//! `crosscheck [--seed N] [--programs N] [--length N] [--limit N] [PATH=GROUP …]`: compares our
//! core with mspdebug's simulator, on random programs and on the scenarios of the images, and
//! prints `msp430.crosscheck_instructions N`.

use msp430_emu::crosscheck::{self, DEVIATIONS, Failure, Report};
use msp430_emu::{Board, Ended, Image};
use nvmem::InOrder16;
use relume_suite::abi::{FINISHED, cell, needs_bench};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces of a scenario that are compared: how many there are from its beginning to its end, and
/// after a cut in the middle.
const PIECES: u64 = 4;

/// What is compared in one piece.
enum Job {
    Random {
        seed: u64,
        length: u64,
    },
    Scenario {
        image: Image,
        scenario: u16,
        name: String,
    },
}

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
    let (mut seed, mut programs, mut length, mut limit) = (1, 60, 2000, 1000);
    let mut jobs = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number = || -> Result<u64, Box<dyn std::error::Error>> {
            Ok(args.next().ok_or("a number is missing")?.parse()?)
        };
        match a.as_str() {
            "--seed" => seed = number()?,
            "--programs" => programs = number()?,
            "--length" => length = number()?,
            // Of each piece of a scenario.
            "--limit" => limit = number()?,
            _ => scenarios(&a, &mut jobs)?,
        }
    }
    let images = jobs.len();
    jobs.extend((seed..seed + programs).map(|seed| Job::Random { seed, length }));
    println!("{programs} random programs, seeds from {seed}; {images} scenarios");
    let all = all(&jobs, limit)?;
    println!("msp430.crosscheck_instructions {}", all.instructions);
    for ((_, name), n) in DEVIATIONS.iter().zip(all.deviations) {
        println!("left out: {name} {n}");
    }
    Ok(())
}

/// The jobs on two threads: mspdebug takes most of the time.
fn all(jobs: &[Job], limit: u64) -> Result<Report, Failure> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut all = Report::default();
        while let Some(j) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            all.add(&compare(j, limit)?);
        }
        Ok(all)
    };
    std::thread::scope(|s| {
        let other = s.spawn(work);
        let mut report = work()?;
        let other = other.join();
        report.add(&other.unwrap_or_else(|e| std::panic::resume_unwind(e))?);
        Ok(report)
    })
}

/// `PATH=GROUP`: the scenarios of that group, in the image at that path.
fn scenarios(argument: &str, jobs: &mut Vec<Job>) -> Result<(), Box<dyn std::error::Error>> {
    let (path, group) = argument
        .rsplit_once('=')
        .ok_or(format!("not PATH=GROUP: {argument}"))?;
    let image = Image::parse(&std::fs::read(path)?)?;
    let groups = relume_suite::groups::<InOrder16>();
    let group = groups
        .iter()
        .find(|g| g.name == group)
        .ok_or(format!("no group {group}"))?;
    if needs_bench(group.name) {
        println!("{}: the simulator has no bench: not compared", group.name);
        return Ok(());
    }
    for (n, s) in group.scenarios.iter().enumerate() {
        jobs.push(Job::Scenario {
            image: image.clone(),
            scenario: n as u16,
            name: format!("{} {}", group.name, s.name),
        });
    }
    Ok(())
}

fn compare(job: &Job, limit: u64) -> Result<Report, Failure> {
    match job {
        Job::Random { seed, length } => crosscheck::random(*seed, *length, None),
        Job::Scenario {
            image,
            scenario,
            name,
        } => {
            let mut b = Board::new(image);
            b.blank();
            b.write_cell(cell::SCENARIO, *scenario);
            b.power_on(1);
            let mut whole = b.clone();
            if whole.run(10_000_000) != Ended::Status(FINISHED) {
                return Err(Failure::Differs(format!("{name} does not finish")));
            }
            let piece = whole.cpu.instructions / PIECES;
            let mut all = Report::default();
            for n in 0..=PIECES {
                let at = b.cpu.instructions;
                let name = format!("{name}, from instruction {at}");
                all.add(&crosscheck::image(
                    &name,
                    b.cpu.clone(),
                    image,
                    limit,
                    None,
                )?);
                if n == PIECES / 2 {
                    let mut again = b.clone();
                    again.power_on(2);
                    let name = format!("{name}, started again");
                    all.add(&crosscheck::image(&name, again.cpu, image, limit, None)?);
                }
                b.run(piece.saturating_sub(limit / 2));
            }
            Ok(all)
        }
    }
}
