//! Wear levelling without power cuts: comparison with an array, even wear, costs, sizes, and
//! damaged images.

use nvmem::device::{Contract, Medium, Misuse};
use nvmem::level::{LevelError, WearLevelled};
use nvmem::ram::RamNor;
use powerfail::Rng;
use proptest::prelude::*;
use std::cell::Cell;

/// Pages of 8 bytes, blocks of 5 slots, 7 pages.
type Small = RamNor<7, 128, 4>;
const SMALL: u32 = 7 * 128;

/// Counts calls to the flash; a call fails after a set number.
#[derive(Default)]
struct Calls {
    writes: Cell<u32>,
    erases: Cell<u32>,
    until_failure: Cell<Option<u32>>,
}

impl Calls {
    fn may(&self) -> Result<(), Misuse> {
        match self.until_failure.get() {
            Some(0) => {
                self.until_failure.set(None);
                Err(Misuse::WornOut)
            }
            n => {
                self.until_failure.set(n.map(|n| n - 1));
                Ok(())
            }
        }
    }
}

/// Counts calls, fails on request, and reads only multiples of four bytes.
struct Watched<'c, D>(D, &'c Calls);

impl<D: Medium<Error = Misuse>> Medium for Watched<'_, D> {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        read_size: 4,
        ..D::CONTRACT
    };
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        if !at.is_multiple_of(4) || !buf.len().is_multiple_of(4) {
            return Err(Misuse::Misaligned);
        }
        self.1.may()?;
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.1.writes.set(self.1.writes.get() + 1);
        self.1.may()?;
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.1.erases.set(self.1.erases.get() + 1);
        self.1.may()?;
        self.0.erase(from, to)
    }
}

#[derive(Debug, Clone)]
enum Op {
    Write(u32, Vec<u8>),
    Read(u32, usize),
    Reboot,
}

fn ops(capacity: u32) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..capacity, prop::collection::vec(any::<u8>(), 0..24)).prop_map(|(at, b)| Op::Write(at, b)),
        2 => (0..capacity, 0..24usize).prop_map(|(at, n)| Op::Read(at, n)),
        1 => Just(Op::Reboot),
    ];
    prop::collection::vec(op, 0..200)
}

/// Behaves like an array, over reboots, on flash with any word size and both erased values.
fn as_an_array<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8,
    const PAGE: usize,
