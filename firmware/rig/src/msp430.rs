//! The MSP430 on our own core emulator: exact in every mode, with cycles.

use crate::image::Image;
use crate::machine::{Boot, End, Fault, FaultKind, Garbage, Machine, Ran};
use crate::state::{BENCH, Log, MAILBOX, NVM, State, When, register};
use anyhow::{Result, bail};
use msp430_emu::{self as emu, Cpu, Observer, PC, SR, Stop, TimerA, Width, disassemble, flag};
use relume_models::Bench;
use relume_suite::abi::{self, MSP430, cell};
use std::ops::{ControlFlow, Range};

/// The peripherals that programs touch: the FRAM controller's wait states, the watchdog's control,
/// which is plain memory here, and the timer. Cleared by a reset.
const PERIPHERALS: [Range<usize>; 3] = [0x140..0x142, 0x15C..0x15E, 0x340..0x370];
/// The timer's vector.
const TIMER: u16 = 0xFFEA;

fn is_peripheral(at: usize) -> bool {
    PERIPHERALS.iter().any(|p| p.contains(&at))
}

const RAM: Range<usize> = MSP430.ram as usize..(MSP430.ram + MSP430.ram_len) as usize;
const NVM_AT: Range<usize> = MSP430.nvm as usize..MSP430.nvm as usize + NVM;
const MAILBOX_AT: Range<usize> = MSP430.mailbox as usize..MSP430.mailbox as usize + MAILBOX;
const BENCH_AT: Range<usize> =
    MSP430.bench as usize..(MSP430.bench + 2 * abi::bench::COUNT as u32) as usize;
const CODE: Range<usize> = MSP430.code as usize..(MSP430.code + MSP430.code_len) as usize;

/// An MSP430FR5994, its lower 64 KiB.
pub struct Msp430 {
    image: Image,
    cpu: Cpu,
    bench: Bench,
    garbage: Garbage,
    /// Bytes at the start of RAM that hold static variables.
    statics: usize,
    /// After how many instructions an interrupt would be taken, if that is asked for.
    open: Option<Vec<u64>>,
}

impl Msp430 {
    /// A machine with this image.
    ///
    /// **Errors**: the image does not fit in its memory.
    pub fn new(image: Image) -> Result<Self> {
        let mut cpu = Cpu::new();
        for (at, bytes) in &image.segments {
            let at = *at as usize;
            if at < CODE.start || at + bytes.len() > CODE.end {
                bail!("a segment at {at:#x} is outside of the code's memory");
            }
            cpu.mem[at..at + bytes.len()].copy_from_slice(bytes);
        }
        cpu.set_executable(CODE.start as u16, (CODE.end - 1) as u16);
        let end = image.symbol("_bss_end");
        let statics = end.and_then(|e| e.checked_sub(MSP430.ram)).unwrap_or(0) as usize;
        Ok(Msp430 {
            image,
            cpu,
            bench: Bench::new(),
            garbage: Garbage::default(),
            statics,
            open: None,
        })
    }
}

/// What a run does to memory.
struct Watch<'a> {
    log: &'a mut Log,
    bench: &'a mut Bench,
    detail: bool,
    status: Option<u16>,
    /// A rule that a load or a store broke, and the address.
    broken: Option<(FaultKind, u16)>,
    /// A store to code.
    undo: Option<emu::Store>,
}

impl<'a> Watch<'a> {
    fn new(log: &'a mut Log, bench: &'a mut Bench, detail: bool) -> Self {
        Watch {
            log,
            bench,
            detail,
            status: None,
            broken: None,
            undo: None,
        }
    }
}

/// The register of the bench that this is an access to.
#[inline]
fn on_bench(address: u16, width: Width) -> Option<u16> {
    let offset = u64::from(address).checked_sub(MSP430.bench.into())?;
    let bytes = match width {
        Width::Byte => 1,
        Width::Word => 2,
    };
    register(offset, bytes)
}

impl Watch<'_> {
    fn when(&self, instruction: u64, pc: u16, cycle: u64) -> When {
        if !self.detail {
            return When::default();
        }
        When {
            instruction: instruction as u32,
            pc: pc.into(),
            cycle,
        }
    }

    /// The timer's interrupt is a button's, if a program wants that.
    fn press(&mut self, cpu: &Cpu) {
        let when = self.when(cpu.instructions, cpu.regs[PC], cpu.cycles);
        self.log.access(self.bench, when, Bench::interrupt)
    }
}

