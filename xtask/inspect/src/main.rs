//! `cargo xtask inspect FILE`. A package of its own, so that no other command compiles the crates.

use anyhow::{Context, Result, bail};
use clap::Parser;
use nvmem::superblock::Stored;
use nvmem::{InOrder16, InOrder32, Model, Region, Superblock, inspect};
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints what a memory dump holds
///
/// That is: the superblock, the layout, journals, blocks, lists, records, a kernel's objects and
/// threads, objects of a heap, blocks of levelled flash, checkpoints, a mirror's log and its
/// region, and damage. The file is
/// only read. It is an error when it is no image of these crates.
#[derive(Parser)]
#[command(name = "cargo xtask inspect", bin_name = "cargo xtask inspect")]
struct Args {
    /// A dump of a medium
    file: PathBuf,
    /// Byte of the dump at which the region begins
    #[arg(long, default_value_t = 0)]
    at: usize,
    /// The medium's program word in bytes, where it has one
    #[arg(long, default_value_t = 1, value_name = "BYTES")]
    write_size: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(a: &Args) -> Result<()> {
    let bytes = std::fs::read(&a.file).with_context(|| a.file.display().to_string())?;
    let region = bytes
        .get(a.at..)
        .with_context(|| format!("the file has only {} bytes", bytes.len()))?;
    let mut out = String::new();
    let told = report(region, a.write_size, &mut out);
    print!("{out}");
    told
}

/// Describes the bytes. Any bytes are accepted. **Errors**: they are no image that has a reader.
fn report(bytes: &[u8], write_size: usize, out: &mut String) -> Result<()> {
    inspect::blank(bytes, out)?;
    if vnv_heap::inspect::is_heap(bytes) {
        vnv_heap::inspect::heap(bytes, out)?;
    } else if inspect::is_superblock(bytes) {
        inspect::superblock(bytes, out)?;
        superblock(bytes, out)?;
    } else if inspect::is_level(bytes) {
        inspect::level(bytes, out)?;
    } else if nv_mirror::inspect::is_log(bytes) {
        let mut image = vec![0; nv_mirror::inspect::image_bytes(bytes)];
        if nv_mirror::inspect::log(bytes, &mut image, out)? {
            writeln!(out, "its region:")?;
            if inspect::is_superblock(&image) {
                return report(&image, 1, out);
            }
            inspect::blank(&image, out)?;
        }
    } else if checkpoint::inspect::has_images(bytes) {
        checkpoint::inspect::images(bytes, write_size as u32, out)?;
    } else if checkpoint::inspect::has_log(bytes, write_size as u32) {
        checkpoint::inspect::log(bytes, write_size as u32, out)?;
    } else if inspect::has_records(bytes, write_size) {
        inspect::records(bytes, write_size, out)?;
    } else if bytes.is_empty() {
        bail!("no image: there are no bytes");
    } else if bytes
        .iter()
        .all(|b| *b == bytes[0] && matches!(b, 0 | 0xFF))
    {
        bail!("no image: all bytes are blank");
    } else if let Some(version) = nv_mirror::inspect::other_version(bytes) {
        bail!("no image that this program can read: the log of a mirror, of version {version}");
    } else {
        bail!(
            "no image: there is no superblock, levelled block, mirror, checkpoint, log or record in it"
        );
    }
    Ok(())
}

/// What lies behind a superblock. **Errors**: it says what has no reader.
fn superblock(bytes: &[u8], out: &mut String) -> Result<()> {
    let Some(newest) = newest(bytes) else {
        bail!("the superblock is damaged, so what the image holds is not known");
    };
    let sb = newest.superblock;
    let lists = nvlist::inspect::is_lists(&sb);
    match &sb.kind {
        // The superblock says it all.
        b"HEAP" | b"RPLY" | b"POOL" | b"LIST" | b"RTOS" | b"DEVC" if newest.formatting => {}
        b"RPLY" => {
            table(bytes, out)?;
            // The pool that the steps change lies behind the tables.
            let part = nv_replay::pool_region(&sb).filter(|(at, _)| *at < bytes.len());
            if let Some((at, sb)) = part {
                writeln!(out, "offsets from {at:#06x} on:")?;
                pmem_tx::inspect::pool(&sb, &bytes[at..], out)?;
            }
        }
        _ if nv_rtos::inspect::is_kernel(&sb) => {
            nv_rtos::inspect::kernel(&sb, bytes, out)?;
            let threads = nv_rtos::inspect::threads_at(&sb).filter(|at| *at < bytes.len());
            if let Some(at) = threads {
                writeln!(out, "its threads, offsets from {at:#06x} on:")?;
                inspect::superblock(&bytes[at..], out)?;
                superblock(&bytes[at..], out)?;
            }
        }
        _ if nv_device::inspect::is_contexts(&sb) => {
            nv_device::inspect::contexts(&sb, bytes, out)?;
        }
        _ if pmem_tx::inspect::is_pool(&sb) => pmem_tx::inspect::pool(&sb, bytes, out)?,
        _ if lists => nvlist::inspect::lists(&sb, bytes, out)?,
        kind => bail!(
            "no image that this program can read: \"{}\" of version {}",
            kind.escape_ascii(),
            sb.version
        ),
    }
    Ok(())
}

/// A replay table, on a copy of the image. Of what unit the medium is, the table's own check says.
fn table(bytes: &[u8], out: &mut String) -> Result<()> {
    let mut refused = String::new();
    for read in [entries::<InOrder32>, entries::<InOrder16>] {
        match read(bytes) {
            Ok(all) => {
                out.push_str(&all);
                return Ok(());
            }
            Err(e) => refused = e,
        }
    }
    writeln!(out, "replay table: {refused}")?;
    Ok(())
}

fn entries<M: Model>(bytes: &[u8]) -> Result<String, String> {
    let mut words: Vec<_> = (bytes.as_chunks::<8>().0.iter())
        .map(|w| MaybeUninit::new(u64::from_ne_bytes(*w)))
        .collect();
    let mut out = String::from("replay table:\n");
    let told = nv_replay::inspect(&Region::<M>::new(&mut words), &mut |e| {
        out += &format!("  {e:?}\n");
    });
    match told {
        Ok(()) => Ok(out),
        Err(e) => Err(e.to_string()),
    }
}

/// The later of the intact copies of the superblock.
fn newest(bytes: &[u8]) -> Option<Stored> {
    let (copies, _) = bytes.as_chunks::<{ Superblock::COPY_BYTES }>();
    let mut intact = copies.iter().take(2).filter_map(Superblock::decode);
    let first = intact.next()?;
    Some(match intact.next() {
        Some(second) if (second.sequence.wrapping_sub(first.sequence) as i16) > 0 => second,
        _ => first,
    })
}

#[cfg(test)]
#[path = "../../../crates/rtos/tests/suite/hostile/system.rs"]
#[allow(dead_code)] // what the tests of `nv-rtos` need
mod system;

#[cfg(test)]
mod tests {
    use super::*;
    use critical_section as _;

