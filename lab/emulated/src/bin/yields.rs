//! `yields DIR`: runs the programs of `lab/sytare`, whose images are in a folder, on an
//! MSP430FR5994 whose supply ends after a constant on-time, again and again. Each must come to what
//! the bare program comes to without cuts. Prints lines `key value`.
//!
//! The yield is the time of the bare program over the on-time of the one that is cut. Both begin
//! with the supply; what passes while it is off does not count.

use msp430_emu::fr5994::{Ended, MS, Node, Outside};
use msp430_emu::{Image, Random};
use relume_models::radio::Packet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

type Error = Box<dyn std::error::Error>;

/// The on-times of the plot, in milliseconds.
const ON: [u64; 17] = [
    3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 36, 42, 50, 60, 80, 100,
];
/// The on-times at which other builds of the node have figures, too.
const SHOWN: [u64; 4] = [3, 10, 42, 100];
/// A run that takes so many times as long as the bare one does not finish.
const LONGEST: u64 = 50;
/// With no change in so many lives, none will come.
const IDLE: u32 = 8;
/// The smallest on-time is sought downwards from here, in such steps.
const LEAST_FROM: u64 = 45 * MS / 10;
const LEAST_STEP: u64 = MS / 20;

/// Runs of each program with lives that are not equally long.
const IRREGULAR: u64 = 10;

/// Programs of the paper's first table; and others that are the node, too.
const PROGRAMS: [&str; 4] = ["rsa", "leds", "sense", "wsn"];
/// With the bare program beside which each is.
const NODES: [(&str, &str); 4] = [
    ("wsn-paced", "wsn-paced"),
    ("wsn-eager", "wsn-paced"),
    ("wsn-kept", "wsn-kept"),
    ("wsn-steps", "wsn"),
];
/// Programs to which something happens, and what their LEDs show at the end.
const INTERRUPTED: [&str; 2] = ["buttons", "receive"];
const EVENTS: u16 = 20;
/// An event each 3.7 ms.
const EACH: u64 = 37 * MS / 10;

/// Programs with a mistake, and the bare ones that have none. One of the on-times must show it.
const PLANTED: [(&str, &str); 2] = [("planted-leds", "leds"), ("planted-wsn", "wsn")];
const PLANTED_ON: std::ops::Range<u64> = 5..30;

/// Marks of the programs: `lab/sytare/src/start.rs`. Behind each is the one that ends it.
const PROGRAM: u8 = 1;
const OPEN: u8 = 2;
const CALLS: [(u8, &str); 4] = [(10, "sense"), (20, "sleep"), (30, "wake"), (40, "send")];
const RESTORED: [(u8, &str); 3] = [(50, "bus"), (60, "radio"), (70, "adc")];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// For how long the supply is on in a life.
#[derive(Clone, Copy)]
enum Supply {
    /// Always as long.
    Constant(u64),
    /// From so long to 16 ms more, pseudo-random from a seed.
    Irregular(u64, u64),
}

impl Supply {
    const ALWAYS: Supply = Supply::Constant(u64::MAX);

    /// In words.
    fn name(self) -> String {
        match self {
            Supply::Constant(on) => format!("{:.2} ms", ms(on)),
            Supply::Irregular(_, seed) => format!("irregular supply {seed}"),
        }
    }
}

/// What a run has come to.
#[derive(Default)]
struct Run {
    /// On-time until the end.
    time: u64,
    lives: u64,
    found: [u16; 8],
    /// What has arrived, in order.
    packets: Vec<Packet>,
    /// What the LEDs showed last, and how often that has changed.
    leds: (u8, u16),
    stack: u16,
    kept: u16,
    /// Of the last life that was cut, or of the only one.
    marks: Vec<(u64, u8)>,
}

impl Run {
    /// What is not as it is without cuts.
    fn differs(&self, wired: &Run) -> Option<String> {
        if self.found != wired.found {
            return Some(format!("it finds {:?}, not {:?}", self.found, wired.found));
        }
        if self.leds != wired.leds {
            return Some(format!("the LEDs {:?}, not {:?}", self.leds, wired.leds));
        }
        let (mine, packets) = (distinct(&self.packets), distinct(&wired.packets));
        (mine != packets).then(|| "other packets".to_owned())
    }

    /// Microseconds from a mark to another one.
    fn between(&self, from: u8, to: u8) -> Option<f64> {
        let at = |mark| self.marks.iter().find(|m| m.1 == mark).map(|m| m.0);
        Some((at(to)? - at(from)?) as f64 * 1000.0 / MS as f64)
    }
}

