//! What a linked program holds.

use super::stack::worst;
use anyhow::Result;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind};
use std::collections::BTreeMap;

/// Code, constants and static RAM of one program, in bytes. Initial data is in flash too, and
/// counts among the constants. Of the code, what is neither the compiler's nor the probe's medium.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Size {
    pub code: u64,
    pub own: u64,
    pub constants: u64,
    pub ram: u64,
    /// The worst stack, where it can be told.
    pub stack: Option<u64>,
}

impl Size {
    /// What is more than in the other.
    pub fn less(self, other: Size) -> Size {
        Size {
            code: self.code.saturating_sub(other.code),
            own: self.own.saturating_sub(other.own),
            constants: self.constants.saturating_sub(other.constants),
            ram: self.ram.saturating_sub(other.ram),
            stack: self.stack,
        }
    }
}

/// What the sections of a linked program take.
pub fn size(elf: &[u8]) -> Result<Size> {
    let file = object::File::parse(elf)?;
    let mut s = Size {
        stack: worst(elf)?,
        ..Size::default()
    };
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        if sh_flags.0 & object::elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        if sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0 {
            s.code += section.size();
        } else if section.kind() != SectionKind::UninitializedData {
            s.constants += section.size();
        }
        if sh_flags.0 & object::elf::SHF_WRITE.0 != 0 {
            s.ram += section.size();
        }
    }
    let others = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && is_others(s.name()));
    // Of several names for one function one counts.
    let others: BTreeMap<_, _> = others.map(|s| (s.address(), s.size())).collect();
    s.own = s.code.saturating_sub(others.values().sum());
    Ok(s)
}

/// Whether a function is what the compiler brings, or the medium and the addresses of the probe.
fn is_others(symbol: object::read::Result<&str>) -> bool {
    let Ok(symbol) = symbol else { return false };
    let name = format!("{:#}", rustc_demangle::demangle(symbol));
    let path = name.trim_start_matches('<');
    let of = ["size_probes::", "compiler_builtins::", "__"];
    of.iter().any(|p| path.starts_with(p))
        || ["memcpy", "memmove", "memset", "memcmp", "bcmp"].contains(&path)
}

/// A function that panics or formats, if the program holds one.
pub fn heavy(elf: &[u8]) -> Result<Option<String>> {
    let file = object::File::parse(elf)?;
    let names = file.symbols().filter_map(|s| s.name().ok());
    // Mangled: each part of a path is led by its length.
    let mut heavy = names.filter(|n| n.contains("4core9panicking") || n.contains("4core3fmt"));
    Ok(heavy.next().map(str::to_owned))
}