    /// What is said of an image.
    fn report(bytes: &[u8], write_size: usize) -> Result<String> {
        let mut out = String::new();
        super::report(bytes, write_size, &mut out).map(|()| out)
    }

    use nvmem::Unit;
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
        let bytes = image(&region);
        let said = report(&bytes, 1).unwrap();
        assert!(
            said.contains("POOL") && said.contains("context 0"),
            "{said}"
        );
        assert!(!said.contains("DAMAGED"), "{said}");
    }

    fn lists<M: Model>(change: impl FnOnce(&mut [u8])) -> String {
        let mut words = [const { MaybeUninit::<u64>::new(0) }; 64];
        let pool = nvlist::NodePool::<u32, 2, M>::open(Region::new(&mut words));
        let mut pool = pool.ok().unwrap();
        pool.with(|mut lists, [a, b]| {
            for k in 0..3 {
                lists.push_back(a, k).unwrap();
            }
            lists.cursor_front(a).shift_back(b);
        });
        let region = pool.close();
        let unit = M::Unit::BYTES;
        // SAFETY: inside of the region, aligned, and nothing is lent.
        let word = |i| unsafe { region.load(i * unit) }.to_le_bytes();
        let bytes = (0..region.len() / unit).flat_map(|i| word(i).into_iter().take(unit));
        let mut bytes: Vec<u8> = bytes.collect();
        change(&mut bytes);
        report(&bytes, 1).unwrap()
    }