/// What is printed; how many runs were compared, and the cuts in them.
#[derive(Default)]
struct Report {
    text: String,
    runs: u32,
    cuts: u64,
}

impl Report {
    fn add(&mut self, run: &Option<Run>) {
        self.runs += 1;
        self.cuts += run.as_ref().map_or(0, |r| r.lives - 1);
    }

    /// A figure of a program.
    fn say(&mut self, name: &str, figure: &str, value: impl std::fmt::Display) {
        let name = name.replace('-', "_");
        self.text += &format!("device.{name}.{figure} {value}\n");
    }
}

struct Program {
    name: &'static str,
    image: Image,
    found: u16,
}

impl Program {
    fn load(dir: &Path, name: &'static str, bare: bool) -> Result<Self, Error> {
        let path = match bare {
            true => dir.join(format!("{name}-bare")),
            false => dir.join(name),
        };
        let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let image = Image::parse(&bytes)?;
        let found = image.address("FOUND").ok_or("no FOUND in the image")?;
        Ok(Program { name, image, found })
    }

    /// Bytes of code, constants, vectors, and first values of RAM.
    fn code(&self) -> usize {
        self.image.segments.iter().map(|s| s.1.len()).sum()
    }

    /// Runs it with this on-time. `None`: it does not finish in `longest`.
    ///
    /// **Errors**: it does what it must not do.
    fn run(&self, supply: Supply, longest: u64) -> Result<Option<Run>, Error> {
        let wrong = |what: String| format!("{} with {}: {what}", self.name, supply.name());
        let mut node = Node::new(&self.image);
        let mut garbage = Random::new(match supply {
            Supply::Constant(on) => on,
            Supply::Irregular(_, seed) => seed,
        });
        let mut run = Run::default();
        let mut before = Vec::new();
        let mut idle = 0;
        while run.time < longest {
            let on = match supply {
                Supply::Constant(on) => on,
                Supply::Irregular(least, _) => least + garbage.below(16 * MS),
            };
            node.power_on(garbage.next_u64());
            node.set_sensor(sensor(&run.packets));
            if INTERRUPTED.contains(&self.name) {
                plan(self.name, &mut node, run.time, on);
            }
            let mut seen = run.packets.len();
            let packets = &mut run.packets;
            let ended = node.run(on, |node| {
                if node.radio().sent().len() != seen {
                    seen = node.radio().sent().len();
                    *packets = node.radio().sent().to_vec();
                    node.set_sensor(sensor(packets));
                }
            });
            run.lives += 1;
            run.stack = run.stack.max(node.stack());
            run.kept = node.kept();
            if ended == Ended::Cut || run.lives == 1 {
                run.marks = node.marks().to_vec();
            }
            match ended {
                Ended::Cut => run.time += on,
                Ended::Stopped => {
                    run.time += node.now();
                    let word = |n: u16| node.cpu().word(self.found + 2 * n);
                    if word(0) != 0x600D {
                        return Err(wrong(format!("it fails in life {}", run.lives)).into());
                    }
                    run.found = [1, 2, 3, 4, 5, 6, 7, 8].map(word);
                    run.leds = (node.leds().seen(), node.leds().changes());
                    return Ok(Some(run));
                }
                Ended::Wrong(what) => {
                    return Err(wrong(format!("{what}\n  {}", node.line(&self.image))).into());
                }
            }
            idle = if node.fram() == before { idle + 1 } else { 0 };
            if idle > IDLE && !INTERRUPTED.contains(&self.name) {
                return Ok(None);
            }
            before.clear();
            before.extend_from_slice(node.fram());
        }
        Ok(None)
    }
}

/// Buttons are pressed for a millisecond, in turns; packets have the next number.
fn plan(name: &str, node: &mut Node, since: u64, on: u64) {
    let until = since.saturating_add(on);
    let first = since.div_ceil(EACH).max(1);
    for n in (first..first + 4 * u64::from(EVENTS)).take_while(|n| n * EACH < until) {
        let at = n * EACH - since;
        if name == "buttons" {
            let button = n as u8 & 1;
            node.plan(at, Outside::Press(button));
            node.plan(at + MS, Outside::Release(button));
        } else {
            let bytes = vec![n.min(255) as u8];
            node.plan(at, Outside::Packet(Packet { channel: 7, bytes }));
        }
    }
}

/// Without those that came again: a receiver knows them by their number.
fn distinct(packets: &[Packet]) -> Vec<&Packet> {
    let mut all: Vec<&Packet> = packets.iter().collect();
    all.dedup();
    all
}

