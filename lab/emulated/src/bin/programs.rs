//! `programs DIR`: runs the programs of `lab/programs-msp430`, whose images are in a folder, on an
//! MSP430FR5994: without protection in SRAM and in FRAM, with protection, and with a supply that
//! ends again and again. Each run must find what the plain reference finds. Prints lines
//! `key value`.
//!
//! A run begins when the threads do. With cuts, all boots but the first one count: so does what is
//! done again. What formats the memory is not cut, and does not count. A program is repeated until
//! it has run, without cuts, for ten on-times.

use lab_programs::reference;
use msp430_emu::arithmetic::{HELPERS, check, check_memory};
use msp430_emu::fr5994::{BOOT, Ended, MS, Node};
use msp430_emu::{Accesses, Energy, Image, Random};
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

type Error = Box<dyn std::error::Error>;

const PROGRAMS: [&str; 11] = [
    "bc", "mlp", "ar", "kv", "sen", "em", "mq", "etl", "pred", "stats", "train",
];
/// On-times, in milliseconds.
const ON: [u64; 3] = [10, 5, 1];
/// The smallest on-time with which a program ends is sought in such steps, up to so many.
const STEP: u64 = MS / 4;
const STEPS: u64 = 160;
/// A program that takes so many times as long with cuts as without has no end.
const MOST: u64 = 6;
/// A program is repeated until it has run for so many on-times without cuts.
const LONG: u64 = 10;
/// The program that is run on a memory which loses stores, with on-times of so many milliseconds.
/// One of them must show it.
const PLANTED: (&str, std::ops::Range<u64>) = ("em", 8..30);

/// 1 there if a program without protection has its memory in FRAM, too.
const IN_FRAM: u16 = 0x19FE;
/// What port 4 shows: `lab/programs-msp430/src/start.rs`.
const THREADS: u8 = 1;
const OVER: u8 = 2;
/// When the stacks of a program are looked at that is not cut: milliseconds after its reset.
const STACKS: [u64; 6] = [3, 8, 10, 12, 20, 50];
/// No program runs so long without cuts.
const LONGEST: u64 = 60_000 * MS;
/// If the threads have not begun in so many lives, they never will.
const IDLE: u32 = 8;
/// Calls of each function of an image's arithmetic, which is checked first.
const CALLS: u64 = 200;
/// Bytes of a stack that nothing must have used.
const UNUSED: usize = 16;
/// How many threads there may be.
const THREADS_MAX: usize = 8;
/// Bytes of a thread's stack, of so many: `examples/programs/src/bare.rs`.
fn stack(threads: usize) -> u16 {
    (5120 / threads.max(1) as u16 / 16 * 16).min(2048)
}
const RAM: std::ops::Range<u16> = 0x1C00..0x3C00;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What something has cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    cycles: u64,
    nanojoules: f64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, more: Cost) {
        self.cycles += more.cycles;
        self.nanojoules += more.nanojoules;
    }
}

/// A moment of a life.
#[derive(Clone, Copy)]
struct Moment {
    time: u64,
    cycles: u64,
    accesses: Accesses,
}

impl Moment {
    fn now(node: &Node) -> Self {
        Moment {
            time: node.now() - BOOT,
            cycles: node.cpu().cycles,
            accesses: node.cpu().waits.accesses,
        }
    }

    /// What it took since an earlier one.
    fn since(&self, before: &Moment) -> Cost {
        let (a, b) = (&self.accesses, &before.accesses);
        let accesses = Accesses {
            hits: a.hits - b.hits,
            misses: a.misses - b.misses,
            writes: a.writes - b.writes,
            ram: a.ram - b.ram,
        };
        Cost {
            // Units of time are cycles at 16 MHz: start-up is slower at first.
            cycles: self.time - before.time,
            nanojoules: Energy::FR5994.of(self.cycles - before.cycles, &accesses),
        }
    }
}

/// A life of a program.
struct Life {
    ended: Ended,
    begin: Moment,
    /// When its threads began, and when the last one had ended.
    threads: Option<Moment>,
    over: Option<Moment>,
    end: Moment,
    /// It has ended, and this is wrong with what it has found.
    wrong: Option<String>,
}

