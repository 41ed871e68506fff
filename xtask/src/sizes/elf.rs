//! What a linked program holds.

use super::stack::worst;
use anyhow::Result;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind};

/// Code, constants and static RAM of one program, in bytes. Initial data is in flash too, and counts among the constants.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Size {
    pub code: u64,
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
    Ok(s)
}

/// A function that panics or formats, if the program holds one.
pub fn heavy(elf: &[u8]) -> Result<Option<String>> {
    let file = object::File::parse(elf)?;
    let names = file.symbols().filter_map(|s| s.name().ok());
    // Mangled: each part of a path is led by its length.
    let mut heavy = names.filter(|n| n.contains("4core9panicking") || n.contains("4core3fmt"));
    Ok(heavy.next().map(str::to_owned))
}
