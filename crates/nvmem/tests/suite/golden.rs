//! Every byte of the formats. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/SPEC.md.

// insta starts a process, which Miri does not.
#![cfg(not(miri))]

use core::fmt::Write;
use core::mem::MaybeUninit;
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};
use nvmem::{InOrder32, Persist, Record, Region, Superblock, WearLevelled, superblock};

/// Like `hexdump -C`, with repeated lines left out.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut last: Option<&[u8]> = None;
    let mut left_out = false;
    for (i, line) in bytes.chunks(16).enumerate() {
        if last == Some(line) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            out += "*\n";
        }
        last = Some(line);
        write!(out, "{:04x} ", i * 16).unwrap();
        for word in line.chunks(4) {
            out.push(' ');
            word.iter().for_each(|b| write!(out, "{b:02x}").unwrap());
        }
        let text = line.iter().map(|b| {
            if b.is_ascii_graphic() {
                *b as char
            } else {
                '.'
            }
        });
        writeln!(out, "  {}", text.collect::<String>()).unwrap();
    }
    out + if left_out { "*\n" } else { "" } + &format!("{:04x}", bytes.len())
}

const SB: Superblock = Superblock {
    kind: *b"POOL",
    version: 0x0102,
    fingerprint: 0x1122_3344_5566_7788,
    params: [1, 2, 3, 4, 5, 6, 7, 0x0A0B_0C0D],
};