/// The sensor's voltage. It is warmer with each packet that has arrived: so each mean is another
/// one, and a mean that mixes the readings of two packets is wrong.
fn sensor(packets: &[Packet]) -> u16 {
    760 + 5 * distinct(packets).len() as u16
}

fn ms(time: u64) -> f64 {
    time as f64 / MS as f64
}

fn run() -> Result<(), Error> {
    let dir = std::env::args().nth(1).ok_or("no folder of images")?;
    let dir = Path::new(&dir);
    type Job<'a> = Box<dyn Fn(&mut Report) -> Result<(), Error> + Send + Sync + 'a>;
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for name in PROGRAMS {
        jobs.push(Box::new(move |r| program(dir, name, name, r)));
    }
    for (name, bare) in NODES {
        jobs.push(Box::new(move |r| program(dir, name, bare, r)));
    }
    for name in INTERRUPTED {
        jobs.push(Box::new(move |r| interrupted(dir, name, r)));
    }
    for (name, bare) in PLANTED {
        jobs.push(Box::new(move |_| planted(dir, name, bare)));
    }
    jobs.push(Box::new(move |r| calls(dir, r)));
    // Each prints what it has found when all have ended.
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..threads.min(jobs.len()) {
            s.spawn(|| {
                while let Some((n, job)) = take(&jobs, &next) {
                    let mut report = Report::default();
                    let result = job(&mut report).map_err(|e| e.to_string());
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((n, result.map(|()| report)));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|d| d.0);
    let (mut runs, mut cuts) = (0, 0);
    for (_, report) in done {
        let report = report?;
        print!("{}", report.text);
        runs += report.runs;
        cuts += report.cuts;
    }
    println!("device.yield_runs {runs}\ndevice.yield_cuts {cuts}");
    Ok(())
}

/// The next one that nobody has taken.
fn take<'a, T>(all: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    Some((n, all.get(n)?))
}

/// A program at all on-times, beside the bare one.
fn program(
    dir: &Path,
    name: &'static str,
    bare: &'static str,
    report: &mut Report,
) -> Result<(), Error> {
    let bare = Program::load(dir, bare, true)?;
    let mine = Program::load(dir, name, false)?;
    let wired = bare.run(Supply::ALWAYS, u64::MAX)?;
    let wired = wired.ok_or("the bare program has no end")?;
    let with = |report: &mut Report, supply: Supply| -> Result<Option<Run>, Error> {
        let run = mine.run(supply, LONGEST * wired.time)?;
        report.add(&run);
        if let Some(differs) = run.as_ref().and_then(|r| r.differs(&wired)) {
            return Err(format!("{name} with {}: {differs}", supply.name()).into());
        }
        Ok(run)
    };
    let of = |report: &mut Report, on: u64| with(report, Supply::Constant(on));
    let y = |r: &Run| wired.time as f64 / r.time as f64;
    let whole = of(report, u64::MAX)?.ok_or("no end without cuts")?;
    report.say(name, "wired_ms", format!("{:.2}", ms(wired.time)));
    report.say(name, "yield_max", format!("{:.4}", y(&whole)));
    let mut again = 0;
    let all: &[u64] = if PROGRAMS.contains(&name) {
        &ON
    } else {
        &SHOWN
    };
    for on in all {
        let run = of(report, *on * MS)?;
        if let Some(run) = &run {
            again += run.packets.len() - distinct(&run.packets).len();
        }
        let y = run.as_ref().map_or(0.0, y);
        report.say(name, &format!("yield_{on}ms"), format!("{y:.4}"));
    }
    let mut least = LEAST_FROM;
    while of(report, least - LEAST_STEP)?.is_some() {
        least -= LEAST_STEP;
    }
    report.say(name, "t_on_min_ms", format!("{:.2}", ms(least)));
    if !wired.packets.is_empty() {
        report.say(name, "packets_again", again);
    }
    report.say(name, "image_bytes", whole.kept);
    report.say(name, "nvram_bytes", mine.code() + usize::from(whole.kept));
    report.say(name, "bare_nvram_bytes", bare.code());
    report.say(name, "stack_bytes", whole.stack);
    report.say(name, "bare_stack_bytes", wired.stack);
    if name == "wsn" {
        let cut = of(report, 10 * MS)?.ok_or("no end at 10 ms")?;
        boot(&cut, report)?;
        let nvram = mine.code() + usize::from(whole.kept);
        report.text += &format!("device.nvram_bytes {nvram}\n");
        let stack = whole.stack - wired.stack;
        report.text += &format!("device.kernel_stack_bytes {stack}\n");
    }
    for seed in 0..IRREGULAR {
        let run = with(report, Supply::Irregular(least, seed))?;
        run.ok_or_else(|| format!("{name} with irregular supply {seed} does not finish"))?;
    }
    Ok(())
}

/// What a boot takes, in microseconds.
fn boot(run: &Run, report: &mut Report) -> Result<(), Error> {
    let first = run.marks.first().filter(|m| m.1 == PROGRAM);
    let first = first.ok_or("a life without a mark")?.0 - msp430_emu::fr5994::BOOT;
    let us = |time: u64| time as f64 * 1000.0 / MS as f64;
    report.say("boot", "hardware_us", us(msp430_emu::fr5994::BOOT));
    report.say("boot", "start_us", format!("{:.1}", us(first)));
    let contexts = run
        .between(PROGRAM, OPEN)
        .ok_or("no mark of the contexts")?;
    report.say("boot", "contexts_us", format!("{contexts:.1}"));
    for (mark, what) in RESTORED {
        let took = run.between(mark, mark + 1).ok_or("no mark of a device")?;
        report.say("boot", &format!("{what}_us"), format!("{took:.1}"));
    }
    Ok(())
}

/// A program that interrupts drive: without cuts, and with many on-times. All that was stored
/// counts once, and the LEDs show nothing that is taken back.
fn interrupted(dir: &Path, name: &'static str, report: &mut Report) -> Result<(), Error> {
    let bare = Program::load(dir, name, true)?.run(Supply::ALWAYS, u64::MAX)?;
    let bare = bare.ok_or("the bare program has no end")?;
    let mine = Program::load(dir, name, false)?;
    let whole = mine
        .run(Supply::ALWAYS, u64::MAX)?
        .ok_or("no end without cuts")?;
    if whole.found != bare.found || whole.leds != bare.leds {
        return Err(format!("{name} finds {:?}", whole.found).into());
    }
    let mut stack = 0;
    for on in (45..400).step_by(13) {
        let run = mine.run(Supply::Constant(on * MS / 10), 4000 * MS)?;
        report.add(&run);
        let run =
            run.ok_or_else(|| format!("{name} with {} ms does not finish", on as f64 / 10.0))?;
        let [count, second, third, ..] = run.found;
        let once = match name {
            "buttons" => second + third == EVENTS,
            // Numbers that did not go up.
            _ => second == 0,
        };
        if count != EVENTS || !once || run.leds != (EVENTS as u8, EVENTS) {
            let what = (run.found, run.leds);
            return Err(format!("{name} with {} ms finds {what:?}", on as f64 / 10.0).into());
        }
        stack = stack.max(run.stack);
    }
    report.say(name, "stack_bytes", whole.stack);
    report.say(name, "stack_cut_bytes", stack);
    report.say(name, "bare_stack_bytes", bare.stack);
    Ok(())
}

/// A program with a mistake: one of the runs must find it.
fn planted(dir: &Path, name: &'static str, bare: &'static str) -> Result<(), Error> {
    let wired = Program::load(dir, bare, true)?.run(Supply::ALWAYS, u64::MAX)?;
    let wired = wired.ok_or("the bare program has no end")?;
    let mine = Program::load(dir, name, false)?;
    for on in PLANTED_ON {
        let run = mine.run(Supply::Constant(on * MS), LONGEST * wired.time)?;
        if run.is_some_and(|r| r.differs(&wired).is_some()) {
            return Ok(());
        }
    }
    Err(format!("no run has found the mistake in {name}").into())
}

/// What `nv-device` adds to calls.
fn calls(dir: &Path, report: &mut Report) -> Result<(), Error> {
    let run = |bare| Program::load(dir, "calls", bare)?.run(Supply::ALWAYS, u64::MAX);
    let (mine, bare) = (run(false)?, run(true)?);
    for (mark, call) in CALLS {
        let took = |run: &Option<Run>| run.as_ref()?.between(mark, mark + 1);
        let (Some(mine), Some(bare)) = (took(&mine), took(&bare)) else {
            return Err(format!("no marks of {call}").into());
        };
        report.say("msp430", &format!("{call}_us"), format!("{bare:.1}"));
        let added = (mine / bare - 1.0) * 100.0;
        report.say("msp430", &format!("{call}_percent"), format!("{added:.1}"));
    }
    Ok(())
}
