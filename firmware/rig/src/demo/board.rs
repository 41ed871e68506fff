//! The board: a Cortex-M4 with 32 KiB of RAM and a flash behind registers.
//!
//! | register | |
//! |---|---|
//! | 0x4000_0000 | where in the flash |
//! | 0x4000_0004 | where in RAM |
//! | 0x4000_0008 | how many bytes |
//! | 0x4000_000C | a command: 1 reads, 2 programs, 3 erases; the core waits for it |
//! | 0x4000_0010 | 1 when the last command was refused |
//! | 0x4000_0020 | a character for the console |
//! | 0x4000_0024, 28 | a value, and what happened: the events of the example |
//! | 0x4000_002C | how many queens |

use crate::flash::{Change, Flash, mix};
use crate::time::cycles;
use anyhow::{Context, Result, anyhow, bail};
use object::Endianness;
use object::read::elf::{ElfFile32, ProgramHeader};
use std::path::Path;
use unicorn_engine::{
    Arch, ArmCpuModel, Context as Registers, Mode, Prot, RegisterARM as R, Unicorn, uc_error,
};

const CODE: u64 = 0x0800_0000;
const CODE_LEN: usize = 256 * 1024;
const RAM: u64 = 0x2000_0000;
const RAM_LEN: usize = 32 * 1024;
const REGISTERS: u64 = 0x4000_0000;
/// The system control space: plain memory, cleared by a reset.
const SYSTEM: u64 = 0xE000_E000;
const PAGE: u64 = 4096;
/// No program jumps here.
const NOWHERE: u64 = 0xFFFF_FFF0;

/// A program for the board: its memory from [`CODE`] on.
pub struct Program(Vec<u8>);

impl Program {
    /// Reads an ELF file.
    ///
    /// **Errors**: it is none, or is for other memory.
    pub fn read(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let data = std::fs::read(path).with_context(name)?;
        let elf = ElfFile32::<Endianness>::parse(&*data).with_context(name)?;
        let end = elf.endian();
        let mut code = vec![0; CODE_LEN];
        for p in elf.elf_program_headers() {
            let bytes = p.data(end, &*data).unwrap_or_default();
            if p.p_type(end) != object::elf::PT_LOAD || bytes.is_empty() {
                continue;
            }
            let at = u64::from(p.p_paddr(end)).checked_sub(CODE);
            let place = at.and_then(|a| code.get_mut(a as usize..a as usize + bytes.len()));
            match place {
                Some(place) => place.copy_from_slice(bytes),
                None => bail!("{}: not a program of this board", name()),
            }
        }
        Ok(Program(code))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|i| self.0[at + i]))
    }
}

/// What happened in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Started,
    Taken,
    Restored,
}

/// How a boot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The power went.
    Cut,
    /// The program has come to its end, and said this.
    Finished(String),
    /// It has failed, and said why.
    Failed(String),
}

/// What the hooks see.
struct World {
    flash: Flash,
    registers: [u32; 12],
    console: Vec<u8>,
    events: Vec<(Event, u32)>,
    stop: Option<Stop>,
    /// Cycles and instructions since the first boot.
    now: u64,
    instructions: u64,
    /// When the power goes.
    end: u64,
    /// Bytes and instructions of the block that begins at each half-word.
    blocks: Vec<(u32, u32)>,
}

/// The board with a program in it.
pub struct Board<'p> {
    uc: Unicorn<'p, World>,
    pristine: Registers,
    program: &'p Program,
}

fn error(e: uc_error) -> anyhow::Error {
    anyhow!("unicorn: {e:?}")
}

impl<'p> Board<'p> {
    /// A board with a blank flash, asked for this many queens.
    pub fn new(program: &'p Program, queens: u8) -> Result<Self> {
        let mut registers = [0; 12];
        registers[11] = queens.into();
        let world = World {
            flash: Flash::blank(),
            registers,
            console: Vec::new(),
            events: Vec::new(),
            stop: None,
            now: 0,
            instructions: 0,
            end: 0,
            blocks: vec![(0, 0); CODE_LEN / 2],
        };
        let mode = Mode::THUMB | Mode::MCLASS;
        let mut uc = Unicorn::new_with_data(Arch::ARM, mode, world).map_err(error)?;
        uc.ctl_set_cpu_model(ArmCpuModel::CORTEX_M4 as i32)
            .map_err(error)?;
        let data = Prot::READ | Prot::WRITE;
        uc.mem_map(CODE, CODE_LEN as u64, Prot::READ | Prot::EXEC)
            .map_err(error)?;
        uc.mem_map(RAM, RAM_LEN as u64, data).map_err(error)?;
        uc.mem_map(SYSTEM, PAGE, data).map_err(error)?;
        uc.mem_write(CODE, &program.0).map_err(error)?;
        let read = |uc: &mut Unicorn<'_, World>, at: u64, _| {
            let r = uc.get_data().registers.get(at as usize / 4);
            u64::from(r.copied().unwrap_or(0))
        };
        uc.mmio_map(REGISTERS, PAGE, Some(read), Some(written))
            .map_err(error)?;
        uc.add_block_hook(1, 0, |uc, at, size| {
            let n = instructions(uc, at, size);
            let w = uc.get_data_mut();
            if w.stop.is_some() {
                return;
            }
            if w.now >= w.end {
                stop(uc, Stop::Cut);
                return;
            }
            w.now += u64::from(n);
            w.instructions += u64::from(n);
        })
        .map_err(error)?;
        let pristine = uc.context_init().map_err(error)?;
        Ok(Board {
            uc,
            pristine,
            program,
        })
    }

    /// Switches the power on, for so many cycles; after them it goes before the next basic block
    /// begins, or in the middle of what the flash does. RAM and registers hold garbage of this
    /// number at first.
    pub fn boot(&mut self, cycles: u64, seed: u64) -> Result<Stop> {
        let garbage: Vec<u8> = (0..RAM_LEN as u64 / 8)
            .flat_map(|i| mix(seed << 20 ^ i).to_le_bytes())
            .collect();
        let uc = &mut self.uc;
        uc.context_restore(&self.pristine).map_err(error)?;
        uc.mem_write(RAM, &garbage).map_err(error)?;
        uc.mem_write(SYSTEM, &[0; PAGE as usize]).map_err(error)?;
        for (i, r) in GENERAL.into_iter().enumerate() {
            let value = mix(!seed << 8 ^ i as u64) as u32;
            uc.reg_write(r, value.into()).map_err(error)?;
        }
        uc.reg_write(R::SP, self.program.word(0).into())
            .map_err(error)?;
        let w = uc.get_data_mut();
        w.end = w.now.saturating_add(cycles);
        (w.stop, w.console) = (None, Vec::new());
        let start = self.program.word(4) | 1;
        let ran = uc.emu_start(start.into(), NOWHERE, 0, 0);
        let pc = uc.reg_read(R::PC).unwrap_or(0);
        let w = uc.get_data_mut();
        match w.stop.take() {
            Some(stop) => Ok(stop),
            None => Ok(Stop::Failed(format!("broke off at {pc:#x}: {ran:?}"))),
        }
    }

    /// What has happened since the last time, and the last value that came with it.
    pub fn events(&mut self) -> Vec<(Event, u32)> {
        std::mem::take(&mut self.uc.get_data_mut().events)
    }

    /// What the flash has done.
    pub fn work(&self) -> checkpoint::Work {
        self.uc.get_data().flash.work
    }

    /// Cycles and instructions since the first boot.
    pub fn time(&self) -> (u64, u64) {
        let w = self.uc.get_data();
        (w.now, w.instructions)
    }
}

