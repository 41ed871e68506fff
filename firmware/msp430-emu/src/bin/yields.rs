//! `yields DIR PROGRAM ...`: runs programs of `firmware/sytare` on an MSP430FR5994 whose supply ends
//! after a constant on-time, again and again, and compares them with the bare ones without cuts.
//! Prints lines `key value`.

use msp430_emu::fr5994::{Ended, MS, Node};
use msp430_emu::{Image, Random};
use relume_models::radio::Packet;
use std::path::Path;
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// The on-times that are shown, in milliseconds.
const SHOWN: [u64; 4] = [3, 10, 42, 100];
/// A run that takes so many times as long as the bare one does not finish.
const LONGEST: u64 = 50;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What a run has come to.
struct Run {
    /// On-time until the end.
    time: u64,
    lives: u64,
    found: [u16; 8],
    /// What has arrived, in order.
    packets: Vec<Packet>,
    stack: u16,
    /// Of the last life that was cut, or of the only one.
    marks: Vec<(u64, u8)>,
}

struct Program {
    image: Image,
    found: u16,
}

impl Program {
    fn load(dir: &Path, name: &str) -> Result<Self, Error> {
        let path = dir.join(name);
        let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let image = Image::parse(&bytes)?;
        let found = image.address("FOUND").ok_or("no FOUND in the image")?;
        Ok(Program { image, found })
    }

    /// Runs it with this on-time. `None`: it does not finish.
    ///
    /// **Errors**: it does what it must not do.
    fn run(&self, on: u64, longest: u64) -> Result<Option<Run>, Error> {
        let mut node = Node::new(&self.image);
        let mut garbage = Random::new(on);
        let mut run = Run {
            time: 0,
            lives: 0,
            found: [0; 8],
            packets: Vec::new(),
            stack: 0,
            marks: Vec::new(),
        };
        let mut before = (Vec::new(), 0);
        let mut same = 0;
        while run.time < longest {
            node.power_on(garbage.next_u64());
            node.set_sensor(sensor(&run.packets));
            let packets = &mut run.packets;
            let arrived = node.radio().sent().len();
            let mut seen = arrived;
            let ended = node.run(on, |node| {
                if node.radio().sent().len() != seen {
                    seen = node.radio().sent().len();
                    *packets = node.radio().sent().to_vec();
                    node.set_sensor(sensor(packets));
                }
            });
            run.lives += 1;
            run.stack = run.stack.max(node.stack());
            match ended {
                Ended::Cut => run.time += on,
                Ended::Stopped => {
                    run.time += node.now();
                    let cpu = node.cpu();
                    let word = |n: u16| cpu.word(self.found + 2 * n);
                    if word(0) != 0x600D {
                        return Err(format!("the program has failed after {} lives", run.lives).into());
                    }
                    run.found = [1, 2, 3, 4, 5, 6, 7, 8].map(word);
                    run.marks = match run.lives {
                        1 => node.marks().to_vec(),
                        _ => run.marks,
                    };
                    return Ok(Some(run));
                }
                Ended::Wrong(what) => {
                    return Err(format!("{what}\n  {}", node.line(&self.image)).into());
                }
            }
            run.marks = node.marks().to_vec();
            let now = (node.fram().to_vec(), run.packets.len());
            same = if now == before { same + 1 } else { 0 };
            if same > 8 {
                return Ok(None);
            }
            before = now;
        }
        Ok(None)
    }
}

/// The numbers of packets that have arrived, and which of them came again.
fn distinct(packets: &[Packet]) -> Vec<&Packet> {
    let mut all: Vec<&Packet> = Vec::new();
    for p in packets {
        if all.last() != Some(&p) {
            all.push(p);
        }
    }
    all
}

/// The sensor's voltage: it is warmer with each packet that has arrived, so each mean is another
/// one, and one that mixes the readings of two packets is wrong.
fn sensor(packets: &[Packet]) -> u16 {
    760 + 5 * distinct(packets).len() as u16
}

fn ms(time: u64) -> f64 {
    time as f64 / MS as f64
}

fn run() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("no folder of images")?;
    for name in args {
        program(Path::new(&dir), &name)?;
    }
    Ok(())
}

fn program(dir: &Path, name: &str) -> Result<(), Error> {
    let bare = Program::load(dir, &format!("{name}-bare"))?;
    let mine = Program::load(dir, name)?;
    let wired = bare.run(u64::MAX, u64::MAX)?.ok_or("the bare program has no end")?;
    println!("device.{name}.wired_ms {:.3}", ms(wired.time));
    let of = |on: u64| -> Result<Option<Run>, Error> {
        let run = mine.run(on, LONGEST * wired.time)?;
        if let Some(run) = &run {
            if run.found != wired.found {
                return Err(format!("{name} at {} ms finds {:?}, not {:?}", ms(on), run.found, wired.found).into());
            }
            if distinct(&run.packets) != distinct(&wired.packets) {
                return Err(format!("{name} at {} ms: other packets", ms(on)).into());
            }
        }
        Ok(run)
    };
    let y = |run: &Option<Run>| run.as_ref().map_or(0.0, |r| wired.time as f64 / r.time as f64);
    let whole = of(u64::MAX)?;
    println!("device.{name}.yield_max {:.4}", y(&whole));
    for on in SHOWN {
        let run = of(on * MS)?;
        println!("device.{name}.yield_{on}ms {:.4}", y(&run));
        if let Some(run) = run {
            println!(
                "device.{name}.lives_{on}ms {}\ndevice.{name}.repeated_{on}ms {}",
                run.lives,
                run.packets.len() - distinct(&run.packets).len()
            );
        }
    }
    // Downwards, until one does not finish.
    let step = MS / 20;
    let mut least = 10 * MS;
    while of(least - step)?.is_some() {
        least -= step;
    }
    println!("device.{name}.t_on_min_ms {:.2}", ms(least));
    let whole = whole.ok_or("no end without cuts")?;
    println!("device.{name}.stack_bytes {}", whole.stack);
    println!("device.{name}.bare_stack_bytes {}", wired.stack);
    if let Some(cut) = of(10 * MS)? {
        for (at, mark) in cut.marks.iter().take(24) {
            eprintln!("{name} mark {mark} at {:.4} ms", ms(*at));
        }
    }
    Ok(())
}
