//! A program: the bytes and the symbols of an ELF file.

use crate::cpu::Cpu;
use crate::disassemble::disassemble;
use object::elf::PT_LOAD;
use object::read::elf::{ElfFile32, FileHeader as _, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::fmt;

/// A program for the 64 KiB.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Address and content of what is loaded, at the address where it is stored (that of `.data` is
    /// in the code).
    pub segments: Vec<(u16, Vec<u8>)>,
    /// Address, size and name, in the order of the addresses.
    pub symbols: Vec<(u16, u16, String)>,
    /// Every name that has an address, those without a size too.
    labels: HashMap<String, u16>,
}

/// Why an ELF file is no program for this machine.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// Not an ELF file of 32 bits, or damaged.
    Elf(object::Error),
    /// Of another machine.
    Machine(u16),
    /// Something lies above the 64 KiB.
    TooHigh(u32),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Elf(e) => write!(f, "not an ELF file: {e}"),
            ImageError::Machine(m) => write!(f, "machine {m}, not MSP430"),
            ImageError::TooHigh(a) => write!(f, "0x{a:x} is above 64 KiB"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<object::Error> for ImageError {
    fn from(e: object::Error) -> Self {
        ImageError::Elf(e)
    }
}

impl Image {
    /// The program in an ELF file.
    ///
    /// **Errors**: the file is not one, or not for the MSP430.
    pub fn parse(elf: &[u8]) -> Result<Self, ImageError> {
        let file = ElfFile32::<Endianness>::parse(elf)?;
        let endian = file.endian();
        let machine = file.elf_header().e_machine(endian);
        if machine != object::elf::EM_MSP430 {
            return Err(ImageError::Machine(machine.0));
        }
        let mut segments = Vec::new();
        for h in file.elf_program_headers() {
            let data = h
                .data(endian, elf)
                .map_err(|()| ImageError::TooHigh(h.p_offset(endian)))?;
            if h.p_type(endian) != PT_LOAD || data.is_empty() {
                continue;
            }
            let at = h.p_paddr(endian);
            let end = u64::from(at) + data.len() as u64;
            match u16::try_from(at) {
                Ok(a) if end <= 0x10000 => segments.push((a, data.to_vec())),
                _ => return Err(ImageError::TooHigh(at)),
            }
        }
        let mut symbols: Vec<_> = file
            .symbols()
            .filter(|s| matches!(s.kind(), SymbolKind::Text | SymbolKind::Data) && s.size() > 0)
            .filter_map(|s| {
                let name = format!("{:#}", rustc_demangle::demangle(s.name().ok()?));
                Some((s.address() as u16, s.size() as u16, name))
            })
            .collect();
        symbols.sort();
        symbols.dedup_by_key(|s| s.0);
        let labels = file
            .symbols()
            .filter(|s| s.is_definition() || s.kind() == SymbolKind::Unknown)
            .filter_map(|s| Some((s.name().ok()?.to_owned(), s.address() as u16)))
            .collect();
        Ok(Image {
            segments,
            symbols,
            labels,
        })
    }

    /// Writes the program to the memory; everything else stays.
    pub fn load(&self, cpu: &mut Cpu) {
        for (at, data) in &self.segments {
            let at = usize::from(*at);
            cpu.mem[at..at + data.len()].copy_from_slice(data);
        }
    }

    /// The address of a name, as it stands in the file or demangled.
    pub fn address(&self, name: &str) -> Option<u16> {
        let known = self.symbols.iter().find(|s| s.2 == name);
        self.labels.get(name).copied().or(known.map(|s| s.0))
    }

    /// `name` or `name+0x1a` of an address within a symbol.
    pub fn symbol(&self, address: u16) -> Option<String> {
        let after = self.symbols.partition_point(|s| s.0 <= address);
        let (start, size, name) = self.symbols.get(after.checked_sub(1)?)?;
        match address - start {
            0 => Some(name.clone()),
            n if n < *size => Some(format!("{name}+0x{n:x}")),
            _ => None,
        }
    }

    /// One line: address, symbol, instruction.
    pub fn line(&self, cpu: &Cpu, pc: u16) -> String {
        let d = disassemble(
            pc,
            |a| cpu.word(a),
            |a| self.symbol(a).filter(|n| !n.contains("+0x")),
        );
        let at = self.symbol(pc).unwrap_or_default();
        format!("{pc:04x}  {:32}  {at}", d.text)
    }
}
