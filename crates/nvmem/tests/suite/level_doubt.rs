//! Wear levelling on flash with unstable words, four cuts deep. These histories are too long for a
//! search, so each test executes one step by step. A page that a boot has returned never reverts.

use nvmem::device::{Contract, Medium, Misuse};
use nvmem::level::{LevelError, WearLevelled};
use nvmem::ram::RamNor;

/// Pages of 8 bytes, blocks of 5 slots.
type Small = RamNor<7, 128, 4>;
type Bytes<'b, 'f> = WearLevelled<'b, &'f mut Flash, 8>;

/// Unstable bytes: every second read of a byte differs.
#[derive(Clone)]
struct Unstable {
    from: u32,
    to: u32,
    /// How often each byte was read.
    reads: Vec<u32>,
}

#[derive(Clone)]
struct Flash {
    flash: Small,
    /// The number of writes and erases before the power fails in the middle of one.
    until_cut: Option<u32>,
    /// The power fails in the first write of a confirmation.
    cut_in_confirmation: bool,
    unstable: Option<Unstable>,
    /// The driver's write buffer: written data stays here until a flush or an erase.
    buffer: Option<Vec<(u32, Vec<u8>)>>,
}

impl Flash {
    fn is_cut(&mut self) -> bool {
        let cut = self.until_cut == Some(0);
        self.until_cut = self.until_cut.map(|n| n.saturating_sub(1));
        cut
    }

    fn damage(&mut self, from: u32, to: u32) {
        for b in &mut self.flash.bytes_mut()[from as usize..to as usize] {
            *b ^= 0x5A;
        }
    }
}