    #[test]
    fn lists_are_shown() {
        for said in [lists::<InOrder32>(|_| ()), lists::<InOrder16>(|_| ())] {
            for part in ["LIST", "2 lists", "record of the last operation: Move"] {
                assert!(said.contains(part), "{part} in {said}");
            }
            let nodes = |list: &str| {
                let line = said.lines().find_map(|l| l.trim().strip_prefix(list));
                line.unwrap().split_whitespace().count()
            };
            assert_eq!((nodes("list 0:"), nodes("list 1:")), (2, 1), "{said}");
            assert!(!said.contains("DAMAGED"), "{said}");
        }
        // A head that leads to where no node is.
        let head = Superblock::BYTES + 12;
        let said = lists::<InOrder16>(|b| b[head + 2..head + 4].copy_from_slice(&[1, 0]));
        assert!(said.contains("DAMAGED"), "{said}");
    }

    fn image(region: &Region<'_, InOrder32>) -> Vec<u8> {
        // SAFETY: inside of the region, aligned, and nothing is lent.
        let word = |i| unsafe { region.load(i * 4) }.to_le_bytes();
        (0..region.len() / 4).flat_map(word).collect()
    }

    #[test]
    fn a_replay_table_and_its_pool_are_shown() {
        let mut words = [const { MaybeUninit::<u64>::new(0) }; 256];
        let region = Region::<InOrder32>::new(&mut words);
        let options = nv_replay::Options::default();
        let rt = nv_replay::Replay::<u32>::open(region, options, |_| Ok(5));
        let mut rt = rt.ok().unwrap();
        rt.step((), |_, _, ()| Ok(())).ok().unwrap();
        let said = report(&image(&rt.close()), 1).unwrap();
        for part in ["RPLY", "replay table:", "Record", "context 0", "1 objects"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("DAMAGED"), "{said}");
    }

    #[test]
    fn the_tables_of_several_threads_are_shown() {
        use nv_replay::pmem_tx::{Contexts, Sharing};
        let mut words = [const { MaybeUninit::<u64>::new(0) }; 256];
        let region = Region::<InOrder32>::new(&mut words);
        let table = nv_replay::Config::SMALL;
        type Two = Sharing<(u32,), Contexts<(u32, u32)>>;
        let threads = nv_replay::Threads::<Two>::open(region, table, None, |_| Ok(((1,), (2, 3))));
        let mut threads = threads.ok().unwrap();
        let ((_, two), (mut shared,)) = threads.share().unwrap();
        let mut rt = two.open(nv_replay::Options::default()).unwrap();
        let step = rt.step(&mut shared, |tx, _, mut n| {
            *n.get_mut(tx)? += 1;
            Ok(())
        });
        step.ok().unwrap();
        let said = report(&image(&threads.close()), 1).unwrap();
        for part in ["RPLY", "thread: 1", "Record", "context 1", "3 objects"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("DAMAGED"), "{said}");
    }

    #[test]
    fn a_kernel_and_its_threads_are_shown() {
        for run in [system::in_order_32::run, system::in_order_16::run] {
            let said = report(&system::image(run, 3), 1).unwrap();
            for part in [
                "RTOS",
                "the clock shows 3",
                "word 0: 0x03, then 0x04 by thread 0, number 6",
                "its threads",
                "thread: 1",
                "context 1",
            ] {
                assert!(said.contains(part), "{part} in {said}");
            }
            assert!(!said.contains("DAMAGED"), "{said}");
        }
    }

    #[test]
    fn contexts_of_devices_are_shown() {
        use nv_device::{Committed, Own, Ring};
        let mut words = [const { MaybeUninit::<u64>::new(0) }; 32];
        let region = Region::<InOrder32>::new(&mut words);
        let opened = nv_device::open::<(Own<u8>, Ring<4>), _>(region, Committed::NOTHING, (5, ()));
        let (_, events) = opened.unwrap();
        assert_eq!(events.post(9), nv_device::Posted::Stored);
        let said = report(&image(&Region::new(&mut words)), 1).unwrap();
        for part in ["DEVC", "own context, 1 B: 05", "ring of 4", "number 0, 9"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("DAMAGED"), "{said}");
    }

