//! Generated programs: steps, loops, inputs, sleeps and messages, on mapped memory and over mirrors
//! whose media fail, blocking and as tasks whose futures are dropped.
//!
//! | file | what it has |
//! |---|---|
//! | `program` | scripts: what a program calls, and what its openings meet |
//! | `judge` | what a replay must have seen |
//! | `drivers` | the environment: sensor, radio, clocks; and the bodies of steps |
//! | `blocking`, `task` | the two forms of a program |
//! | `found` | what the campaigns have found: each as its shortest script |

mod blocking;
mod drivers;
mod found;
mod judge;
mod program;
mod task;

use crate::faulty::{Control, Fault, Faulty, finish};
use crate::generate::{programs, seed};
use crate::mirrored::media::{HalfPages, config};
use blocking::Rt;
use drivers::{Drivers, Durable, GIVEN_UP, Objects};
use judge::{Outside, Plan};
use nv_mirror::{Durability, Mirror, MirrorError, asynch};
use nv_replay::nvmem::device::Medium;
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, OpenError, Options, Replay};
use powerfail::{Mapped, Media, Mram16, Simulated, SpiFram, World, random};
use program::{Opening, Script, scripts};
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