impl Medium for Flash {
    type Error = Misuse;
    const CONTRACT: Contract = Small::CONTRACT;
    fn capacity(&self) -> u32 {
        self.flash.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.flash.read(at, buf)?;
        for (from, bytes) in self.buffer.iter().flatten() {
            for (i, to) in (at..).zip(&mut *buf) {
                if let Some(b) = i.checked_sub(*from).and_then(|k| bytes.get(k as usize)) {
                    *to = *b;
                }
            }
        }
        let end = at + buf.len() as u32;
        if let Some(u) = &mut self.unstable
            && at < u.to
            && u.from < end
        {
            for i in at.max(u.from)..end.min(u.to) {
                let reads = &mut u.reads[(i - u.from) as usize];
                *reads += 1;
                if *reads % 2 == 0 {
                    buf[(i - at) as usize] ^= 0x5A;
                }
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        // A header of 32 bytes, a commit marker and a confirmation of 4 bytes each.
        if self.is_cut() || self.cut_in_confirmation && at % 128 == 36 {
            return Err(Misuse::WornOut);
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.push((at, bytes.to_vec()));
            return Ok(());
        }
        self.flash.write(at, bytes)
    }
    fn flush(&mut self) -> Result<(), Misuse> {
        for (at, bytes) in self.buffer.iter_mut().flat_map(std::mem::take) {
            self.flash.write(at, &bytes)?;
        }
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.flush()?;
        if self.is_cut() {
            self.damage(from, to);
            return Err(Misuse::WornOut);
        }
        if self
            .unstable
            .as_ref()
            .is_some_and(|u| from <= u.from && u.to <= to)
        {
            self.unstable = None;
        }
        self.flash.erase(from, to)
    }
}

fn page(d: &mut Bytes<'_, '_>) -> [u8; 8] {
    let mut b = [0; 8];
    d.read(0, &mut b).unwrap();
    b
}

/// A boot that only reads: the page that it returns, or its error.
fn boot(flash: &mut Flash) -> Result<[u8; 8], LevelError<Misuse>> {
    let mut table = [0; 64];
    let mut d = Bytes::open(flash, &mut table)?;
    Ok(page(&mut d))
}

/// The offsets at which the flash holds `[2; 8]`.
fn places(flash: &Flash) -> Vec<u32> {
    let bytes = flash.flash.bytes();
    let all = bytes.windows(8).enumerate().filter(|(_, w)| **w == [2; 8]);
    all.map(|(at, _)| at as u32).collect()
}

/// A flash whose first page was `[1; 8]`; the last written slot holds `[2; 8]`.
fn in_use(writes: u8) -> Flash {
    let mut flash = Flash {
        flash: Small::new(),
        until_cut: None,
        cut_in_confirmation: false,
        unstable: None,
        buffer: None,
    };
    let mut table = [0; 64];
    let mut d = Bytes::open(&mut flash, &mut table).unwrap();
    for n in 0..writes {
        d.write(8 * u32::from(1 + n % 6), &[0x80 | n; 8]).unwrap();
    }
    d.write(0, &[1; 8]).unwrap();
    d.write(0, &[2; 8]).unwrap();
    flash
}

/// The next boot starts a block with this page carried over, and is cut in the confirmation.
fn with_one_seal(flash: &Flash) -> Flash {
    let mut f = flash.clone();
    f.cut_in_confirmation = true;
    assert!(boot(&mut f).is_err(), "it starts a block");
    f.cut_in_confirmation = false;
    f
}

/// 1. The power fails in the write of the last slot, which may read as complete or not.
/// 2. A boot carries the slot to a new block if it reads as complete, or leaves it out. The power
///    fails in that block's confirmation, which may read as written or not.
/// 3. A boot reads marker and confirmation, returns the page, and is reset.
/// 4. A boot reads the marker only. It must not erase this block. The power fails again.
/// 5. A boot reads the last slot in the opposite way to the boot of step 2.
#[test]
fn a_returned_page_stays_while_another_block_is_started() {
    for (writes, whole) in (20..30).flat_map(|n| [(n, true), (n, false)]) {
        let mut flash = in_use(writes);
        let [slot] = places(&flash)[..] else {
            panic!("written once")
        };
        if !whole {
            flash.damage(slot, slot + 8);
        }
        let shown = if whole { [2; 8] } else { [1; 8] };
        let one_seal = with_one_seal(&flash);
        assert_eq!(boot(&mut flash.clone()), Ok(shown));
        for until_cut in 0.. {
            let mut f = one_seal.clone();
            f.until_cut = Some(until_cut);
            let done = boot(&mut f);
            f.until_cut = None;
            let mut later = f.clone();
            // It was complete, or will read as complete again.
            later.damage(slot, slot + 8);
            assert_eq!(
                boot(&mut later),
                Ok(shown),
                "{writes} writes, cut before {until_cut} others: taken back"
            );
            if done.is_ok() {
                break;
            }
        }
    }
}

/// 1. The power fails in the commit marker of a block with a carried page. The marker may read as
///    written or not.
/// 2. A boot reads no marker and starts that block again; the power fails in the erase. The block
///    may read as before, or as any value.
/// 3. A boot reads the marker, and the page as complete; when it copies the page, it reads
///    differently. Then the slot that the page came from counts.
#[test]
fn a_block_whose_erase_was_cut_is_trusted_only_once() {
    for writes in 20..30 {
        let flash = in_use(writes);
        let [slot] = places(&flash)[..] else {
            panic!("written once")
        };
        let mut f = with_one_seal(&flash);
        let carried = places(&f).into_iter().find(|at| *at != slot);
        let carried = carried.expect("carried");
        f.unstable = Some(Unstable {
            from: carried,
            to: carried + 12,
            reads: vec![0; 12],
        });
        assert_eq!(boot(&mut f), Ok([2; 8]), "{writes} writes");
        assert_eq!(boot(&mut f), Ok([2; 8]), "{writes} writes");
    }
}

/// 1. The power fails in the write of the last slot, which may read as complete or not.
/// 2. A boot reads it as complete, carries it to a block, returns the page, and is reset: the
///    driver's buffer is lost.
/// 3. A boot reads the last slot as torn.
#[test]
fn a_returned_page_was_flushed() {
    for writes in 20..30 {
        let flash = in_use(writes);
        let [slot] = places(&flash)[..] else {
            panic!("written once")
        };
        let mut f = flash.clone();
        f.buffer = Some(Vec::new());
        assert_eq!(boot(&mut f), Ok([2; 8]));
        f.buffer = None;
        f.damage(slot, slot + 8);
        assert_eq!(boot(&mut f), Ok([2; 8]), "{writes} writes");
    }
}

// A write-once flash, whose driver then says that words may be overwritten: an update of the
// program. So a boot could append to a block that an earlier boot has given up.

type Wide = RamNor<7, 256, 4>;
type Multiwrite = RamNor<7, 256, 4, 0xFF, false>;

/// The block that the boot before the update began, after block 6: its size, and the offset of its
/// commit marker.
const BEGUN: std::ops::Range<usize> = 0..256;
const MARKER: std::ops::Range<usize> = 32..36;

/// Page 0 was written twice. The next boot began a block with it, and the power failed in that
/// block's commit marker.
fn with_begun_block() -> Wide {
    let mut flash = Wide::new();
    let mut table = [0; 128];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    d.write(0, &[1; 8]).unwrap();
    d.write(0, &[2; 8]).unwrap();
    WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    assert_ne!(flash.bytes()[MARKER], [0xFF; 4], "the block was begun");
    // Its confirmation.
    flash.bytes_mut()[36..40].fill(0xFF);
    flash
}

fn multiwrite(bytes: &[u8]) -> Multiwrite {
    let mut flash = Multiwrite::new();
    flash.bytes_mut().copy_from_slice(bytes);
    flash
}

/// A boot with one write.
fn boot_and_write<D: Medium<Error = Misuse>>(flash: D, new: [u8; 8]) -> Result<(), Misuse> {
    let mut table = [0; 128];
    let written = WearLevelled::<_, 8>::open(flash, &mut table).and_then(|mut d| d.write(0, &new));
    written.map_err(|e| match e {
        LevelError::Medium(e) => e,
        e => panic!("{e}"),
    })
}

fn first_page(flash: &mut Multiwrite) -> [u8; 8] {
    let mut table = [0; 128];
    let mut d = WearLevelled::<_, 8>::open(flash, &mut table).unwrap();
    let mut b = [0; 8];
    d.read(0, &mut b).unwrap();
    b
}

/// 1. A boot begins a block. The power fails in its commit marker, which may read as written or
///    not.
/// 2. A boot reads no marker, and writes a page.
/// 3. A boot reads the marker, if that block is still there.
#[test]
fn a_boot_does_not_append_before_a_block_that_may_count() {
    let begun = with_begun_block();
    let mut flash = multiwrite(begun.bytes());
    flash.bytes_mut()[MARKER].fill(0xFF);
    boot_and_write(&mut flash, [9; 8]).unwrap();
    if flash.bytes()[..32] == begun.bytes()[..32] {
        let marker = begun.bytes()[MARKER].to_vec();
        flash.bytes_mut()[MARKER].copy_from_slice(&marker);
    }
    assert_eq!(first_page(&mut flash), [9; 8]);
}

/// Fails in the first erase.
struct NoErase<'f>(&'f mut Multiwrite);

impl Medium for NoErase<'_> {
    type Error = Misuse;
    const CONTRACT: Contract = Multiwrite::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.0.write(at, bytes)
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Err(Misuse::WornOut)
    }
}