    #[test]
    fn checkpoints_are_shown() {
        let mut fram = nvmem::ram::RamFram::<512>::filled(0);
        let mut images = checkpoint::Images::<_, 2>::open(&mut fram, 0..512, 7).unwrap();
        let (mut statics, mut heap, mut stack) = ([1; 9], [2; 40], [3; 16]);
        let memory = checkpoint::Memory::new(&mut statics, &mut heap, &mut stack);
        for context in [5, 6] {
            let taken = images.checkpoint(&checkpoint::Split, &memory, context);
            taken.unwrap();
        }
        let said = report(fram.bytes(), 1).unwrap();
        for part in [
            "sequence 1, context 0x5",
            "sequence 2, context 0x6",
            "40 bytes",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("damaged"), "{said}");
        fram.bytes_mut()[100] ^= 4;
        let said = report(fram.bytes(), 1).unwrap();
        assert!(said.contains("damaged"), "{said}");
    }

    #[test]
    fn a_log_is_shown() {
        use checkpoint::Store;
        let mut flash = nvmem::ram::RamNor::<20, 256, 8>::new();
        let mut log = checkpoint::Log::<_, 5, 40, 32>::open(&mut flash, 0..20 * 256, 7).unwrap();
        let (mut statics, mut heap, mut stack) = ([1; 9], [0; 40], [3; 16]);
        let memory = checkpoint::Memory::new(&mut statics, &mut heap, &mut stack);
        for context in [5, 6] {
            log.save(&memory, context).unwrap();
        }
        let said = report(flash.bytes(), 8).unwrap();
        for part in [
            "sequence 1, context 0x5",
            "sequence 2, context 0x6",
            "cells of 32 bytes from 0x0800 on",
            "cells 1 to 2: zero",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(
            !said.contains("damaged") && !said.contains("DAMAGED"),
            "{said}"
        );
        flash.bytes_mut()[0x900] ^= 4;
        let said = report(flash.bytes(), 8).unwrap();
        assert!(said.contains("DAMAGED"), "{said}");
    }

    #[test]
    fn a_heap_is_shown() {
        use vnv_heap::collections::Fifo;
        let (mut fram, mut ram) = (nvmem::ram::RamFram::<4096>::filled(0), [0; 512]);
        vnv_heap::brand!(b);
        type Bytes<'h> = Fifo<'h, [u8; 8]>;
        let heap = vnv_heap::Heap::<Bytes<'_>, _>::open(
            b,
            &mut fram,
            &mut ram,
            vnv_heap::Config {
                objects: 40,
                ..vnv_heap::Config::DEFAULT
            },
            |heap| {
                let mut queue = Fifo::alloc(heap, 5)?;
                queue.push(heap, [1; 8])?;
                Ok(queue)
            },
        );
        assert!(heap.is_ok());
        let said = report(fram.bytes(), 1).unwrap();
        let lines = |what: &str| said.lines().filter(|l| l.contains(what)).count();
        assert_eq!(
            (lines(" intact"), lines("no content yet")),
            (2, 4),
            "{said}"
        );
        assert!(
            said.contains("6 objects") && !said.contains("NOT"),
            "{said}"
        );
    }

    /// A pool over a mirror: boots that each count.
    fn mirrored<D: nvmem::Medium>(medium: &mut D, boots: u32) {
        for _ in 0..boots {
            let mut memory = [const { MaybeUninit::<u64>::uninit() }; 128];
            let all = 0..medium.capacity();
            let config = nv_mirror::Config::DEFAULT;
            let open =
                nv_mirror::Mirror::open::<InOrder32>(&mut *medium, all, &config, &mut memory);
            let (mut mirror, region) = open.ok().unwrap();
            let pool = pmem_tx::Pool::<u32, nvmem::Ram>::open(region, |_| Ok(5));
            let mut pool = pool.ok().unwrap();
            mirror.durable(&mut pool).ok().unwrap();
            for _ in 0..3 {
                let counted = pool.tx(|tx, n| {
                    *n.get_mut(tx)? += 1;
                    Ok(())
                });
                counted.unwrap();
                mirror.durable(&mut pool).ok().unwrap();
            }
        }
    }

