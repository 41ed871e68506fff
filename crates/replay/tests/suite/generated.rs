//! Generated programs, on mapped memory and over mirrors whose media fail.
//!
//! | file | what it has |
//! |---|---|
//! | `program` | scripts of steps, loops, inputs, sleeps and messages, and what openings meet |
//! | `judge` | what a replay of these must have seen |
//! | `drivers` | the environment: sensor, radio, clocks; and the bodies of steps |
//! | `blocking`, `task` | the two forms of a program; futures of a task are dropped |
//! | `updates` | programs that are changed between two boots |
//! | `moods` | steps that send or not, and radios that are busy, unwind, or are not there |
//! | `partners` | tokens and joins |
//! | `long` | loops whose counters carry |
//! | `threads` | several threads on one pool |
//! | `migrations` | roots of other types |
//! | `found` | failures that were found, as scripts |

mod blocking;
mod drivers;
mod found;
mod judge;
mod long;
mod migrations;
mod moods;
mod partners;
mod program;
mod task;
mod threads;
mod updates;

use crate::faulty::{Control, Fault, Faulty, finish};
use crate::mirrored::media::{HalfPages, config};
use crate::runs::{programs, seed};
use blocking::Rt;
use drivers::{Drivers, Durable, GIVEN_UP, Objects};
use judge::{Outside, Plan};
use nv_mirror::{Durability, Mirror, MirrorError, asynch};
use nv_replay::nvmem::device::Medium;
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, OpenError, Options, Replay};
use powerfail::{Mapped, Mram16, Simulated, SpiFram, World, random};
use program::{Opening, Script, scripts, short_scripts};
use std::mem::MaybeUninit;

/// The room of a region. No script needs more.
fn options<'m>(script: &Script) -> Options<'m> {
    Options {
        table: Config {
            bytes: 600,
            outbox_bytes: 400,
            seq_bits: script.bits,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    }
}

const BYTES: usize = 2560;

impl Script {
    /// What the next opening of the runtime meets.
    fn opens(&self, world: &World<'_, Outside>) -> Opening {
        let n = world.with(|w| w.openings) as usize;
        world.update(|w| w.openings += 1);
        let none = Opening {
            calls: 0,
            fault: Fault::None,
        };
        self.openings.get(n).copied().unwrap_or(none)
    }
}

/// Whether a program has ended.
#[track_caller]
fn has_ended(done: Result<(), Error>, medium_failed: bool) -> bool {
    match done {
        Ok(()) => true,
        Err(GIVEN_UP) => false,
        Err(Error::Medium) if medium_failed => false,
        Err(e) => panic!("{e}"),
    }
}

/// One boot on mapped memory. Openings are given up, and the runtime is opened again there.
fn mapped<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>, script: &Script)
where
    M::Unit: Width,
{
    let plan = Plan::of(&script.ops);
    let mut region = nv;
    loop {
        let opening = script.opens(world);
        let drivers = Drivers::new(world, script, &plan, Durable::Commits, opening);
        let opened = Replay::open_with(region, options(script), drivers, |_| Ok(Objects::NEW));
        let mut rt = opened.map_err(|refused| refused.error).expect("only cuts");
        if has_ended(blocking::program(&mut rt), false) {
            return;
        }
        region = rt.close();
    }
}

/// One boot over a mirror. After an error of the medium, mirror and runtime are opened again.
fn mirrored<D: Medium>(nv: D, world: &World<'_, Outside>, script: &Script, durability: Durability) {
    let plan = Plan::of(&script.ops);
    let durable = match durability {
        Durability::EachCommit => Durable::Commits,
        _ => Durable::Nothing,
    };
    let control = Control::new();
    let mut nv = Faulty::new(nv, &control);
    loop {
        let opening = script.opens(world);
        control.meets(opening.fault);
        let all = 0..Medium::capacity(&nv);
        let mut memory = MEMORY;
        let config = config(3, durability);
        let opened = Mirror::open::<InOrder32>(&mut nv, all, &config, &mut memory);
        let (saver, region) = match opened {
            Ok(opened) => opened,
            Err(MirrorError::Medium(_)) if control.has_failed() => continue,
            Err(e) => panic!("{e}"),
        };
        let drivers = Drivers::new(world, script, &plan, durable, opening);
        let opened = Rt::open_mirrored(region, saver, options(script), drivers, |_| {
            Ok(Objects::NEW)
        });
        let mut rt = match opened.map_err(|refused| refused.error) {
            Ok(rt) => rt,
            Err(OpenError::Medium) if control.has_failed() => continue,
            Err(e) => panic!("{e}"),
        };
        if has_ended(blocking::program(&mut rt), control.has_failed()) {
            return;
        }
    }
}