impl Observer for Watch<'_> {
    #[inline]
    fn load(&mut self, address: u16, width: Width) -> ControlFlow<()> {
        let at = usize::from(address);
        let there = RAM.contains(&at) || at >= NVM_AT.start || MAILBOX_AT.contains(&at);
        if there || is_peripheral(at) || on_bench(address, width).is_some() {
            return ControlFlow::Continue(());
        }
        self.broken.get_or_insert((FaultKind::Load, address));
        ControlFlow::Break(())
    }

    #[inline]
    fn supply(&mut self, load: &emu::Load) -> Option<u16> {
        if usize::from(load.address) >= BENCH_AT.end {
            return None;
        }
        let n = on_bench(load.address, load.width)?;
        let when = self.when(load.instruction, load.pc, load.cycle);
        Some(self.log.access(self.bench, when, |bench| bench.read(n)))
    }

    #[inline]
    fn store(&mut self, s: &emu::Store) -> ControlFlow<()> {
        let at = usize::from(s.address);
        if RAM.contains(&at) || is_peripheral(at) {
            return ControlFlow::Continue(());
        }
        if self.broken.is_some() {
            return ControlFlow::Break(());
        }
        let when = self.when(s.instruction, s.pc, s.cycle);
        if let Some(n) = on_bench(s.address, s.width) {
            self.log
                .access(self.bench, when, |bench| bench.write(n, s.new));
            return ControlFlow::Continue(());
        }
        let offset = if NVM_AT.contains(&at) {
            at - NVM_AT.start
        } else if MAILBOX_AT.contains(&at) {
            NVM + at - MAILBOX_AT.start
        } else {
            let code = CODE.contains(&at);
            self.undo = code.then_some(*s);
            let kind = if code {
                FaultKind::StoreToCode
            } else {
                FaultKind::Store
            };
            self.broken = Some((kind, s.address));
            return ControlFlow::Break(());
        };
        let bytes = s.new.to_le_bytes();
        let n = match s.width {
            Width::Byte => 1,
            Width::Word => 2,
        };
        self.log
            .store(MSP430.unit as usize, offset, &bytes[..n], when);
        if offset == NVM + 2 * usize::from(cell::STATUS) && s.new != abi::RUNNING {
            self.status = Some(s.new);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl Machine for Msp430 {
    fn map(&self) -> &'static abi::Machine {
        &MSP430
    }

    fn image(&self) -> &Image {
        &self.image
    }

    fn boot(&mut self, boot: &Boot<'_>, log: &mut Log) -> Ran {
        self.run(boot, &[], Cpu::timer_compares, log)
    }

    fn interrupted(&mut self, boot: &Boot<'_>, at: u64, log: &mut Log) -> Ran {
        let detailed = Boot {
            detail: true,
            ..*boot
        };
        // It comes, whether the program has started the timer or not.
        self.run(&detailed, &[at], |cpu| cpu.raise(TIMER), log)
    }

    fn preempted(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Ran {
        let detailed = Boot {
            detail: true,
            ..*boot
        };
        self.run(&detailed, instants, Cpu::timer_compares, log)
    }

    fn interruptible(&mut self, boot: &Boot<'_>, instants: &[u64], log: &mut Log) -> Vec<u64> {
        let detailed = Boot {
            detail: true,
            ..*boot
        };
        self.open = Some(Vec::new());
        self.run(&detailed, instants, Cpu::timer_compares, log);
        self.open.take().unwrap_or_default()
    }

    fn state(&self, into: &mut State) {
        into.0[..NVM].copy_from_slice(&self.cpu.mem[NVM_AT]);
        into.0[NVM..BENCH].copy_from_slice(&self.cpu.mem[MAILBOX_AT]);
        into.0[BENCH..].copy_from_slice(&self.bench.kept());
    }

    fn disassemble(&self, from: u32, to: u32) -> Vec<(u32, String)> {
        let mut out = Vec::new();
        let mut at = from;
        while at < to && CODE.contains(&(at as usize)) {
            let name = |a: u16| {
                let n = self.image.name(a.into());
                (!n.starts_with("0x") && !n.contains('+')).then_some(n)
            };
            let i = disassemble(at as u16, |a| self.cpu.word(a), name);
            out.push((at, i.text));
            at += u32::from(i.length);
        }
        out
    }
}

impl Msp430 {
    /// The power is on; nothing has run.
    fn reset(&mut self, boot: &Boot<'_>) {
        let cpu = &mut self.cpu;
        self.garbage.fill(boot.seed, &mut cpu.mem[RAM]);
        cpu.mem[NVM_AT].copy_from_slice(boot.state.nvm());
        cpu.mem[MAILBOX_AT].copy_from_slice(boot.state.mailbox());
        self.bench.power_on(boot.state.bench());
        for p in PERIPHERALS {
            cpu.mem[p].fill(0);
        }
        for (n, r) in cpu.regs.iter_mut().enumerate() {
            *r = Garbage::register(boot.seed, n as u32) as u16 & !1;
        }
        cpu.regs[3] = 0;
        (cpu.cycles, cpu.instructions) = (0, 0);
        cpu.reset();
        cpu.set_timer(Some(TimerA::ta0().by_hand()));
    }

    /// A boot, with something that happens when so many instructions have ended. While the CPU is
    /// off, the next one happens.
    fn run(
        &mut self,
        boot: &Boot<'_>,
        instants: &[u64],
        event: impl Fn(&mut Cpu),
        log: &mut Log,
    ) -> Ran {
        log.stores.clear();
        self.reset(boot);
        let cpu = &mut self.cpu;
        let mut watch = Watch::new(log, &mut self.bench, boot.detail);
        let mut instants = instants.iter().peekable();
        let stop = loop {
            let until = instants
                .peek()
                .map_or(boot.limit, |at| boot.limit.min(**at));
            let mut stop;
            loop {
                let mut at_once = until.saturating_sub(cpu.instructions);
                if let Some(open) = &mut self.open {
                    at_once = at_once.min(1);
                    if cpu.regs[SR] & flag::GIE != 0 {
                        open.push(cpu.instructions);
                    }
                }
                stop = cpu.run(at_once, &mut watch);
                if stop != Stop::Limit || cpu.instructions >= until {
                    break;
                }
            }
            let wakes = stop == Stop::Off && cpu.regs[SR] & flag::GIE != 0;
            let next = stop == Stop::Limit && cpu.instructions < boot.limit || wakes;
            if !next || instants.next().is_none() {
                break stop;
            }
            event(cpu);
            watch.press(cpu);
        };
        let Watch {
            status,
            broken,
            undo,
            ..
        } = watch;
        // The next run finds the code as it was.
        if let Some(s) = undo {
            match s.width {
                Width::Byte => cpu.mem[usize::from(s.address)] = s.old as u8,
                Width::Word => cpu.set_word(s.address, s.old),
            }
        }
        let (kind, pc, address) = match (broken, stop) {
            (Some((kind, address)), _) => (Some(kind), cpu.last(), address),
            (None, Stop::Fault(f)) => match f.kind {
                // This machine has no multiplier.
                emu::FaultKind::Undefined(_) | emu::FaultKind::Misused(_) => {
                    (Some(FaultKind::Undefined), f.pc, f.pc)
                }
                emu::FaultKind::NotExecutable => (Some(FaultKind::Fetch), f.pc, f.pc),
            },
            (None, Stop::Off) => (Some(FaultKind::Stopped), cpu.last(), cpu.last()),
            (None, Stop::Observer) => (None, cpu.last(), 0),
            (None, Stop::Limit) => (None, cpu.regs[PC], 0),
        };
        let (pc, address) = (pc.into(), address.into());
        let end = match (kind, status) {
            (Some(kind), _) => End::Fault(Fault { kind, pc, address }),
            (None, Some(s)) => End::Status(s),
            (None, None) => End::Limit,
        };
        let cpu = &self.cpu;
        Ran {
            end,
            instructions: cpu.instructions,
            pc,
            cycles: Some(cpu.cycles),
            stack: boot
                .detail
                .then(|| self.garbage.depth(boot.seed, &cpu.mem[RAM], self.statics))
                .flatten(),
        }
    }
}