>(
    ops: &[Op],
) {
    let calls = Calls::default();
    let mut flash = Watched(RamNor::<UNITS, ERASE, WORD, ERASED>::new(), &calls);
    let mut table = [0; 512];
    let capacity = WearLevelled::<RamNor<UNITS, ERASE, WORD, ERASED>, PAGE>::capacity_of(
        (UNITS * ERASE) as u32,
    );
    let mut model = vec![0; capacity as usize];
    let mut ops = ops.iter();
    loop {
        let mut d = WearLevelled::<_, PAGE>::open(&mut flash, &mut table).unwrap();
        assert_eq!(d.capacity() as usize, model.len());
        let mut whole = vec![0; model.len()];
        d.read(0, &mut whole).unwrap();
        assert_eq!(whole, model, "after a boot");
        assert_eq!(d.damaged_pages(), Ok(0));
        loop {
            match ops.next() {
                None => return,
                Some(Op::Reboot) => break,
                Some(Op::Write(at, b)) => {
                    let at = *at % model.len() as u32;
                    let b = &b[..b.len().min(model.len() - at as usize)];
                    d.write(at, b).unwrap();
                    model[at as usize..][..b.len()].copy_from_slice(b);
                }
                Some(Op::Read(at, n)) => {
                    let at = *at as usize % model.len();
                    let mut buf = vec![0; (*n).min(model.len() - at)];
                    d.read(at as u32, &mut buf).unwrap();
                    assert_eq!(buf, model[at..][..buf.len()]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn is_an_array(ops in ops(4096)) {
        as_an_array::<7, 128, 4, 0xFF, 8>(&ops);
        as_an_array::<7, 256, 4, 0x00, 16>(&ops);
        as_an_array::<8, 256, 1, 0xFF, 12>(&ops);
        as_an_array::<36, 256, 128, 0x00, 120>(&ops);
        as_an_array::<7, 1024, 64, 0xA5, 56>(&ops);
    }
}

#[test]
#[cfg_attr(miri, ignore = "60,000 writes")]
fn wear_is_even_under_any_writes() {
    // Nearly full, half of it never written again. Writes go to one page, or to the other half in
    // random order or in sequence.
    for order in 0..3 {
        let mut flash = Small::new();
        let mut table = [0; 64];
        let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
        let pages = d.capacity() / 8;
        assert_eq!(pages, 7);
        for p in 0..pages {
            d.write(p * 8, &[p as u8; 8]).unwrap();
        }
        let mut rng = Rng::new(1);
        for i in 0..20_000 {
            let x = rng.next_u32();
            let p = match order {
                0 => pages - 1,
                1 => pages / 2 + (x >> 16) % (pages - pages / 2),
                _ => pages / 2 + i % (pages - pages / 2),
            };
            d.write(p * 8, &x.to_le_bytes()).unwrap();
        }
        let mut page = [0; 8];
        for p in 0..pages / 2 {
            d.read(p * 8, &mut page).unwrap();
            assert_eq!(page, [p as u8; 8], "moved and unchanged");
        }
        let erases = d.erases();
        let wear = *flash.wear();
        let least = *wear.iter().min().unwrap();
        let most = *wear.iter().max().unwrap();
        assert!(most - least <= 1, "{wear:?}");
        assert!((most - 1..=most).contains(&erases), "{erases}, {wear:?}");
        let promised = WearLevelled::<&mut Small, 8>::page_writes(SMALL, least);
        assert!(20_007 >= promised, "{promised} promised");
        println!("20007 page writes, {most} erases a unit; {promised} promised");
    }
}

#[test]
#[cfg_attr(miri, ignore = "3,000 boots")]
fn costs_are_bounded() {
    // Two calls per slot: the first word and the rest. A block starts with a header, the commit
    // marker and its confirmation.
    let calls = Calls::default();
    let mut flash = Watched(RamNor::<12, 256, 4>::new(), &calls);
    let mut table = [0; 128];
    type Bytes<'b, 'c> = WearLevelled<'b, &'b mut Watched<'c, RamNor<12, 256, 4>>, 16>;
    let mut rng = Rng::new(7);
    let (mut write, mut open) = (0, 0);
    let spent = || (calls.writes.replace(0), calls.erases.replace(0));
    for boot in 0..3000 {
        spent();
        let mut d = Bytes::open(&mut flash, &mut table).unwrap();
        let pages = d.capacity() / 16;
        let (writes, erases) = spent();
        // Nine slots per block, two calls each.
        assert!(erases <= Bytes::COPIES + 1, "{erases} erases");
        open = open.max(writes);
        for i in 0..boot % 7 {
            let x = rng.next_u32();
            let p = if boot / 500 % 2 == 0 {
                (x >> 16) % pages
            } else {
                (boot + i) % pages
            };
            d.write(p * 16, &x.to_le_bytes()).unwrap();
            let (writes, erases) = spent();
            assert!(writes <= 2 * (Bytes::COPIES + 1) + 3, "{writes} calls");
            assert!(erases <= 1, "{erases} erases");
            write = write.max(writes);
        }
    }
    println!("at most {open} calls for an open, {write} for a write");
    assert!(open <= (Bytes::COPIES + 1) * (2 * 9 + 3), "{open}");
}

#[test]
fn a_boot_that_only_reads_writes_nothing() {
    let calls = Calls::default();
    let mut flash = Watched(Small::new(), &calls);
    let mut table = [0; 64];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(3, &[1, 2, 3]).unwrap();
    WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    calls.writes.set(0);
    calls.erases.set(0);
    for _ in 0..3 {
        let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
        let mut b = [9; 4];
        d.read(2, &mut b).unwrap();
        assert_eq!(b, [0, 1, 2, 3]);
    }
    assert_eq!((calls.writes.get(), calls.erases.get()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "10,000 writes")]
fn after_an_error_the_page_is_old_or_new() {
    let calls = Calls::default();
    let mut flash = Watched(Small::new(), &calls);
    let mut table = [0; 64];
    let mut model = [0u8; 56];
    let mut read = [0; 56];
    let mut failures = 0;
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    for n in 0..10_000u32 {
        let at = (n * 7 % 13) as usize * 4;
        calls.until_failure.set(Some(n * n % 41));
        let done = d.write(at as u32, &n.to_le_bytes());
        // The next call may fail too.
        let shown = d.read(0, &mut read);
        calls.until_failure.set(None);
        if shown.is_err() {
            d.read(0, &mut read).unwrap();
        }
        let old = model;
        model[at..at + 4].copy_from_slice(&n.to_le_bytes());
        if done.is_err() {
            failures += 1;
            assert!(read == old || read == model, "{n}");
            model = read;
        }
        assert_eq!(read, model);
    }
    assert!((1000..9000).contains(&failures), "{failures}");
}

#[test]
fn a_log_of_the_older_format_is_refused_by_name() {
    for (magic, version) in [(b"RLW1", 1), (b"RLW2", 2)] {
        let mut flash = Small::new();
        let mut table = [0; 21];
        WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
        // The first block is the last one; its header has its checksum at the end.
        let header = &mut flash.bytes_mut()[6 * 128..][..32];
        header[..4].copy_from_slice(magic);
        let crc = nvmem::crc::crc32(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        let before = flash.clone();
        let e = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap_err();
        let LevelError::Layout(m) = e else {
            panic!("{e:?}")
        };
        assert_eq!((m.stored.version, m.expected.version), (version, 3));
        assert!(e.to_string().contains("another version of the format"));
        assert_eq!(flash, before);
    }
}

/// The erases of 1,000 boots that each change 16 bytes once.
fn erases_of_1000_boots<const WRITE_ONCE: bool>() -> u32 {
    let mut flash = RamNor::<8, 4096, 4, 0xFF, WRITE_ONCE>::new();
    let mut table = [0; 512];
    for n in 0..1000u32 {
        let mut d = WearLevelled::<_, 64>::open(&mut flash, &mut table).unwrap();
        let mut found = [0; 16];
        d.read(0, &mut found).unwrap();
        let last = n.checked_sub(1).map_or([0; 16], |n| [n as u8; 16]);
        assert_eq!(found, last);
        d.write(0, &[n as u8; 16]).unwrap();
    }
    flash.wear().iter().sum()
}

#[test]
#[cfg_attr(miri, ignore = "2,000 boots")]
fn a_boot_appends_where_words_may_be_overwritten() {
    assert_eq!(erases_of_1000_boots::<false>(), 53);
    assert_eq!(erases_of_1000_boots::<true>(), 1000);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut table = [0; 16];
    let mut tiny = RamNor::<5, 128, 4>::new();
    let e = WearLevelled::<_, 8>::open(&mut tiny, &mut table).unwrap_err();
    let needed = WearLevelled::<&mut Small, 8>::bytes_for(1);
    assert_eq!(e, LevelError::TooSmall { needed });
    assert!(WearLevelled::<&mut Small, 8>::capacity_of(needed) >= 8);
    assert_eq!(WearLevelled::<&mut Small, 8>::capacity_of(needed - 128), 0);
    let mut flash = Small::new();
    let e = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap_err();
    assert_eq!(e, LevelError::TableTooSmall { needed: 7 + 14 });
    let mut table = [0; 21];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    assert_eq!(d.write(50, &[0; 7]), Err(LevelError::OutOfRange));
    assert_eq!(d.read(57, &mut []), Err(LevelError::OutOfRange));
    assert_eq!(d.read(56, &mut []), Ok(()));
    // Another page size.
    let mut table = [0; 64];
    let e = WearLevelled::<_, 4>::open(&mut flash, &mut table).unwrap_err();
    assert!(matches!(e, LevelError::Layout(_)), "{e}");
    // Foreign data.
    flash.bytes_mut()[3] = 7;
    let mut foreign = Small::new();
    foreign.bytes_mut()[300] = 0x12;
    let e = WearLevelled::<_, 8>::open(&mut foreign, &mut table).unwrap_err();
    assert_eq!(e, LevelError::Foreign);
    let mut d = WearLevelled::<_, 8>::format(&mut foreign, &mut table).unwrap();
    d.write(0, &[1; 56]).unwrap();
}

#[test]
fn worn_flash_is_an_error() {
    let mut flash = Small::new().endurance(20);
    let mut table = [0; 64];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    let mut n = 0u64;
    let e = loop {
        match d.write((n % 7 * 8) as u32, &n.to_le_bytes()) {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(e, LevelError::Medium(Misuse::WornOut));
    assert!(
        n >= WearLevelled::<&mut Small, 8>::page_writes(SMALL, 20),
        "{n}"
    );
    assert!(d.write(0, &[0]).is_err());
    // Written data can still be read.
    let before = flash.clone();
    let mut d = WearLevelled::<_, 8>::open_to_read(&mut flash, &mut table).unwrap();
    for k in n - 6..n {
        let mut b = [0; 8];
        d.read((k % 7 * 8) as u32, &mut b).unwrap();
        assert_eq!(b, k.to_le_bytes());
    }
    assert_eq!(d.write(0, &[0]), Err(LevelError::ReadOnly));
    assert_eq!(flash, before);
    let mut blank = Small::new();
    let mut d = WearLevelled::<_, 8>::open_to_read(&mut blank, &mut table).unwrap();
    d.read(0, &mut [1; 8]).unwrap();
    assert_eq!(blank, Small::new());
}

#[test]
fn damage_is_reported_until_it_is_overwritten() {
    let mut flash = Small::new();
    let mut table = [0; 64];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(8, b"marked!!").unwrap();
    d.write(0, &[1]).unwrap();
    let at = flash
        .bytes()
        .windows(8)
        .position(|w| w == b"marked!!")
        .unwrap();
    flash.bytes_mut()[at] ^= 1;
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    assert_eq!(d.damaged_pages(), Ok(1));
    for i in 0..200 {
        d.write(0, &[i]).unwrap();
        d.write(12, &[i]).unwrap();
    }
    assert_eq!(
        d.damaged_pages(),
        Ok(1),
        "copied, changed in part, and still damaged"
    );
    d.write(8, &[0; 8]).unwrap();
    assert_eq!(d.damaged_pages(), Ok(0));
}

/// Opens the image and uses it if it opens.
fn survives(mut flash: RamNor<7, 128, 4>) {
    let mut table = [0; 64];
    let Ok(mut d) = WearLevelled::<_, 8>::open(&mut flash, &mut table) else {
        return;
    };
    for n in 0..60u32 {
        if d.write(n * 5 % 52, &n.to_le_bytes()).is_err() {
            return;
        }
        let mut b = [0; 4];
        d.read(n * 5 % 52, &mut b).unwrap();
        assert_eq!(b, n.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_image_makes_it_panic_or_hang(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        headers in prop::collection::vec((0..7usize, 4..28usize, any::<u8>()), 0..4),
    ) {
        let mut flash = Small::new();
        let mut table = [0; 64];
        for _ in 0..3 {
            let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
            for n in 0..30u32 {
                d.write(n * 8 % 56, &n.to_le_bytes()).unwrap();
            }
        }
        for (at, byte) in edits {
            flash.bytes_mut()[at.index(896)] = byte;
        }
        // Headers with correct checksums, commit markers and confirmations.
        for (block, at, byte) in headers {
            let b = &mut flash.bytes_mut()[block * 128..][..40];
            b[at] = byte;
            let crc = nvmem::crc::crc32(&b[..28]).to_le_bytes();
            b[28..32].copy_from_slice(&crc);
            let [x, y, z, _] = crc;
            b[32..36].copy_from_slice(&[0xA5, x, y, z]);
            b[36..40].copy_from_slice(&[0xA5, x, y, z]);
        }
        survives(flash);
    }
}

/// Flash whose chip is write-protected: writes and erases succeed and change nothing.
struct Protected(RamNor<7, 256, 4, 0xFF, false>);

impl Medium for Protected {
    type Error = Misuse;
    const CONTRACT: Contract = <RamNor<7, 256, 4, 0xFF, false> as Medium>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.read(at, buf)
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), Misuse> {
        Ok(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

/// A slot is torn, and cannot be killed: `open` ends, with an error.
#[test]
fn a_chip_that_ignores_writes_ends_open() {
    let mut flash = RamNor::<7, 256, 4, 0xFF, false>::new();
    let mut table = [0; 80];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(9, b"page").unwrap();
    WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    // In the slot that the second boot appended.
    flash.bytes_mut()[6 * 256 + 76] ^= 1;
    let opened = WearLevelled::<_, 8>::open(Protected(flash), &mut table);
    assert!(
        matches!(opened, Err(LevelError::Damaged)),
        "{:?}",
        opened.err()
    );
}
