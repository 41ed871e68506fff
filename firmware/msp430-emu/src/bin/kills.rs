//! `kills [--kills N] [--seed N] [--rounds N] [--timer N] PATH=GROUP …`: runs the scenarios of
//! images with the timer's interrupt on, switches the power off after pseudo-random numbers of
//! instructions, and on again with garbage in RAM and registers, until each scenario was killed N
//! times. Prints the figures as lines `key value`.

use msp430_emu::{Board, Ended, Image, Random};
use nvmem::InOrder16;
use relume_suite::abi::{self, FINISHED, cell};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// A boot that takes more instructions than this hangs.
const HANGS: u64 = 500_000_000;

/// With the timer's period of the other scenarios, the tick of the kernel would be all that ever
/// runs: its period is so many times as long.
const KERNEL: (&str, u16) = ("rtos", 5);
/// The handlers of the groups behind this prefix do more than tick.
const OBJECTS: (&str, u16) = ("rtos-", 60);

#[derive(Clone)]
struct Options {
    kills: u64,
    seed: u64,
    rounds: u16,
    timer: u16,
}

#[derive(Default)]
struct Figures {
    kills: u64,
    boots: u64,
    finished: u64,
    ticks: u64,
    /// Kills that came while the interrupt was served.
    within: u64,
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

fn run() -> Result<(), Error> {
    let mut o = Options {
        kills: 200,
        seed: 1,
        rounds: 50,
        timer: 300,
    };
    let mut images = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number =
            || -> Result<u64, Error> { Ok(args.next().ok_or("a number is missing")?.parse()?) };
        match a.as_str() {
            "--kills" => o.kills = number()?,
            "--seed" => o.seed = number()?,
            "--rounds" => o.rounds = number()?.try_into()?,
            "--timer" => o.timer = number()?.try_into()?,
            _ => images.push(a),
        }
    }
    if images.is_empty() {
        return Err("no image".into());
    }
    let mut all = Figures::default();
    for a in &images {
        let (path, group) = a.rsplit_once('=').ok_or(format!("not PATH=GROUP: {a}"))?;
        let image = Image::parse(&std::fs::read(path)?)?;
        let groups = relume_suite::groups::<InOrder16>();
        let group = groups.iter().find(|g| g.name == group);
        let group = group.ok_or(format!("no group in {a}"))?;
        for (n, s) in group.scenarios.iter().enumerate() {
            let name = format!("{} {}", group.name, s.name);
            if s.interrupts {
                // Its handler saves a heap: with a clock that is faster than that nothing else
                // would ever run.
                println!("{name}: interrupts are its subject: not killed");
                continue;
            }
            if abi::needs_bench(group.name) {
                println!("{name}: the board has no bench: not killed");
                continue;
            }
            let mut o = o.clone();
            if group.name == KERNEL.0 {
                o.timer = o.timer.saturating_mul(KERNEL.1);
            } else if group.name.starts_with(OBJECTS.0) {
                o.timer = o.timer.saturating_mul(OBJECTS.1);
            }
            scenario(&image, n as u16, &name, &o, &mut all)?;
        }
    }
    println!("system.msp430.kills {}", all.kills);
    println!("system.msp430.boots {}", all.boots);
    println!("system.msp430.finished {}", all.finished);
    println!("system.msp430.interrupts {}", all.ticks);
    println!("system.msp430.kills_in_interrupt {}", all.within);
    Ok(())
}

/// A blank board before the first boot of a scenario.
fn blank(board: &mut Board, scenario: u16, o: &Options) {
    board.blank();
    board.write_cell(cell::SCENARIO, scenario);
    board.write_cell(cell::ROUNDS, o.rounds);
    board.write_cell(cell::TIMER, o.timer);
}

fn scenario(
    image: &Image,
    scenario: u16,
    name: &str,
    o: &Options,
    all: &mut Figures,
) -> Result<(), Error> {
    let mut b = Board::new(image);
    let mut rng = Random::new(o.seed ^ u64::from(scenario) << 32);
    let replay = format!("seed {}, {} rounds, timer {}", o.seed, o.rounds, o.timer);
    // Without cuts first, for the length.
    blank(&mut b, scenario, o);
    b.power_on(rng.next_u64());
    let ended = b.run(HANGS);
    if ended != Ended::Status(FINISHED) {
        let why = b.failure(ended, image);
        return Err(format!("{name}, never killed ({replay}): {why}").into());
    }
    let length = b.cpu.instructions;
    let ticks = b.read_cell(cell::TICKS);
    if ticks == 0 && b.cpu.cycles < 4 * u64::from(o.timer) {
        // With what starts the machine: nothing was on for a whole interval.
        println!("{name}: {length} instructions, too few for an interrupt: not killed");
        return Ok(());
    }
    if ticks == 0 {
        return Err(format!("{name}: the timer did not interrupt").into());
    }
    println!("{name}: {length} instructions, {ticks} interrupts");
    let mut of = Figures::default();
    while of.kills < o.kills {
        blank(&mut b, scenario, o);
        let mut boots = 0;
        loop {
            b.power_on(rng.next_u64());
            boots += 1;
            let after = 1 + rng.below(length / 3);
            // Every so often the last boot is left to end.
            let limit = if of.kills < o.kills { after } else { HANGS };
            let ended = b.run(limit);
            let ended_well = match ended {
                Ended::Cut if limit == after => None,
                Ended::Status(FINISHED) => Some(true),
                _ => Some(false),
            };
            match ended_well {
                None => {
                    of.kills += 1;
                    of.within += u64::from(b.in_interrupt());
                }
                Some(true) => break,
                Some(false) => {
                    let why = b.failure(ended, image);
                    let n = of.kills;
                    return Err(format!("{name}, after kill {n} ({replay}): {why}").into());
                }
            }
        }
        // Start-up counts them in the mailbox: one that was killed before it came there is not
        // among them.
        if b.read_cell(cell::BOOTS) > boots {
            return Err(format!("{name}: {boots} boots, counted otherwise ({replay})").into());
        }
        of.boots += u64::from(boots);
        of.finished += 1;
        of.ticks += u64::from(b.read_cell(cell::TICKS));
    }
    all.kills += of.kills;
    all.boots += of.boots;
    all.finished += of.finished;
    all.ticks += of.ticks;
    all.within += of.within;
    Ok(())
}
