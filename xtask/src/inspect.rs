//! `cargo xtask inspect FILE`.

use anyhow::{Context, Result};
use nvmem::inspect;
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
    } else {
        inspect::records(bytes, write_size, &mut out)?;
    }
    Ok(out)
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