struct Program {
    name: &'static str,
    image: Image,
    found: u16,
}

impl Program {
    /// `None` if there is no image: it does not fit.
    fn load(dir: &Path, name: &'static str, kind: &str) -> Result<Option<Self>, Error> {
        let path = dir.join(format!("{name}{kind}"));
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let image = Image::parse(&bytes)?;
        let mut rng = Random::new(1);
        for helper in &HELPERS {
            check(&image, helper, CALLS, &mut rng).map_err(|e| format!("{name}{kind}: {e}"))?;
        }
        check_memory(&image, CALLS, &mut rng).map_err(|e| format!("{name}{kind}: {e}"))?;
        let found = image.address("FOUND").ok_or("no FOUND in the image")?;
        Ok(Some(Program { name, image, found }))
    }

    /// Bytes of code, constants, vectors, and first values of RAM.
    fn code(&self) -> usize {
        self.image.segments.iter().map(|s| s.1.len()).sum()
    }

    fn node(&self) -> Node {
        Node::new(&self.image)
    }

    /// Runs it for so long at the most.
    ///
    /// **Errors**: it does what it must not do.
    fn live(&self, node: &mut Node, seed: u64, on: u64) -> Result<Life, Error> {
        node.power_on(seed);
        let begin = Moment::now(node);
        let (mut threads, mut over) = (None, None);
        let ended = node.run(BOOT.saturating_add(on), |node| {
            match node.marks().last().map(|m| m.1) {
                Some(THREADS) if threads.is_none() => threads = Some(Moment::now(node)),
                Some(OVER) if over.is_none() => over = Some(Moment::now(node)),
                _ => {}
            }
        });
        let end = Moment::now(node);
        let wrong = |what: String| format!("{}: {what}\n  {}", self.name, node.line(&self.image));
        let mut result = None;
        match &ended {
            Ended::Wrong(what) => return Err(wrong(what.clone()).into()),
            Ended::Cut => self.stacks(node, seed).map_err(wrong)?,
            Ended::Stopped => {
                let word = |n: u16| node.cpu().word(self.found + 2 * n);
                let number = |n: u16| u32::from(word(n)) | u32::from(word(n + 1)) << 16;
                let found = [1, 3, 5, 7].map(number);
                let wanted = reference::of(self.name);
                if word(0) != 0x600D || Some(found) != wanted {
                    result = Some(wrong(format!("it finds {found:?}, not {wanted:?}")));
                }
            }
        }
        Ok(Life {
            ended,
            begin,
            threads,
            over,
            end,
            wrong: result,
        })
    }

    /// Whether each stack was long enough: there is something in it that is still as this life
    /// found it.
    fn stacks(&self, node: &Node, seed: u64) -> Result<(), String> {
        let at = self.image.address("nv_rtos::port::bare::SWITCH");
        let at = at.ok_or("no SWITCH in the image")?;
        // Behind the addresses of two slots, and the slot of `main`.
        let slots = (3..3 + THREADS_MAX as u16).map(|n| node.cpu().word(at + 2 * n));
        let slots: Vec<u16> = slots.take_while(|s| *s != 0).collect();
        let mut garbage = [0; (RAM.end - RAM.start) as usize];
        Random::new(seed).fill(&mut garbage);
        let mem = &node.cpu().mem[RAM.start.into()..RAM.end.into()];
        let first = slots.first().copied().unwrap_or(RAM.end);
        let mut low = first.saturating_sub(stack(slots.len())).max(RAM.start);
        for (t, slot) in slots.iter().enumerate() {
            let of = usize::from(low - RAM.start)..usize::from(slot - RAM.start);
            let same = mem[of.clone()]
                .iter()
                .zip(&garbage[of])
                .map(|(a, b)| a == b);
            let (mut longest, mut now) = (0, 0);
            for same in same {
                now = if same { now + 1 } else { 0 };
                longest = longest.max(now);
            }
            if longest < UNUSED {
                return Err(format!("the stack of thread {t} is too short"));
            }
            low = *slot;
        }
        let statics = self.image.address("_statics_end").unwrap_or(u16::MAX);
        if RAM.end - node.stack() < statics {
            return Err("the stack reaches the statics".to_owned());
        }
        Ok(())
    }