/// One boot of a task over a mirror. A future that was dropped leaves mirror and region: the
/// runtime is opened again there.
fn task<D: Medium>(nv: D, world: &World<'_, Outside>, script: &Script, durability: Durability) {
    let plan = Plan::of(&script.ops);
    let durable = match durability {
        Durability::EachCommit => Durable::Waits,
        _ => Durable::Nothing,
    };
    let control = Control::new();
    let mut nv = Faulty::new(nv, &control);
    'mirror: loop {
        let mut opening = script.opens(world);
        control.meets(opening.fault);
        let all = 0..Medium::capacity(&nv);
        let mut memory = MEMORY;
        let config = config(3, durability);
        let opened = asynch::Mirror::open::<InOrder32>(&mut nv, all, &config, &mut memory);
        let (mut saver, mut region) = match finish(opened, opening.fault) {
            Some(Ok(opened)) => opened,
            None => continue,
            Some(Err(MirrorError::Medium(_))) if control.has_failed() => continue,
            Some(Err(e)) => panic!("{e}"),
        };
        loop {
            let drivers = Drivers::new(world, script, &plan, durable, opening).queues();
            let opened =
                Rt::open_mirrored_async(region, &mut saver, options(script), drivers, |_| {
                    Ok(Objects::NEW)
                });
            let mut rt = opened.map_err(|refused| refused.error).expect("only cuts");
            match finish(task::program(&mut rt), opening.fault) {
                Some(done) if has_ended(done, control.has_failed()) => return,
                Some(_) => continue 'mirror,
                None => region = rt.close(),
            }
            opening = script.opens(world);
            control.meets(opening.fault);
        }
    }
}

/// The region and its shadow.
const MEMORY: [MaybeUninit<u64>; 2 * BYTES / 8] = [MaybeUninit::new(0); 2 * BYTES / 8];

/// A campaign for each form of a program and each medium.
macro_rules! campaigns {
    ($($name:ident: $media:expr, $cases:literal programs,
       |$nv:ident, $world:ident, $script:ident| $boot:expr;)+) => {
        $(#[test]
        fn $name() {
            let s = random(scripts(), || $media, |$nv, $world: &World<'_, Outside>, $script| {
                $boot
            })
            .cases(programs($cases))
            .seed(seed())
            .run();
            println!("{s}");
        })+
    };
}

fn mram() -> Simulated<Mram16> {
    Simulated::new(3 * 5200)
}

fn fram() -> Simulated<SpiFram> {
    Simulated::new(3 * 5200)
}

fn flash() -> Simulated<HalfPages> {
    Simulated::new(3 * 3 * 2304).refusal_fails()
}

use Durability::{BeforeOutput, EachCommit, Every};

campaigns! {
    in_order_16: Mapped::<InOrder16>::new(BYTES), 24 programs, |nv, w, s| mapped(nv, w, s);
    in_order_32: Mapped::<InOrder32>::new(BYTES), 24 programs, |nv, w, s| mapped(nv, w, s);
    buffered_32: Mapped::<Buffered32>::new(BYTES), 12 programs, |nv, w, s| mapped(nv, w, s);
    each_commit_on_mram: mram(), 12 programs, |nv, w, s| mirrored(nv, w, s, EachCommit);
    before_output_on_mram: mram(), 12 programs, |nv, w, s| mirrored(nv, w, s, BeforeOutput);
    every_third_commit_on_fram: fram(), 3 programs, |nv, w, s| mirrored(nv, w, s, Every(3));
    before_output_on_flash: flash(), 12 programs, |nv, w, s| mirrored(nv, w, s, BeforeOutput);
    each_commit_on_flash: flash(), 12 programs, |nv, w, s| mirrored(nv, w, s, EachCommit);
    tasks_each_commit_on_mram: mram(), 12 programs, |nv, w, s| task(nv, w, s, EachCommit);
    tasks_each_commit_on_flash: flash(), 12 programs, |nv, w, s| task(nv, w, s, EachCommit);
    tasks_before_output_on_fram: fram(), 3 programs, |nv, w, s| task(nv, w, s, BeforeOutput);
    tasks_before_output_on_mram: mram(), 12 programs, |nv, w, s| task(nv, w, s, BeforeOutput);
}

/// The first cut leaves a save that reads new, and the second one takes it back: what the boot
/// between them has sent must have been saved again.
#[test]
fn before_output_on_flash_cut_twice() {
    type W<'a, 'r> = &'a World<'r, Outside>;
    let s = random(short_scripts(), flash, |nv, w: W, s| {
        mirrored(nv, w, s, BeforeOutput)
    });
    println!("{}", s.depth(2).cases(programs(3)).seed(seed()).run());
}