const GENERAL: [R; 14] = [
    R::R0,
    R::R1,
    R::R2,
    R::R3,
    R::R4,
    R::R5,
    R::R6,
    R::R7,
    R::R8,
    R::R9,
    R::R10,
    R::R11,
    R::R12,
    R::LR,
];

fn stop(uc: &mut Unicorn<'_, World>, why: Stop) {
    uc.get_data_mut().stop.get_or_insert(why);
    // It fails only when nothing runs.
    let _ = uc.emu_stop();
}

/// A store to a register.
fn written(uc: &mut Unicorn<'_, World>, at: u64, _: usize, value: u64) {
    let w = uc.get_data_mut();
    if w.stop.is_some() {
        return;
    }
    let value = value as u32;
    match at {
        0..0x0C => w.registers[at as usize / 4] = value,
        0x0C => command(uc, value),
        0x20 => w.console.push(value as u8),
        0x24 => w.registers[9] = value,
        0x28 => event(uc, value),
        _ => {}
    }
}

fn event(uc: &mut Unicorn<'_, World>, number: u32) {
    let w = uc.get_data_mut();
    let said = String::from_utf8_lossy(&w.console).into_owned();
    let event = match number {
        1 => Event::Started,
        2 => Event::Taken,
        3 => Event::Restored,
        4 => return stop(uc, Stop::Finished(said)),
        _ => return stop(uc, Stop::Failed(said)),
    };
    w.events.push((event, w.registers[9]));
}

/// The flash works; the power may go meanwhile.
fn command(uc: &mut Unicorn<'_, World>, code: u32) {
    let [at, buffer, len] = [0, 1, 2].map(|i| uc.get_data().registers[i]);
    let mut bytes = vec![0; (len as usize).min(RAM_LEN)];
    let in_ram = code != 2 || uc.mem_read(buffer.into(), &mut bytes).is_ok();
    let w = uc.get_data_mut();
    // In nanoseconds; a cycle is some 477.
    let left = (w.end.saturating_sub(w.now)).saturating_mul(1_000_000) / crate::time::KHZ;
    let (at, len, seed) = (at as usize, len as usize, mix(w.now));
    let mut to_ram = None;
    let took = match code {
        1 => w.flash.read(at, len).map(|(took, bytes)| {
            to_ram = Some(bytes.to_vec());
            took
        }),
        2 if in_ram => w.flash.change(at, Change::Program(&bytes), left, seed),
        3 => w.flash.change(at, Change::Erase(len), left, seed),
        _ => None,
    };
    w.now += cycles(took.unwrap_or(0));
    let written = to_ram.is_none_or(|b| uc.mem_write(buffer.into(), &b).is_ok());
    let w = uc.get_data_mut();
    w.registers[4] = u32::from(took.is_none() || !written);
    if w.now >= w.end {
        stop(uc, Stop::Cut);
    }
}

/// The instructions of a block, counted once.
fn instructions(uc: &mut Unicorn<'_, World>, at: u64, size: u32) -> u32 {
    let slot = (at.wrapping_sub(CODE) / 2) as usize;
    match uc.get_data().blocks.get(slot) {
        Some((s, n)) if *s == size => return *n,
        None => return size / 2,
        Some(_) => {}
    }
    let mut bytes = vec![0; size as usize];
    let _ = uc.mem_read(at, &mut bytes);
    let (mut i, mut n) = (0, 0);
    while i + 1 < bytes.len() {
        // 32-bit instructions begin with 0b11101, 0b11110 or 0b11111.
        i += if bytes[i + 1] >= 0xE8 { 4 } else { 2 };
        n += 1;
    }
    uc.get_data_mut().blocks[slot] = (size, n);
    n
}