    /// Runs it once without cuts: what it takes from the start of its threads, and what before.
    fn whole(&self, in_fram: bool) -> Result<(Cost, Cost), Error> {
        let run = |seed: u64, on: u64| -> Result<Life, Error> {
            let mut node = self.node();
            node.set_word(IN_FRAM, in_fram.into());
            self.live(&mut node, seed, on)
        };
        // Cut only to look at the stacks.
        for on in STACKS {
            run(on, on * MS)?;
        }
        let life = run(1, LONGEST)?;
        if let Some(wrong) = life.wrong {
            return Err(wrong.into());
        }
        let (Some(threads), Some(over)) = (life.threads, life.over) else {
            return Err(format!("{}: its threads come to no end", self.name).into());
        };
        let whole = over.since(&threads);
        Ok((whole, threads.since(&life.begin)))
    }

    /// Runs it with a supply that ends after so long, again and again. `None` if it does not come
    /// to its end. On a `lossy` memory it ends when something wrong was found.
    ///
    /// **Errors**: it finds something wrong, on a memory that keeps all.
    fn cut(&self, on: u64, whole: &Cost, format: u64, lossy: bool) -> Result<Option<Cuts>, Error> {
        let mut cuts = Cuts::default();
        let mut left = on;
        while cuts.runs * whole.cycles < LONG * on {
            let mut node = self.node();
            if lossy {
                node.lose_stores();
            }
            let mut idle = 0;
            for life in 0.. {
                // The first life formats the memory.
                let before = if life == 0 { format } else { 0 };
                let at = |e: &dyn Display| format!("{e}\n  life {life}, {:.2} ms", ms(on));
                let lived = self.live(&mut node, life + 1, before + left);
                let lived = lived.map_err(|e| at(&e))?;
                match &lived.wrong {
                    Some(_) if lossy => {
                        cuts.wrong = true;
                        return Ok(Some(cuts));
                    }
                    Some(wrong) => return Err(at(wrong).into()),
                    None => {}
                }
                let since = match (life, &lived.threads) {
                    (0, Some(threads)) => threads,
                    _ => &lived.begin,
                };
                let used = lived.end.since(since);
                cuts.cost += used;
                if life > 0 {
                    let threads = lived.threads.as_ref().unwrap_or(&lived.end);
                    let boot = threads.time - lived.begin.time;
                    cuts.boot = cuts.boot.max(boot);
                    cuts.cost.nanojoules += Energy::FR5994.reset;
                }
                match lived.ended {
                    Ended::Cut => (cuts.cuts, left) = (cuts.cuts + 1, on),
                    _ => {
                        left = left.saturating_sub(used.cycles).max(1);
                        break;
                    }
                }
                idle = if lived.threads.is_none() { idle + 1 } else { 0 };
                if idle > IDLE || life > 50 + MOST * whole.cycles / on {
                    return Ok(None);
                }
            }
            cuts.runs += 1;
        }
        Ok(Some(cuts))
    }
}

/// What a program with cuts has taken.
#[derive(Clone, Copy, Default)]
struct Cuts {
    cost: Cost,
    /// The longest boot, from the reset to the start of the threads, in cycles.
    boot: u64,
    cuts: u64,
    runs: u64,
    /// Something wrong was found, on a memory that loses stores.
    wrong: bool,
}

fn ms(time: u64) -> f64 {
    time as f64 / MS as f64
}

/// What is printed; the cuts in the runs, and the longest boot.
#[derive(Default)]
struct Report {
    text: String,
    cuts: u64,
    boot: u64,
}

impl Report {
    fn say(&mut self, name: &str, figure: &str, value: impl std::fmt::Display) {
        self.text += &format!("rtos.msp430.{name}.{figure} {value}\n");
    }
}