/// 1. As before.
/// 2. A boot reads no marker, and erases that block. The power fails in the erase, so the block may
///    read as before, or as any value.
/// 3. A boot reads no header there, appends to the block before, and returns.
/// 4. A boot reads that block as before its erase.
#[test]
fn a_cut_erase_does_not_bring_a_block_back() {
    let begun = with_begun_block();
    let marker = begun.bytes()[MARKER].to_vec();
    let mut flash = multiwrite(begun.bytes());
    flash.bytes_mut()[MARKER].fill(0xFF);
    let failed = boot_and_write(NoErase(&mut flash), [8; 8]);
    assert_eq!(failed, Err(Misuse::WornOut));
    let mut before_erase = flash.bytes()[BEGUN].to_vec();
    if before_erase[MARKER] == [0xFF; 4] {
        before_erase[MARKER].copy_from_slice(&marker);
    }
    flash.bytes_mut()[..32].fill(0x5A);
    let block = flash.bytes()[BEGUN].to_vec();
    boot_and_write(&mut flash, [9; 8]).unwrap();
    assert_eq!(flash.bytes()[BEGUN], block[..], "it appended elsewhere");
    flash.bytes_mut()[BEGUN].copy_from_slice(&before_erase);
    assert_eq!(first_page(&mut flash), [9; 8]);
}