fn region(f: impl FnOnce(&mut Region<'_, InOrder32>)) -> Vec<u8> {
    let mut words = [MaybeUninit::new(0u64); 17];
    f(&mut Region::new(&mut words));
    // SAFETY: all initialised above, and the superblock stores whole units.
    words
        .iter()
        .flat_map(|w| unsafe { w.assume_init() }.to_ne_bytes())
        .collect()
}

#[test]
fn superblock_formatting() {
    let image = region(|r| superblock::begin(r, &SB));
    insta::assert_snapshot!(dump(&image), @r#"
    0000  524c4d31 00000100 504f4f4c 00000000  RLM1....POOL....
    0010  00000000 00000000 00000000 00000000  ................
    *
    0030  00000000 00000000 00000000 95d807e4  ................
    0040  00000000 00000000 00000000 00000000  ................
    *
    0080  00000000 00000000  ........
    0088
    "#);
}

#[test]
fn superblock_ready() {
    let image = region(|r| superblock::finish(r, &SB));
    insta::assert_snapshot!(dump(&image), @r#"
    0000  524c4d31 00000100 504f4f4c 00000000  RLM1....POOL....
    0010  00000000 00000000 00000000 00000000  ................
    *
    0030  00000000 00000000 00000000 95d807e4  ................
    0040  524c4d31 01000200 504f4f4c 02010000  RLM1....POOL....
    0050  88776655 44332211 01000000 02000000  .wfUD3".........
    0060  03000000 04000000 05000000 06000000  ................
    0070  07000000 0d0c0b0a 00000000 66efd75b  ............f..[
    0080  00000000 00000000  ........
    0088
    "#);
}

#[test]
fn superblock_replaced() {
    let image = region(|r| {
        superblock::finish(r, &SB);
        superblock::replace(
            r,
            &Superblock {
                version: 0x0103,
                ..SB
            },
        );
    });
    insta::assert_snapshot!(dump(&image), @r#"
    0000  524c4d31 02000200 504f4f4c 03010000  RLM1....POOL....
    0010  88776655 44332211 01000000 02000000  .wfUD3".........
    0020  03000000 04000000 05000000 06000000  ................
    0030  07000000 0d0c0b0a 00000000 c337d940  .............7.@
    0040  524c4d31 01000200 504f4f4c 02010000  RLM1....POOL....
    0050  88776655 44332211 01000000 02000000  .wfUD3".........
    0060  03000000 04000000 05000000 06000000  ................
    0070  07000000 0d0c0b0a 00000000 66efd75b  ............f..[
    0080  00000000 00000000  ........
    0088
    "#);
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Settings {
    rate: u32,
    on: bool,
    gain: u16,
}

const FIRST: Settings = Settings {
    rate: 0x0102_0304,
    on: true,
    gain: 0x0506,
};

fn record<D: Medium<Error: PartialEq>>(d: &mut D, updates: u32) {
    let all = 0..d.capacity();
    let mut r = Record::open(d, all, FIRST).unwrap();
    for n in 0..updates {
        r.set(Settings {
            rate: 0xAAAA_0000 + n,
            ..FIRST
        })
        .unwrap();
    }
}

#[test]
fn record_marker() {
    // Format and stop before the first value: the format marker is at the end.
    struct Stop<'d>(&'d mut RamFram<96>, u32);
    impl Medium for Stop<'_> {
        type Error = ();
        const CONTRACT: nvmem::device::Contract = RamFram::<96>::CONTRACT;
        fn capacity(&self) -> u32 {
            96
        }
        fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
            self.0.read(at, buf).map_err(|_| ())
        }
        fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), ()> {
            self.1 = self.1.checked_sub(1).ok_or(())?;
            self.0.write(at, bytes).map_err(|_| ())
        }
        fn erase(&mut self, _: u32, _: u32) -> Result<(), ()> {
            Ok(())
        }
    }
    let mut d = RamFram::<96>::filled(0xFF);
    assert!(Record::open(Stop(&mut d, 1), 0..96, FIRST).is_err());
    insta::assert_snapshot!(dump(d.bytes()), @r#"
    0000  ffffffff ffffffff ffffffff ffffffff  ................
    *
    0040  ffffffff ffffffff ffffffff 524c4632  ............RLF2
    0050  00000000 00000000 00000000 e89012f2  ................
    0060
    "#);
}

#[test]
fn record_without_erase() {
    let mut d = RamFram::<96>::filled(0xFF);
    record(&mut d, 1);
    insta::assert_snapshot!(dump(d.bytes()), @r#"
    0000  524c5232 01000800 1b0aead1 b50765dc  RLR2..........e.
    0010  04030201 01000605 7f8c4408 ffffffff  ..........D.....
    0020  ffffffff ffffffff ffffffff ffffffff  ................
    0030  524c5232 02000800 1b0aead1 b50765dc  RLR2..........e.
    0040  0000aaaa 01000605 d6e8f7e0 004c4632  .............LF2
    0050  00000000 00000000 00000000 e89012f2  ................
    0060
    "#);
}

#[test]
fn record_on_flash() {
    let mut d = RamNor::<3, 128, 8>::new();
    record(&mut d, 3);
    insta::assert_snapshot!(dump(d.bytes()), @r#"
    0000  00000000 00000000 524c5232 02000800  ........RLR2....
    0010  1b0aead1 b50765dc 04030201 01000605  ......e.........
    0020  00000000 2926e738 8db0db62 8db0db62  ....)&.8...b...b
    0030  724f249d 724f249d 00000000 00000000  rO$.rO$.........
    0040  524c5232 03000800 1b0aead1 b50765dc  RLR2..........e.
    0050  0000aaaa 01000605 00000000 644858ff  ............dHX.
    0060  c1de6425 c1de6425 3e219bda 3e219bda  ..d%..d%>!..>!..
    0070  ffffffff ffffffff ffffffff ffffffff  ................
    0080  00000000 00000000 524c5232 05000800  ........RLR2....
    0090  1b0aead1 b50765dc 0100aaaa 01000605  ......e.........
    00a0  00000000 5b56c0d4 ffc0fc0e ffc0fc0e  ....[V..........
    00b0  003f03f1 003f03f1 00000000 00000000  .?...?..........
    00c0  524c5232 06000800 1b0aead1 b50765dc  RLR2..........e.
    00d0  0200aaaa 01000605 00000000 832d40fb  .............-@.
    00e0  27bb7c21 27bb7c21 d84483de d84483de  '.|!'.|!.D...D..
    00f0  ffffffff ffffffff ffffffff ffffffff  ................
    *
    0180
    "#);
}

#[test]
fn record_on_flash_erased_to_zeros() {
    let mut d = RamNor::<6, 64, 32, 0x00>::new();
    record(&mut d, 1);
    insta::assert_snapshot!(dump(d.bytes()), @r#"
    0000  ffffffff ffffffff ffffffff ffffffff  ................
    *
    0020  524c5232 02000800 1b0aead1 b50765dc  RLR2..........e.
    0030  04030201 01000605 00000000 2926e738  ............)&.8
    0040  8db0db62 8db0db62 8db0db62 8db0db62  ...b...b...b...b
    *
    0060  724f249d 724f249d 724f249d 724f249d  rO$.rO$.rO$.rO$.
    *
    0080  ffffffff ffffffff ffffffff ffffffff  ................
    *
    00a0  524c5232 04000800 1b0aead1 b50765dc  RLR2..........e.
    00b0  0000aaaa 01000605 00000000 137f40ce  ..............@.
    00c0  b7e97c14 b7e97c14 b7e97c14 b7e97c14  ..|...|...|...|.
    *
    00e0  481683eb 481683eb 481683eb 481683eb  H...H...H...H...
    *
    0100  00000000 00000000 00000000 00000000  ................
    *
    0180
    "#);
}

/// A format, one page, and another boot that carries the page over.
#[test]
fn wear_levelling() {
    let mut flash = RamNor::<7, 128, 4>::new();
    let mut table = [0; 21];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(9, b"page").unwrap();
    WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    let blocks = [0, 1, 6].map(|b| dump(&flash.bytes()[b * 128..][..64]));
    insta::assert_snapshot!(blocks.join("\n"), @r#"
    0000  524c5733 02000000 01000000 06000000  RLW3............
    0010  06000100 08000500 07000000 c977096e  .............w.n
    0020  6de13534 921ecacb a5c20100 00706167  m.54.........pag
    0030  65000000 dbefaa75 ffffffff ffffffff  e......u........
    0040
    0000  ffffffff ffffffff ffffffff ffffffff  ................
    *
    0040
    0000  524c5733 01000000 00000000 ffff0000  RLW3............
    0010  06000000 08000500 07000000 203701fe  .............7..
    0020  85a13d24 7a5ec2db 59c20100 00706167  ..=$z^..Y....pag
    0030  65000000 dbefaa75 ffffffff ffffffff  e......u........
    0040
    "#);
}

/// A format and one page. Another boot appends: slot 1 is killed, and the page is copied to slot 2.
#[test]
fn wear_levelling_with_overwrites() {
    let mut flash = RamNor::<7, 256, 4, 0xFF, false>::new();
    let mut table = [0; 80];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(9, b"page").unwrap();
    WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    let block = dump(&flash.bytes()[6 * 256..][..112]);
    insta::assert_snapshot!(block, @r#"
    0000  524c5733 01000000 00000000 ffff0000  RLW3............
    0010  06000000 08000d00 07000000 4db55212  ............M.R.
    0020  e9236e48 16dc91b7 59c20100 00706167  .#nH....Y....pag
    0030  65000000 dbefaa75 00000000 ffffffff  e......u........
    0040  ffffffff ffffffff 59c20100 00706167  ........Y....pag
    0050  65000000 dbefaa75 ffffffff ffffffff  e......u........
    0060  ffffffff ffffffff ffffffff ffffffff  ................
    0070
    "#);
}
