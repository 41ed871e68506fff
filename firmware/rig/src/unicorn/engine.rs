//! One engine with its hooks.

use super::{Buffer, Isa};
use crate::machine::{End, Fault, FaultKind, LATE, Registers, Traced};
use crate::state::{Access, Log, MAILBOX, NVM, When, register};
use anyhow::{Result, anyhow};
use relume_models::Bench;
use relume_suite::abi::{self, cell};
use unicorn_engine::{HookType, MemType, Prot, Unicorn, uc_error};

/// What memory is mapped in.
pub const PAGE: usize = 4096;
/// No program jumps here.
pub const NOWHERE: u64 = 0xFFFF_FFF0;

/// What the hooks see and keep.
pub struct Watch {
    log: Log,
    /// The devices.
    pub bench: Bench,
    end: Option<End>,
    limit: u64,
    /// Instructions of all blocks that have begun.
    count: u64,
    /// Instructions before the block that runs, or with detail before the instruction that runs.
    before: u64,
    /// With detail, the instruction that runs; else the block.
    pc: u32,
    /// Bytes and instructions of the block that begins at each half-word of the code.
    blocks: Vec<(u32, u32)>,
    map: &'static abi::Machine,
    length: fn(u16) -> usize,
    settle: fn(&Unicorn<'_, Watch>),
    unmasked: fn(&Unicorn<'_, Watch>) -> bool,
    trapped: fn(u32) -> Option<Exception>,
    exception: fn(&mut Unicorn<'_, Watch>, Exception) -> Option<u64>,
    /// What the core must do before it goes on.
    pending: Option<Exception>,
    fetched: fn(&mut Unicorn<'_, Watch>, u32),
    /// Where an interrupt would be taken, if that is asked for.
    open: Option<Vec<u64>>,
    detail: bool,
    /// After how many instructions the timer's interrupt becomes pending, the last one first.
    instants: Vec<u64>,
    /// Interrupts that are pending: one bit for each of the core's numbers.
    pub signals: u32,
    /// Exceptions whose handlers have begun and not ended, the last one last.
    pub active: Vec<u32>,
    /// The timer of a RISC-V core.
    pub clint: super::riscv::Clint,
    elapse: fn(&mut Unicorn<'_, Watch>),
    wake: fn(&mut Unicorn<'_, Watch>) -> Option<u64>,
    due: fn(&Unicorn<'_, Watch>) -> Option<u32>,
    /// The core's registers before each instruction, if they are asked for.
    trace: Option<Vec<Traced>>,
    /// The same before the instructions at some addresses only: for each half-word of the code
    /// whether it is one.
    passed: Option<(Vec<bool>, Vec<Traced>)>,
    traced: fn(&Unicorn<'_, Watch>) -> Registers,
}

impl Watch {
    /// For an engine that is not watched yet.
    pub fn new<I: Isa>() -> Self {
        let map = I::MAP;
        Watch {
            log: Log::default(),
            bench: Bench::new(),
            end: None,
            limit: 0,
            count: 0,
            before: 0,
            pc: 0,
            blocks: vec![(0, 0); map.code_len as usize / 2],
            map,
            length: I::length,
            settle: I::settle,
            unmasked: I::unmasked,
            trapped: I::trapped,
            exception: I::exception,
            pending: None,
            fetched: I::fetched,
            open: None,
            detail: false,
            instants: Vec::new(),
            signals: 0,
            active: Vec::new(),
            clint: super::riscv::Clint::default(),
            elapse: I::elapse,
            wake: I::wake,
            due: I::due,
            trace: None,
            passed: None,
            traced: I::traced,
        }
    }

    /// When the instruction that runs has begun.
    fn when(&self) -> When {
        if !self.detail {
            return When::default();
        }
        When {
            instruction: self.before as u32,
            pc: self.pc,
            cycle: 0,
        }
    }

    /// The timer's interrupt is a button's, if a program wants that.
    pub fn press(&mut self) {
        let when = self.when();
        self.log.access(&mut self.bench, when, Bench::interrupt)
    }

    /// Whether it stops at every instruction.
    pub fn detail(&self) -> bool {
        self.detail
    }

    /// Whether this run is compared with another emulator's.
    pub fn compared(&self) -> bool {
        self.trace.is_some()
    }

    /// Instructions before the one that runs, with detail.
    pub fn ended(&self) -> u64 {
        self.before
    }

    /// Whether an instant is left, which comes next.
    pub fn next_instant(&mut self) -> bool {
        self.instants.pop().is_some()
    }

    /// The instruction or block before which it stopped.
    pub fn stopped_before(&self) -> u32 {
        self.pc
    }

    /// Whether the instruction that runs is at one of the addresses that are asked for.
    fn passes(&self) -> bool {
        let half = (self.pc.wrapping_sub(self.map.code) / 2) as usize;
        let asked = self.passed.as_ref().and_then(|(at, _)| at.get(half));
        asked.copied().unwrap_or(false)
    }

    fn fault(&mut self, kind: FaultKind, address: u32) {
        let pc = self.pc;
        self.end
            .get_or_insert(End::Fault(Fault { kind, pc, address }));
    }
}

/// What Unicorn leaves to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exception {
    /// A supervisor call.
    Call,
    /// A handler ends: what it jumped to.
    Return(u32),
    /// What is pending is taken: its number.
    Pending(u32),
}

/// An engine that is watched.
pub struct Engine {
    pub uc: Unicorn<'static, Watch>,
}

/// Unicorn's errors have no `Error`.
pub fn error(e: uc_error) -> anyhow::Error {
    anyhow!("unicorn: {e:?}")
}

impl Engine {
    /// Sets the hooks.
    pub fn new<I: Isa>(mut uc: Unicorn<'static, Watch>, detail: bool) -> Result<Self> {
        uc.get_data_mut().detail = detail;
        let map = uc.get_data().map;
        uc.add_block_hook(1, 0, |uc, at, size| {
            let n = instructions(uc, at as u32, size);
            let w = uc.get_data_mut();
            if w.end.is_some() {
                return;
            }
            w.before = w.count;
            w.count += u64::from(n);
            w.pc = at as u32;
            if !w.detail && w.before > w.limit {
                w.end = Some(End::Limit);
                let _ = uc.emu_stop();
            } else if !w.detail && w.signals != 0 {
                take_pending(uc);
            }
        })
        .map_err(error)?;
        if detail {
            uc.add_code_hook(1, 0, |uc, at, _| {
                // Unicorn does not show what a condition skips; a core fetches it, and it counts.
                let n = instructions_between(uc, uc.get_data().pc, at as u32);
                let mut w = uc.get_data_mut();
                if w.end.is_some() {
                    // Refused before, between a condition and what it rules.
                    let _ = uc.emu_stop();
                    return;
                }
                w.before += u64::from(n);
                w.pc = at as u32;
                let before_limit = w.before < w.limit;
                for late in [0, LATE] {
                    let come = |i: &u64| i & LATE == late && i & !LATE <= w.before;
                    let came = w.instants.iter().rev().take_while(|i| come(i)).count();
                    w.instants.truncate(w.instants.len() - came);
                    let elapse = w.elapse;
                    (0..came).for_each(|_| elapse(uc));
                    w = uc.get_data_mut();
                    (0..came).for_each(|_| w.press());
                    let takes = late == 0 || came > 0;
                    if takes && before_limit && w.signals != 0 && take_pending(uc) {
                        return;
                    }
                    w = uc.get_data_mut();
                }
                let passes = uc.get_data().passes();
                if passes || uc.get_data().trace.is_some() {
                    let registers = (uc.get_data().traced)(uc);
                    let w = uc.get_data_mut();
                    let now = Traced {
                        ended: w.before,
                        pc: w.pc,
                        registers,
                    };
                    w.trace.iter_mut().for_each(|t| t.push(now));
                    if passes {
                        w.passed.iter_mut().for_each(|(_, t)| t.push(now));
                    }
                }
                let w = uc.get_data_mut();
                if w.before >= w.limit {
                    w.end = Some(End::Limit);
                    let _ = uc.emu_stop();
                } else if w.open.is_some() && (uc.get_data().unmasked)(uc) {
                    let w = uc.get_data_mut();
                    let at = w.before;
                    w.open.iter_mut().for_each(|o| o.push(at));
                }
                (uc.get_data().fetched)(uc, at as u32);
            })
            .map_err(error)?;
        }
        let mut watch = |start: u32, base: usize, len: usize| {
            let (first, last) = (u64::from(start), u64::from(start) + PAGE as u64 - 1);
            uc.add_mem_hook(
                HookType::MEM_WRITE,
                first,
                last,
                move |uc, _, at, size, value| {
                    store(uc, at, (at - first) as usize, base, len, size, value);
                    (uc.get_data().settle)(uc);
                    true
                },
            )
            .map_err(error)
        };
        watch(map.nvm, 0, NVM)?;
        watch(map.mailbox, NVM, MAILBOX)?;
        for at in I::CONTROLS {
            uc.add_mem_hook(
                HookType::MEM_WRITE,
                *at,
                at + PAGE as u64 - 1,
                |uc, _, at, _, value| {
                    I::stored(uc, at, value as u32);
                    true
                },
            )
            .map_err(error)?;
        }
        if let (Some(at), true) = (I::CLOCK, detail) {
            uc.add_mem_hook(
                HookType::MEM_READ,
                at,
                at + PAGE as u64 - 1,
                |uc, _, at, _, _| {
                    I::loaded(uc, at);
                    true
                },
            )
            .map_err(error)?;
        }
        uc.add_mem_hook(HookType(0x3F0), 1, 0, |uc, kind, at, _, _| {
            let w = uc.get_data_mut();
            let jump = (w.trapped)(at as u32 | 1);
            if let (MemType::FETCH_UNMAPPED, Some(x @ Exception::Return(_))) = (kind, jump) {
                w.pending = Some(x);
                return false;
            }
            let kind = match kind {
                MemType::READ_UNMAPPED | MemType::READ_PROT => FaultKind::Load,
                MemType::WRITE_PROT => FaultKind::StoreToCode,
                MemType::WRITE_UNMAPPED => FaultKind::Store,
                _ => FaultKind::Fetch,
            };
            uc.get_data_mut().fault(kind, at as u32);
            false
        })
        .map_err(error)?;
        uc.add_intr_hook(|uc, number| {
            if let Some(x) = (uc.get_data().trapped)(number) {
                uc.get_data_mut().pending = Some(x);
                let _ = uc.emu_stop();
                return;
            }
            let kind = match number {
                // EXCP_UDEF of ARM, the illegal instruction of RISC-V.
                1 | 2 => FaultKind::Undefined,
                _ => FaultKind::Exception,
            };
            uc.get_data_mut().fault(kind, number);
            let _ = uc.emu_stop();
        })
        .map_err(error)?;
        uc.add_insn_invalid_hook(|uc| {
            let pc = uc.get_data().pc;
            uc.get_data_mut().fault(FaultKind::Undefined, pc);
            false
        })
        .map_err(error)?;
        Ok(Engine { uc })
    }

    /// Maps a buffer, which must outlive the engine.
    pub fn map(&mut self, at: u64, buffer: &Buffer, may: Prot) -> Result<()> {
        // SAFETY: the machine drops its engines before its buffers, which do not move.
        let done = unsafe {
            self.uc
                .mem_map_ptr(at, buffer.len() as u64, may, buffer.pointer().cast())
        };
        done.map_err(error)
    }

    /// Maps the bench's registers.
    ///
    /// **Errors**: those of Unicorn.
    pub fn map_bench(&mut self, at: u64) -> Result<()> {
        let read = move |uc: &mut Unicorn<'_, Watch>, offset: u64, size: usize| {
            device(uc, at, offset, size, Access::Load)
        };
        let write = move |uc: &mut Unicorn<'_, Watch>, offset: u64, size: usize, value: u64| {
            device(uc, at, offset, size, Access::Store(value as u16));
        };
        self.uc
            .mmio_map(at, PAGE as u64, Some(read), Some(write))
            .map_err(error)
    }

    /// Runs from `start` until something ends it.
    pub fn run(&mut self, start: u64, limit: u64, log: &mut Log) -> (End, u64, u32) {
        self.run_with(start, limit, &[], log)
    }

    /// As [`Engine::run`], and the timer's interrupt becomes pending when so many instructions have
    /// ended: in ascending order. Only with detail.
    pub fn run_with(
        &mut self,
        start: u64,
        limit: u64,
        instants: &[u64],
        log: &mut Log,
    ) -> (End, u64, u32) {
        log.stores.clear();
        let w = self.uc.get_data_mut();
        w.instants = instants.iter().rev().copied().collect();
        w.active.clear();
        w.signals = 0;
        w.clint = Default::default();
        self.resume(start, NOWHERE, (0, limit), log)
    }

    /// As [`Engine::run_with`], with the registers before each instruction.
    pub fn traced(
        &mut self,
        start: u64,
        limit: u64,
        instants: &[u64],
        log: &mut Log,
    ) -> ((End, u64, u32), Vec<Traced>) {
        self.uc.get_data_mut().trace = Some(Vec::new());
        let ran = self.run_with(start, limit, instants, log);
        (ran, self.uc.get_data_mut().trace.take().unwrap_or_default())
    }

    /// As [`Engine::run`], with the registers before each instruction at one of these addresses.
    pub fn passed(
        &mut self,
        start: u64,
        limit: u64,
        at: &[u32],
        log: &mut Log,
    ) -> ((End, u64, u32), Vec<Traced>) {
        let w = self.uc.get_data_mut();
        let mut asked = vec![false; w.blocks.len()];
        for at in at {
            let half = (at.wrapping_sub(w.map.code) / 2) as usize;
            asked.get_mut(half).into_iter().for_each(|a| *a = true);
        }
        w.passed = Some((asked, Vec::new()));
        let ran = self.run(start, limit, log);
        let passed = self.uc.get_data_mut().passed.take();
        (ran, passed.map(|(_, passed)| passed).unwrap_or_default())
    }

    /// As [`Engine::run_with`], and where an interrupt would be taken.
    pub fn opened(&mut self, start: u64, limit: u64, instants: &[u64], log: &mut Log) -> Vec<u64> {
        self.uc.get_data_mut().open = Some(Vec::new());
        self.run_with(start, limit, instants, log);
        self.uc.get_data_mut().open.take().unwrap_or_default()
    }

    /// Goes on at `start` when `ended` instructions have, and with what was stored, until something
    /// ends it or `until` is reached, which counts as [`FaultKind::Stopped`].
    pub fn resume(
        &mut self,
        start: u64,
        until: u64,
        (ended, limit): (u64, u64),
        log: &mut Log,
    ) -> (End, u64, u32) {
        let w = self.uc.get_data_mut();
        std::mem::swap(&mut w.log, log);
        (w.end, w.limit, w.count, w.before) = (None, limit, ended, ended);
        w.pc = start as u32 & !1;
        w.pending = None;
        let mut result = self.uc.emu_start(start, until, 0, 0);
        while self.uc.get_data().end.is_none() {
            let next = match self.uc.get_data_mut().pending.take() {
                Some(x) => self.exception(x),
                None => match (self.uc.get_data().wake)(&mut self.uc) {
                    None => break,
                    Some(next) => {
                        // The block was counted whole.
                        let pc = self.uc.get_data().pc;
                        let n = instructions_between(&self.uc, pc, next as u32);
                        let w = self.uc.get_data_mut();
                        w.count = w.before + u64::from(n);
                        Some(next)
                    }
                },
            };
            let Some(next) = next else {
                self.uc.get_data_mut().fault(FaultKind::Exception, 0);
                break;
            };
            result = self.uc.emu_start(next, until, 0, 0);
        }
        let w = self.uc.get_data_mut();
        std::mem::swap(&mut w.log, log);
        let end = w.end.take().unwrap_or_else(|| match result {
            Err(uc_error::INSN_INVALID) => End::Fault(Fault {
                kind: FaultKind::Undefined,
                pc: w.pc,
                address: w.pc,
            }),
            _ => super::stopped(w.pc),
        });
        let ended = match (w.detail, &end) {
            (true, End::Limit) => w.before,
            (true, _) => w.before + 1,
            (false, _) => w.count,
        };
        (end, ended, w.pc)
    }

    fn exception(&mut self, x: Exception) -> Option<u64> {
        let w = self.uc.get_data();
        let (exception, detail, at) = (w.exception, w.detail, w.pc);
        if let (Exception::Pending(_), true) = (x, detail) {
            // An if-then block is gone through to its end.
            let back = self.uc.pc_read().map_or(at, |pc| pc as u32 & !1);
            let n = instructions_between(&self.uc, at, back);
            self.uc.get_data_mut().count += u64::from(n);
        }
        let next = exception(&mut self.uc, x)?;
        // The next instruction may lie in the same block again.
        self.uc.get_data_mut().pc = next as u32 & !1;
        Some(next)
    }
}

/// Stops before the instruction that runs next, or without detail before its block, if the core
/// takes a pending exception there.
fn take_pending(uc: &mut Unicorn<'_, Watch>) -> bool {
    let Some(number) = (uc.get_data().due)(uc) else {
        return false;
    };
    let w = uc.get_data_mut();
    w.pending = Some(Exception::Pending(number));
    // The block was counted whole.
    w.count = w.before;
    let _ = uc.emu_stop();
    true
}

/// A store to a page that survives, before it is made.
fn store(
    uc: &mut Unicorn<'_, Watch>,
    at: u64,
    offset: usize,
    base: usize,
    len: usize,
    size: usize,
    value: i64,
) {
    let w = uc.get_data_mut();
    if w.end.is_some() {
        return;
    }
    if offset + size > len {
        w.fault(FaultKind::Store, at as u32);
        let _ = uc.emu_stop();
        return;
    }
    let when = w.when();
    let bytes = value.to_le_bytes();
    let unit = w.map.unit as usize;
    w.log
        .store(unit, base + offset, &bytes[..size.min(8)], when);
    let status = NVM + 2 * usize::from(cell::STATUS);
    if base + offset == status && value as u16 != abi::RUNNING {
        w.end = Some(End::Status(value as u16));
        let _ = uc.emu_stop();
    }
}

/// An access to the bench. What is loaded.
fn device(uc: &mut Unicorn<'_, Watch>, page: u64, offset: u64, size: usize, access: Access) -> u64 {
    let w = uc.get_data_mut();
    if w.end.is_some() {
        return 0;
    }
    let Some(n) = register(offset, size) else {
        let kind = match access {
            Access::Load => FaultKind::Load,
            Access::Store(_) => FaultKind::Store,
        };
        w.fault(kind, (page + offset) as u32);
        let _ = uc.emu_stop();
        return 0;
    };
    let when = w.when();
    let value = w.log.access(&mut w.bench, when, |bench| match access {
        Access::Load => bench.read(n),
        Access::Store(value) => {
            bench.write(n, value);
            0
        }
    });
    (uc.get_data().settle)(uc);
    value.into()
}

/// The instructions of a block, counted once.
fn instructions(uc: &mut Unicorn<'_, Watch>, at: u32, size: u32) -> u32 {
    let w = uc.get_data();
    let slot = (at.wrapping_sub(w.map.code) / 2) as usize;
    match w.blocks.get(slot) {
        Some((s, n)) if *s == size => return *n,
        None => return size / 2,
        Some(_) => {}
    }
    let n = instructions_between(uc, at, at + size);
    uc.get_data_mut().blocks[slot] = (size, n);
    n
}

fn instructions_between(uc: &Unicorn<'_, Watch>, mut at: u32, to: u32) -> u32 {
    let length = uc.get_data().length;
    let mut n = 0;
    while at < to {
        let mut half = [0; 2];
        let read = uc.mem_read(at.into(), &mut half).is_ok();
        at += if read {
            length(u16::from_le_bytes(half)) as u32
        } else {
            2
        };
        n += 1;
    }
    n
}
