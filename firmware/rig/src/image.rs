//! An image: what is loaded, and the names of what is in it.

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile32, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use std::path::{Path, PathBuf};

/// A program for a machine.
#[derive(Clone)]
pub struct Image {
    /// The name of its group of scenarios.
    pub group: String,
    /// Where execution begins, as the file says.
    pub entry: u32,
    /// Load address and bytes.
    pub segments: Vec<(u32, Vec<u8>)>,
    /// Of all that is loaded.
    pub hash: u32,
    /// Address, size and name of the functions and of other symbols, by address.
    symbols: Vec<(u32, u32, String)>,
    path: Option<PathBuf>,
}

impl Image {
    /// Reads a 32-bit little-endian ELF file.
    ///
    /// **Errors**: it is none, or has nothing to load.
    pub fn read(group: &str, path: &Path) -> Result<Self> {
        let data = std::fs::read(path).with_context(|| path.display().to_string())?;
        let elf =
            ElfFile32::<Endianness>::parse(&*data).with_context(|| path.display().to_string())?;
        let end = elf.endian();
        let mut segments = Vec::new();
        for p in elf.elf_program_headers() {
            let bytes = p.data(end, &*data).unwrap_or_default();
            if p.p_type(end) == object::elf::PT_LOAD && !bytes.is_empty() {
                segments.push((p.p_paddr(end), bytes.to_vec()));
            }
        }
        if segments.is_empty() {
            bail!("{} has nothing to load", path.display());
        }
        let thumb = elf.elf_header().e_machine(end) == object::elf::EM_ARM;
        let mut symbols: Vec<_> = elf
            .symbols()
            .filter(|s| {
                s.is_definition() && !matches!(s.kind(), SymbolKind::Section | SymbolKind::File)
            })
            .filter_map(|s| {
                let name = s
                    .name()
                    .ok()
                    .filter(|n| !n.is_empty() && !n.starts_with(['$', '.']))?;
                let name = format!("{:#}", rustc_demangle::demangle(name));
                // The lowest bit of a Thumb function's address is no part of it.
                let odd = u64::from(thumb && s.kind() == SymbolKind::Text);
                Some(((s.address() & !odd) as u32, s.size() as u32, name))
            })
            .collect();
        symbols.sort();
        let mut image = Image::raw(elf.entry() as u32, segments);
        image.group = group.to_owned();
        image.symbols = symbols;
        image.path = Some(path.to_owned());
        Ok(image)
    }

    /// An image without names.
    pub fn raw(entry: u32, segments: Vec<(u32, Vec<u8>)>) -> Self {
        Image {
            group: "raw".into(),
            entry,
            hash: hash(&segments),
            segments,
            symbols: Vec::new(),
            path: None,
        }
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u32> {
        self.symbols.iter().find(|s| s.2 == name).map(|s| s.0)
    }

    /// `function+0x12` for an address; the address when nothing covers it.
    pub fn name(&self, at: u32) -> String {
        let below = self.symbols.partition_point(|s| s.0 <= at);
        // The last one that covers it; else, in start-up code that has no sizes, the last one
        // before.
        let covers = |s: &&(u32, u32, String)| at - s.0 < s.1;
        let near = |s: &&(u32, u32, String)| s.1 == 0 && at - s.0 < 0x400;
        let before = &self.symbols[..below];
        let found = before.iter().rev().take(64).find(covers);
        match found.or_else(|| before.iter().rev().take(64).find(near)) {
            Some((start, _, name)) if *start == at => name.clone(),
            Some((start, _, name)) => format!("{name}+{:#x}", at - start),
            None => format!("{at:#x}"),
        }
    }

    /// Where the function that holds an address begins.
    pub fn function(&self, at: u32) -> Option<u32> {
        let below = self.symbols.partition_point(|s| s.0 <= at);
        self.symbols[..below].last().map(|s| s.0)
    }

    /// File and line of an address, from the debugging information, innermost inlined function
    /// last.
    pub fn lines(&self, at: u32) -> Vec<String> {
        let Some(loader) = self
            .path
            .as_ref()
            .and_then(|p| addr2line::Loader::new(p).ok())
        else {
            return Vec::new();
        };
        let mut out = Vec::new();
        if let Ok(mut frames) = loader.find_frames(u64::from(at)) {
            while let Ok(Some(f)) = frames.next() {
                let Some(l) = f.location else { continue };
                let file = l.file.map(short).unwrap_or_default();
                out.push(format!("{file}:{}", l.line.unwrap_or(0)));
            }
        }
        out
    }
}

/// The names of the functions that hold addresses, inlined ones too: the innermost first.
pub struct Names(Option<addr2line::Loader>);

impl Names {
    /// Those of an image, from its debugging information.
    pub fn of(image: &Image) -> Self {
        let path = image.path.as_ref();
        Names(path.and_then(|p| addr2line::Loader::new(p).ok()))
    }

    /// The functions that hold an address, each with its file.
    pub fn at(&self, address: u32) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let frames = self.0.as_ref().map(|l| l.find_frames(u64::from(address)));
        if let Some(Ok(mut frames)) = frames {
            while let Ok(Some(f)) = frames.next() {
                let name = f.function.as_ref().and_then(|n| n.demangle().ok());
                let file = f.location.and_then(|l| l.file).unwrap_or_default();
                out.push((name.map_or("?".into(), |n| plain(&n)), file.into()));
            }
        }
        out
    }
}

/// A function's name without the types in angle brackets.
fn plain(name: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0_u32);
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// The last three parts of a path.
fn short(path: &str) -> String {
    let parts: Vec<_> = path.split('/').collect();
    parts[parts.len().saturating_sub(3)..].join("/")
}

/// FNV-1a.
fn hash(segments: &[(u32, Vec<u8>)]) -> u32 {
    let bytes = segments
        .iter()
        .flat_map(|(at, bytes)| at.to_le_bytes().into_iter().chain(bytes.iter().copied()));
    bytes.fold(0x811C_9DC5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}