    #[test]
    fn a_mirror_and_its_region_are_shown() {
        let mut flash = nvmem::ram::RamNor::<4, 4096, 4>::new();
        mirrored(&mut flash, 2);
        let said = report(flash.bytes(), 4).unwrap();
        for part in [
            "mirror: 4 segments of 4096 bytes, region of 512 bytes, words of 4 bytes, flash",
            "segment at 0x3000: number 1, confirmed",
            "number 2, confirmed",
            "durable: segment number 2, base image and 3 records",
            "POOL",
            "context 0",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("DAMAGED"), "{said}");
        // The last record, of the newest segment: the one before it counts.
        let last = (flash.bytes().iter().take(0x3000)).rposition(|b| *b != 0xFF);
        flash.bytes_mut()[last.unwrap() - 5] ^= 4;
        let said = report(flash.bytes(), 4).unwrap();
        assert!(
            said.contains("number 2, base image and 2 records"),
            "{said}"
        );
        assert!(said.contains("was cut, or damage"), "{said}");

        let mut fram = nvmem::ram::RamFram::<16384>::filled(0);
        mirrored(&mut fram, 2);
        let said = report(fram.bytes(), 1).unwrap();
        for part in [
            "words of 1 bytes, no erase",
            "base image and 6 records",
            "POOL",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        // Its only base image.
        fram.bytes_mut()[0x3000 + 40] ^= 4;
        let said = report(fram.bytes(), 1).unwrap();
        assert!(said.contains("DAMAGED: the base image"), "{said}");
        assert!(!said.contains("POOL"), "{said}");
    }

    #[test]
    fn levelled_flash_is_shown() {
        use nvmem::Medium;
        let mut flash = nvmem::ram::RamNor::<8, 1024, 4>::new();
        type Level<'t, 'f> =
            nvmem::level::WearLevelled<'t, &'f mut nvmem::ram::RamNor<8, 1024, 4>, 64>;
        let mut table = [0; Level::table_entries(8 * 1024)];
        let mut bytes = Level::open(&mut flash, &mut table).unwrap();
        bytes.write(100, b"any").unwrap();
        let said = report(flash.bytes(), 4).unwrap();
        assert!(
            said.contains("levelled block") && said.contains("pages of 64 bytes"),
            "{said}"
        );
    }

    #[test]
    fn what_has_no_reader_is_an_error() {
        let superblock = |kind: &[u8; 4]| Superblock {
            kind: *kind,
            version: 7,
            fingerprint: 0,
            params: [0; 8],
        };
        let image = |copy: [u8; 64]| [copy.as_slice(), &[0; 200]].concat();
        let said = |b: &[u8]| report(b, 1).unwrap_err().to_string();
        for kind in [b"ELSE", b"POOL", b"LIST"] {
            let said = said(&image(superblock(kind).encode(1)));
            let kind = std::str::from_utf8(kind).unwrap();
            assert!(said.contains(kind) && said.contains("version 7"), "{said}");
        }
        assert!(report(&image(superblock(b"POOL").encode_marker(1)), 1).is_ok());
        let mut damaged = image(superblock(b"POOL").encode(1));
        damaged[9] ^= 1;
        assert!(said(&damaged).contains("damaged"));
        let mut fram = nvmem::ram::RamFram::<16384>::filled(0);
        mirrored(&mut fram, 2);
        let header = &mut fram.bytes_mut()[0x3000..][..24];
        header[3] = b'2';
        let check = nvmem::crc::crc32(&header[..20]);
        header[20..].copy_from_slice(&check.to_le_bytes());
        let said_of_it = said(fram.bytes());
        assert!(said_of_it.contains("mirror, of version 2"), "{said_of_it}");
        assert!(said(&[]).contains("no bytes"));
        assert!(said(&[0xFF; 300]).contains("blank"));
        assert!(said(&[0x5A; 300]).contains("no superblock"));
    }

    #[test]
    fn any_bytes_are_survived() {
        for n in [0, 1, 63, 64, 200] {
            for b in [0, 0x55, 0xFF] {
                assert!(report(&vec![b; n], 8).is_err());
            }
            let mixed: Vec<u8> = (0..n).map(|i| (i * 37 % 251) as u8).collect();
            assert!(report(&mixed, 1).is_err());
        }
    }
}