fn run() -> Result<(), Error> {
    let dir = std::env::args().nth(1).ok_or("no folder of images")?;
    let dir = Path::new(&dir);
    let only = std::env::args().nth(2);
    let names = PROGRAMS.into_iter();
    let names: Vec<_> = names
        .filter(|n| only.as_deref().is_none_or(|o| o == *n))
        .collect();
    // Each prints what it has found when all have ended.
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                while let Some((n, name)) = take(&names, &next) {
                    let mut report = Report::default();
                    let result = program(dir, name, &mut report).map_err(|e| e.to_string());
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((n, result.map(|()| report)));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|d| d.0);
    let mut cuts = 0;
    for (_, report) in done {
        let report = report?;
        print!("{}", report.text);
        cuts += report.cuts;
    }
    println!("rtos.msp430.cuts {cuts}");
    Ok(())
}

/// The next one that nobody has taken.
fn take<'a>(all: &'a [&'static str], next: &AtomicUsize) -> Option<(usize, &'a &'static str)> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    Some((n, all.get(n)?))
}

/// All builds of a program.
fn program(dir: &Path, name: &'static str, report: &mut Report) -> Result<(), Error> {
    let Some(plain) = Program::load(dir, name, "-plain")? else {
        return Ok(());
    };
    let (base, _) = plain.whole(false)?;
    let (fram, _) = plain.whole(true)?;
    report.say(name, "volatile_cycles", base.cycles);
    report.say(
        name,
        "volatile_energy_nj",
        format!("{:.0}", base.nanojoules),
    );
    report.say(name, "unprotected_cycles", fram.cycles);
    report.say(
        name,
        "unprotected_energy_nj",
        format!("{:.0}", fram.nanojoules),
    );
    report.say(name, "unprotected_code", plain.code());
    let Some(mine) = Program::load(dir, name, "")? else {
        return match name == PLANTED.0 {
            true => Err(format!("{name} does not fit, and is the one with a fault").into()),
            false => Ok(()),
        };
    };
    let (whole, format) = mine.whole(false)?;
    report.say(name, "cycles", whole.cycles);
    report.say(name, "energy_nj", format!("{:.0}", whole.nanojoules));
    report.say(name, "code", mine.code());
    let ratio = |over: f64| format!("{over:.4}");
    report.say(
        name,
        "overhead",
        ratio(whole.cycles as f64 / base.cycles as f64),
    );
    report.say(name, "energy", ratio(whole.nanojoules / base.nanojoules));
    let cut = |report: &mut Report, on: u64| -> Result<Option<Cuts>, Error> {
        let cuts = mine.cut(on, &whole, format.cycles, false)?;
        if let Some(c) = &cuts {
            (report.cuts, report.boot) = (report.cuts + c.cuts, report.boot.max(c.boot));
        }
        Ok(cuts)
    };
    for on in ON {
        let Some(cuts) = cut(report, on * MS)? else {
            continue;
        };
        let n = cuts.runs as f64;
        let over = cuts.cost.cycles as f64 / n / base.cycles as f64;
        report.say(name, &format!("overhead_{on}ms"), ratio(over));
        let over = cuts.cost.nanojoules / n / base.nanojoules;
        report.say(name, &format!("energy_{on}ms"), ratio(over));
    }
    // With `least` steps it ends, with `none` it does not.
    let (mut none, mut least) = (0, STEPS);
    if cut(report, least * STEP)?.is_none() {
        return Err(format!("{name} has no end with {} ms", least * STEP / MS).into());
    }
    while least - none > 1 {
        let between = (none + least) / 2;
        match cut(report, between * STEP)? {
            Some(_) => least = between,
            None => none = between,
        }
    }
    report.say(name, "least_ms", format!("{:.2}", ms(least * STEP)));
    report.say(name, "boot_cycles", report.boot);
    if name == PLANTED.0 {
        let noticed = PLANTED.1.into_iter().any(|on| {
            let cuts = mine.cut(on * MS, &whole, format.cycles, true);
            cuts.is_ok_and(|c| c.is_some_and(|c| c.wrong))
        });
        if !noticed {
            return Err("no run has noticed a memory that loses stores".into());
        }
    }
    Ok(())
}
