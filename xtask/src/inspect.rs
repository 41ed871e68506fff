//! `cargo xtask inspect FILE`.

use anyhow::{Context, Result};
use nvmem::{Superblock, inspect};
use std::path::PathBuf;

/// Prints what an image of a medium holds: superblock, layout, journals, blocks, records, damage. The file is only read.
#[derive(clap::Args)]
pub struct Args {
    /// A dump of a medium
    file: PathBuf,
    /// Byte of the dump at which the region begins
    #[arg(long, default_value_t = 0)]
    at: usize,
    /// The medium's program word in bytes, where it has one
    #[arg(long, default_value_t = 1, value_name = "BYTES")]
    write_size: usize,
}

pub fn run(a: Args) -> Result<()> {
    let bytes = std::fs::read(&a.file).with_context(|| a.file.display().to_string())?;
    let region = bytes
        .get(a.at..)
        .with_context(|| format!("the file has only {} bytes", bytes.len()))?;
    print!("{}", report(region, a.write_size)?);
    Ok(())
}

/// What the bytes show; any bytes whatever.
fn report(bytes: &[u8], write_size: usize) -> Result<String> {
    let mut out = String::new();
    inspect::blank(bytes, &mut out)?;
    if inspect::is_superblock(bytes) {
        inspect::superblock(bytes, &mut out)?;
        if let Some(sb) = counting(bytes).filter(pmem_tx::inspect::is_pool) {
            pmem_tx::inspect::pool(&sb, bytes, &mut out)?;
        }
    } else {
        inspect::records(bytes, write_size, &mut out)?;
    }
    Ok(out)
}

/// The superblock that counts: the later of the intact copies, if it is not that of an unfinished format.
fn counting(bytes: &[u8]) -> Option<Superblock> {
    let (copies, _) = bytes.as_chunks::<{ Superblock::COPY_BYTES }>();
    let mut intact = copies.iter().take(2).filter_map(Superblock::decode);
    let first = intact.next()?;
    let newest = match intact.next() {
        Some(second) if (second.sequence.wrapping_sub(first.sequence) as i16) > 0 => second,
        _ => first,
    };
    (!newest.formatting).then_some(newest.superblock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmem::ram::RamFram;
    use nvmem::record::Record;

    #[test]
    fn a_record_is_shown() {
        let r = Record::<u32, _>::open(RamFram::<128>::filled(0), 0..128, 7).unwrap();
        let said = report(r.into_medium().bytes(), 1).unwrap();
        assert!(
            said.starts_with("128 bytes") && said.contains("record"),
            "{said}"
        );
        assert!(!said.contains("NOT intact"), "{said}");
    }

    #[test]
    fn a_pool_is_shown() {
        let mut words = [const { std::mem::MaybeUninit::<u64>::new(0) }; 64];
        let region = nvmem::Region::<nvmem::InOrder32>::new(&mut words);
        let pool = pmem_tx::Pool::<u32>::open(region, |_| Ok(5)).ok().unwrap();
        let region = pool.close();
        // SAFETY: inside of the region, aligned, and nothing is lent.
        let bytes: Vec<u8> = (0..128)
            .flat_map(|i| unsafe { region.load(i * 4) }.to_le_bytes())
            .collect();
        let said = report(&bytes, 1).unwrap();
        assert!(
            said.contains("POOL") && said.contains("context 0"),
            "{said}"
        );
        assert!(!said.contains("DAMAGED"), "{said}");
    }

    #[test]
    fn any_bytes_are_survived() {
        for n in [0, 1, 63, 64, 200] {
            for b in [0, 0x55, 0xFF] {
                report(&vec![b; n], 8).unwrap();
            }
            let mixed: Vec<u8> = (0..n).map(|i| (i * 37 % 251) as u8).collect();
            report(&mixed, 1).unwrap();
        }
    }
}
