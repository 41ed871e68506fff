//! Machines on Unicorn: two engines over the same buffers, a fast one for boots and one that stops
//! at every instruction for detail.

pub mod arm;
mod armv7m;
mod buffer;
mod engine;
pub mod riscv;

use crate::image::Image;
use crate::machine::{Boot, End, Fault, FaultKind, Garbage, Machine, Ran, Registers, Traced};
use crate::state::{BENCH, Log, MAILBOX, NVM, State};
use anyhow::{Context, Result, bail};
use buffer::Buffer;
use capstone::Capstone;
use engine::{Engine, PAGE};
use relume_suite::abi;
use unicorn_engine::{Context as Saved, Prot, Unicorn};

/// What differs between the instruction sets.
pub trait Isa {
    /// Where memory lies.
    const MAP: &'static abi::Machine;
    /// Places of peripherals that start-up touches: plain memory here, cleared by a reset.
    const PERIPHERALS: &'static [u64];
    /// A core of this kind.
    fn engine(watch: engine::Watch) -> Result<Unicorn<'static, engine::Watch>>;
    /// Garbage in all registers, then what the core does itself at reset. The address to start at,
    /// in the way Unicorn wants it.
    fn reset(uc: &mut Unicorn<'static, engine::Watch>, image: &Image, seed: u64) -> u64;
    /// Bytes of the instruction that begins with this half-word.
    fn length(first: u16) -> usize;
    /// Puts right what Unicorn disturbs when it calls a hook of a store.
    fn settle(uc: &Unicorn<'_, engine::Watch>);
    /// Whether interrupts are enabled.
    fn unmasked(uc: &Unicorn<'_, engine::Watch>) -> bool;
    /// Has the timer's interrupt taken there, and runs its handler; then goes on.
    fn interrupt(e: &mut Engine, image: &Image, at: At, limit: u64, log: &mut Log) -> Ended;
    /// Pages of peripherals whose registers do something when they are written.
    const CONTROLS: &'static [u64];
    /// The page of a clock, which is read.
    const CLOCK: Option<u64> = None;
    /// A store to one of [`Isa::CONTROLS`], before it is made.
    fn stored(uc: &mut Unicorn<'_, engine::Watch>, at: u64, value: u32);
    /// A load from [`Isa::CLOCK`], before it is made.
    fn loaded(_: &mut Unicorn<'_, engine::Watch>, _: u64) {}
    /// An instant: the timer's interrupt becomes pending.
    fn elapse(uc: &mut Unicorn<'_, engine::Watch>);
    /// The core has stopped by itself. Where it goes on, if it waited for an interrupt that is
    /// pending, or that the next instant makes pending.
    fn wake(_: &mut Unicorn<'_, engine::Watch>) -> Option<u64> {
        None
    }
    /// The pending interrupt that the core takes now, by its number.
    fn due(uc: &Unicorn<'_, engine::Watch>) -> Option<u32>;
    /// The registers, to be compared with another emulator's.
    fn traced(uc: &Unicorn<'_, engine::Watch>) -> Registers;
    /// What Unicorn's number of an exception, or a jump to where there is no memory, is; `None`
    /// when a program may not do it.
    fn trapped(_: u32) -> Option<engine::Exception> {
        None
    }
    /// What the core does then. Where it goes on; `None` when that is a fault.
    fn exception(_: &mut Unicorn<'_, engine::Watch>, _: engine::Exception) -> Option<u64> {
        None
    }
    /// With detail: an instruction is about to run.
    fn fetched(_: &mut Unicorn<'_, engine::Watch>, _: u32) {}
    /// A disassembler.
    fn disassembler() -> capstone::CsResult<Capstone>;
}

/// How a run ended, after how many instructions, and at which.
pub type Ended = (End, u64, u32);

/// Between two instructions.
#[derive(Clone, Copy)]
pub struct At {
    /// How many have ended.
    pub ended: u64,
    /// The address of the next one.
    pub pc: u32,
}

/// An ARM or a RISC-V machine.
pub struct Emulated<I: Isa> {
    image: Image,
    garbage: Garbage,
    quick: Core,
    slow: Core,
    /// The last boot was one of the slow one.
    detailed: bool,
    /// Bytes at the start of RAM that hold static variables.
    statics: usize,
    code: Buffer,
    ram: Buffer,
    nvm: Buffer,
    mailbox: Buffer,
    peripherals: Vec<Buffer>,
    disassembler: Capstone,
    isa: std::marker::PhantomData<I>,
}

/// An engine and its registers as they are when it is made.
struct Core {
    engine: Engine,
    pristine: Saved,
}

impl<I: Isa> Emulated<I> {
    /// A machine with this image.
    ///
    /// **Errors**: the image does not fit in its memory, or Unicorn refuses something.
    pub fn new(image: Image) -> Result<Self> {
        let map = I::MAP;
        let mut code = Buffer::new(map.code_len as usize);
        for (at, bytes) in &image.segments {
            let from = at.checked_sub(map.code).map(|o| o as usize);
            let place = from.and_then(|f| code.bytes_mut().get_mut(f..f + bytes.len()));
            match place {
                Some(p) => p.copy_from_slice(bytes),
                None => bail!("a segment at {at:#x} is outside of the code's memory"),
            }
        }
        let ram = Buffer::new(map.ram_len as usize);
        let (nvm, mailbox) = (Buffer::new(NVM), Buffer::new(PAGE));
        let peripherals: Vec<_> = I::PERIPHERALS.iter().map(|_| Buffer::new(PAGE)).collect();
        let core = |detail| -> Result<Core> {
            let mut engine = Engine::new::<I>(I::engine(engine::Watch::new::<I>())?, detail)?;
            engine.map(map.code.into(), &code, Prot::READ | Prot::EXEC)?;
            engine.map(map.ram.into(), &ram, Prot::READ | Prot::WRITE)?;
            engine.map(map.nvm.into(), &nvm, Prot::READ | Prot::WRITE)?;
            engine.map(map.mailbox.into(), &mailbox, Prot::READ | Prot::WRITE)?;
            for (at, b) in I::PERIPHERALS.iter().zip(&peripherals) {
                engine.map(*at, b, Prot::READ | Prot::WRITE)?;
            }
            engine.map_bench(map.bench.into())?;
            let pristine = engine.uc.context_init().map_err(engine::error)?;
            Ok(Core { engine, pristine })
        };
        let end = image
            .symbol("_bss_end")
            .and_then(|e| e.checked_sub(map.ram));
        Ok(Emulated {
            quick: core(false)?,
            slow: core(true)?,
            detailed: false,
            statics: end.unwrap_or(0) as usize,
            disassembler: I::disassembler().context("capstone")?,
            image,
            garbage: Garbage::default(),
            code,
            ram,
            nvm,
            mailbox,
            peripherals,
            isa: std::marker::PhantomData,
        })
    }
}

impl<I: Isa> Machine for Emulated<I> {
    fn map(&self) -> &'static abi::Machine {
        I::MAP
    }

    fn image(&self) -> &Image {
        &self.image
    }

    fn boot(&mut self, boot: &Boot<'_>, log: &mut Log) -> Ran {
        let start = self.reset(boot);
        let core = if boot.detail {
            &mut self.slow
        } else {
            &mut self.quick
        };
        let ended = core.engine.run(start, boot.limit, log);
        self.ran(boot, ended)
    }

    fn interrupted(&mut self, boot: &Boot<'_>, at: u64, log: &mut Log) -> Ran {
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        let start = self.reset(boot);
        let e = &mut self.slow.engine;
        let first = e.run(start, at.min(boot.limit), log);
        let ended = match first {
            (End::Limit, ended, pc) if ended < boot.limit => {
                I::interrupt(e, &self.image, At { ended, pc }, boot.limit, log)
            }
            _ => first,
        };
        self.ran(boot, ended)
    }

    fn preempted(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Ran {
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        let start = self.reset(boot);
        let ended = self.slow.engine.run_with(start, boot.limit, instants, log);
        self.ran(boot, ended)
    }

    fn traced(&mut self, boot: &Boot<'_>, instants: &[u64]) -> Vec<Traced> {
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        let start = self.reset(boot);
        let mut log = Log::default();
        let (_, trace) = self
            .slow
            .engine
            .traced(start, boot.limit, instants, &mut log);
        trace
    }

    fn passed(&mut self, boot: &Boot<'_>, at: &[u32], log: &mut Log) -> (Ran, Vec<Traced>) {
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        let start = self.reset(boot);
        let (ended, passed) = self.slow.engine.passed(start, boot.limit, at, log);
        (self.ran(boot, ended), passed)
    }

    fn interruptible(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Vec<u64> {
        let boot = &Boot {
            detail: true,
            ..*boot
        };
        let start = self.reset(boot);
        self.slow.engine.opened(start, boot.limit, instants, log)
    }

    fn state(&self, into: &mut State) {
        into.0[..NVM].copy_from_slice(self.nvm.bytes());
        into.0[NVM..BENCH].copy_from_slice(&self.mailbox.bytes()[..MAILBOX]);
        let core = if self.detailed {
            &self.slow
        } else {
            &self.quick
        };
        into.0[BENCH..].copy_from_slice(&core.engine.uc.get_data().bench.kept());
    }

    fn disassemble(&self, from: u32, to: u32) -> Vec<(u32, String)> {
        let base = I::MAP.code;
        let (Some(a), Some(b)) = (from.checked_sub(base), to.checked_sub(base)) else {
            return Vec::new();
        };
        let Some(bytes) = self.code.bytes().get(a as usize..b as usize) else {
            return Vec::new();
        };
        let Ok(all) = self.disassembler.disasm_all(bytes, from.into()) else {
            return Vec::new();
        };
        let text = |i: &capstone::Insn<'_>| {
            let (m, o) = (i.mnemonic().unwrap_or("?"), i.op_str().unwrap_or(""));
            (i.address() as u32, format!("{m} {o}").trim_end().to_owned())
        };
        all.iter().map(text).collect()
    }
}

impl<I: Isa> Emulated<I> {
    /// The power is on; nothing has run. Where it starts.
    fn reset(&mut self, boot: &Boot<'_>) -> u64 {
        self.detailed = boot.detail;
        let core = if boot.detail {
            &mut self.slow
        } else {
            &mut self.quick
        };
        core.engine
            .uc
            .get_data_mut()
            .bench
            .power_on(boot.state.bench());
        self.garbage.fill(boot.seed, self.ram.bytes_mut());
        self.nvm.bytes_mut().copy_from_slice(boot.state.nvm());
        let mailbox = boot.state.mailbox();
        self.mailbox.bytes_mut()[..mailbox.len()].copy_from_slice(mailbox);
        for p in &mut self.peripherals {
            p.bytes_mut().fill(0);
        }
        let e = &mut core.engine;
        // It fails only when engines are mixed up.
        let _ = e.uc.context_restore(&core.pristine);
        I::reset(&mut e.uc, &self.image, boot.seed)
    }

    fn ran(&self, boot: &Boot<'_>, (end, instructions, pc): Ended) -> Ran {
        Ran {
            end,
            instructions,
            pc,
            cycles: None,
            stack: (boot.detail)
                .then(|| {
                    self.garbage
                        .depth(boot.seed, self.ram.bytes(), self.statics)
                })
                .flatten(),
        }
    }
}

/// What an error of Unicorn says about the program, when no hook has said more.
fn stopped(pc: u32) -> End {
    End::Fault(Fault {
        kind: FaultKind::Stopped,
        pc,
        address: pc,
    })
}
