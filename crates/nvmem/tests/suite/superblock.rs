//! The superblock without cuts: states, errors, formats, hostile bytes. Cuts are in
//! `crash_superblock.rs`.

use core::cell::Cell;
use core::mem::MaybeUninit;
use nvmem::instrument::{self, Observer};
use nvmem::superblock::{self, Difference, State, Superblock};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};

const SB: Superblock = Superblock {
    kind: *b"TEST",
    version: 3,
    fingerprint: 0x0123_4567_89ab_cdef,
    params: [1, 2, 3, 4, 5, 6, 7, 0xFFFF_FFFF],
};

fn newer() -> Superblock {
    Superblock { version: 4, ..SB }
}

struct Ram(Vec<MaybeUninit<u64>>);

impl Ram {
    fn filled(bytes: usize, fill: u8) -> Self {
        Ram(vec![
            MaybeUninit::new(u64::from_ne_bytes([fill; 8]));
            bytes / 8
        ])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let n = self.0.len() * 8;
        // SAFETY: all of it was initialised by `filled`, and the superblock stores whole
        // initialised units.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), n) }
    }

    fn on<M: Model, R>(&mut self, f: impl FnOnce(&mut Region<'_, M>) -> R) -> R {
        f(&mut Region::new(&mut self.0))
    }

    fn probe<M: Model>(&mut self) -> State {
        self.on::<M, _>(|r| superblock::probe(r, &SB))
    }

    fn put(&mut self, copy: usize, bytes: &[u8]) {
        let at = copy * Superblock::COPY_BYTES;
        self.bytes()[at..at + bytes.len()].copy_from_slice(bytes)
    }
}

fn life<M: Model>() {
    for fill in [0, 0xFF] {
        for len in [128, 136, 1024] {
            let mut ram = Ram::filled(len, fill);
            assert_eq!(ram.probe::<M>(), State::Blank);
            ram.on::<M, _>(|r| superblock::begin(r, &SB));
            assert_eq!(ram.probe::<M>(), State::Formatting);
            if len > 128 {
                ram.bytes()[130] = 77;
            }
            assert_eq!(ram.probe::<M>(), State::Formatting);
            ram.on::<M, _>(|r| superblock::begin(r, &newer()));
            ram.on::<M, _>(|r| superblock::finish(r, &SB));
            assert_eq!(ram.probe::<M>(), State::Ready(SB));
            let before = ram.bytes().to_vec();
            ram.on::<M, _>(|r| superblock::finish(r, &SB));
            assert_eq!(ram.bytes(), before, "idempotent");
            for i in 0..5 {
                let sb = Superblock {
                    version: 10 + i,
                    ..SB
                };
                ram.on::<M, _>(|r| superblock::replace(r, &sb));
                assert_eq!(ram.probe::<M>(), State::Ready(sb));
            }
            ram.on::<M, _>(|r| superblock::begin(r, &SB));
            assert_eq!(ram.probe::<M>(), State::Formatting, "given up by name");
            ram.on::<M, _>(|r| superblock::finish(r, &SB));
            assert_eq!(ram.probe::<M>(), State::Ready(SB));
        }
    }
}

#[test]
fn life_on_every_model() {
    life::<InOrder16>();
    life::<InOrder32>();
    life::<Buffered32>();
}

#[test]
fn finish_alone_formats_too() {
    let mut ram = Ram::filled(256, 0xFF);
    ram.on::<InOrder32, _>(|r| superblock::finish(r, &SB));
    assert_eq!(ram.probe::<InOrder32>(), State::Ready(SB));
}

#[test]
fn the_models_agree_on_the_bytes() {
    let mut a = Ram::filled(256, 0);
    a.on::<InOrder16, _>(|r| superblock::finish(r, &SB));
    let mut b = Ram::filled(256, 0);
    b.on::<Buffered32, _>(|r| superblock::finish(r, &SB));
    assert_eq!(a.bytes(), b.bytes());
    let copy: &[u8; 64] = a.bytes()[64..128].try_into().unwrap();
    assert_eq!(*copy, SB.encode(1));
    let stored = Superblock::decode(copy).unwrap();
    assert_eq!(
        (stored.sequence, stored.formatting, stored.superblock),
        (1, false, SB)
    );
    let both = a.on::<InOrder32, _>(|r| superblock::copies(r));
    assert!(both[0].unwrap().formatting && !both[1].unwrap().formatting);
}

/// Managers on a medium have both copies in RAM.
#[test]
fn the_newer_of_two_copies_is_found_across_a_wrap() {
    use nvmem::superblock::Copies;
    let mut place = MaybeUninit::uninit();
    let both = Copies::zeroed(&mut place);
    assert_eq!(both.newest(), None);
    for sequence in [0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFFu16] {
        for newer in 0..2 {
            for formatting in [false, true] {
                both.fill(1 - newer, &SB, sequence, !formatting);
                both.fill(newer, &SB, sequence.wrapping_add(1), formatting);
                let found = both.newest().unwrap();
                assert_eq!(
                    (found.copy(), found.sequence(), found.is_formatting()),
                    (newer, sequence.wrapping_add(1), formatting)
                );
                // The older copy counts if the newer is not intact.
                both.as_bytes_mut()[64 * newer + 30] ^= 1;
                let found = both.newest().unwrap();
                assert_eq!((found.copy(), found.sequence()), (1 - newer, sequence));
            }
        }
    }
}

#[test]
fn foreign_is_never_taken_for_blank() {
    for at in 0..256 {
        for fill in [0, 0xFF] {
            let mut ram = Ram::filled(256, fill);
            ram.bytes()[at] = 0x5A;
            assert_eq!(ram.probe::<InOrder16>(), State::Foreign, "{at}");
            assert_eq!(ram.probe::<InOrder32>(), State::Foreign, "{at}");
        }
    }
    // Both values of blank bytes, mixed.
    let mut ram = Ram::filled(256, 0);
    ram.bytes()[200] = 0xFF;
    assert_eq!(ram.probe::<InOrder32>(), State::Foreign);
}

#[test]
fn a_torn_marker_of_another_kind_is_foreign() {
    let mut ram = Ram::filled(256, 0);
    let other = Superblock {
        kind: *b"ELSE",
        ..SB
    };
    ram.on::<InOrder32, _>(|r| superblock::begin(r, &other));
    assert_eq!(ram.probe::<InOrder32>(), State::Foreign);
    ram.bytes()[60] = 0;
    assert_eq!(ram.probe::<InOrder32>(), State::Damaged);
}

#[test]
fn a_short_region_is_foreign_and_untouched() {
    let mut ram = Ram::filled(120, 0);
    assert_eq!(ram.probe::<InOrder32>(), State::Foreign);
    ram.on::<InOrder32, _>(|r| {
        superblock::begin(r, &SB);
        superblock::finish(r, &SB);
        superblock::replace(r, &SB);
        assert_eq!(superblock::copies(r), [None; 2]);
    });
    assert!(ram.bytes().iter().all(|b| *b == 0));
}

#[test]
fn a_flipped_bit_is_damage_and_never_an_older_state() {
    for bit in 0..64 * 8 {
        let mut ram = Ram::filled(256, 0);
        ram.put(0, &SB.encode(7));
        ram.bytes()[bit / 8] ^= 1 << (bit % 8);
        let found = ram.probe::<InOrder32>();
        let expected = if bit < 32 {
            State::Foreign
        } else {
            State::Damaged
        };
        assert_eq!(found, expected, "bit {bit}");
        // Then an older copy does not count either, whether a superblock or a format marker.
        ram.put(1, &newer().encode(6));
        assert_eq!(ram.probe::<InOrder32>(), State::Damaged, "bit {bit}");
    }
    let mut formatted = Ram::filled(256, 0);
    formatted.on(|r: &mut Region<'_, InOrder32>| {
        superblock::begin(r, &SB);
        superblock::finish(r, &SB);
    });
    for bit in 0..128 * 8 {
        let mut ram = Ram::filled(256, 0);
        ram.bytes().copy_from_slice(formatted.bytes());
        ram.bytes()[bit / 8] ^= 1 << (bit % 8);
        let found = ram.probe::<InOrder32>();
        // The marker counts no more. A checksum is not needed where the copy says what is expected.
        let unread = !(64 * 8..(128 - 4) * 8).contains(&bit);
        let harmless = found == State::Ready(SB) && unread;
        assert!(harmless || found == State::Damaged, "bit {bit}: {found:?}");
        // Another program looks at it: then the checksum counts.
        let other = ram.on(|r: &mut Region<'_, InOrder32>| superblock::probe(r, &newer()));
        let harmless = other == State::Ready(SB) && bit < 64 * 8;
        assert!(harmless || other == State::Damaged, "bit {bit}: {other:?}");
    }
}

/// A region with other content is being formatted: the format marker counts with any content after
/// it.
#[test]
fn a_format_over_anything_is_a_format() {
    for fill in [0x00, 0x52, 0xFF] {
        let mut ram = Ram::filled(256, fill);
        ram.put(1, &newer().encode(6));
        ram.bytes()[100] ^= 4;
        ram.on(|r: &mut Region<'_, InOrder32>| superblock::begin(r, &SB));
        assert_eq!(ram.probe::<InOrder32>(), State::Formatting);
        ram.on(|r: &mut Region<'_, InOrder32>| superblock::finish(r, &SB));
        assert_eq!(ram.probe::<InOrder32>(), State::Ready(SB));
    }
}

#[test]
fn the_sequence_wraps() {
    for seq in [0u16, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF] {
        for (older, newest) in [(0, 1), (1, 0)] {
            let mut ram = Ram::filled(256, 0);
            ram.put(older, &SB.encode(seq));
            ram.put(newest, &newer().encode(seq.wrapping_add(1)));
            assert_eq!(ram.probe::<InOrder16>(), State::Ready(newer()));
            ram.on::<InOrder16, _>(|r| superblock::replace(r, &SB));
            assert_eq!(ram.probe::<InOrder16>(), State::Ready(SB));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn a_mismatch_names_both() {
    let e = SB.check_layout(&newer()).unwrap_err();
    assert_eq!((e.stored, e.expected), (SB.layout(), newer().layout()));
    insta::assert_snapshot!(e, @r#"the medium holds "TEST" version 3 with layout 0123456789abcdef, the program expects "TEST" version 4 with layout 0123456789abcdef: another version of the format"#);
    let other = Superblock {
        kind: [b'A', 0, b'\n', 0xFF],
        ..SB
    };
    insta::assert_snapshot!(other.check_layout(&SB).unwrap_err(), @r#"the medium holds "A\x00\n\xff" version 3 with layout 0123456789abcdef, the program expects "TEST" version 3 with layout 0123456789abcdef: another library's content"#);
    let other = Superblock {
        fingerprint: 1,
        ..SB
    };
    insta::assert_snapshot!(other.check_layout(&SB).unwrap_err(), @r#"the medium holds "TEST" version 3 with layout 0000000000000001, the program expects "TEST" version 3 with layout 0123456789abcdef: other types in the program, or in another order"#);
    assert!(
        SB.check_layout(&Superblock {
            params: [0; 8],
            ..SB
        })
        .is_ok()
    );
}

/// Stores, fences, bytes read.
#[derive(Default)]
struct Counter([Cell<u32>; 3]);

impl Counter {
    fn add(&self, i: usize, n: usize) {
        self.0[i].set(self.0[i].get() + n as u32)
    }
    fn take(&self) -> [u32; 3] {
        self.0.each_ref().map(|c| c.take())
    }
}

impl Observer for Counter {
    fn store(&self, _: *mut u8, _: &[u8]) {
        self.add(0, 1)
    }
    fn fence(&self, _: &'static str) {
        self.add(1, 1)
    }
    fn read(&self, _: *const u8, len: usize) {
        self.add(2, len)
    }
}

fn cost<M: Model>(word: u32) {
    let mut ram = Ram::filled(1 << 16, 0xFF);
    let c = Counter::default();
    instrument::observe(&c, || {
        ram.on::<M, _>(|r| superblock::begin(r, &SB));
        assert_eq!(c.take()[..2], [16 * word, 2], "begin");
        ram.on::<M, _>(|r| superblock::finish(r, &SB));
        assert_eq!(c.take()[..2], [16 * word, 2], "finish");
        ram.probe::<M>();
        // Sequence number and state of both, then one copy twice, to compare and to decode it; not
        // its checksum. Independent of the region's length.
        assert_eq!(c.take(), [0, 0, 28 * 4], "probe");
        ram.on::<M, _>(|r| superblock::replace(r, &newer()));
        assert_eq!(c.take()[..2], [16 * word + 1, 3], "replace");
        ram.on::<M, _>(|r| superblock::replace(r, &newer()));
        assert_eq!(c.take()[..2], [0, 0], "replaced already");
        ram.probe::<M>();
        // The other copy is a superblock too and is checked.
        let unit = 4 / word;
        assert_eq!(c.take(), [0, 0, 50 * 4 + unit], "probe");
    })
}

#[test]
fn costs_are_what_the_documentation_says() {
    cost::<InOrder16>(2);
    cost::<InOrder32>(1);
    cost::<Buffered32>(1);
}

#[test]
fn the_first_difference_is_returned() {
    let mut ram = Ram::filled(1024, 0);
    ram.on::<InOrder16, _>(|r| superblock::finish(r, &SB));
    let mut against = |mut mine: Superblock, taken: u8| {
        let r = ram.on::<InOrder16, _>(|r| match superblock::probe_view(r, &SB) {
            State::Ready(view) => view.agrees(&mut mine, taken),
            _ => panic!("not a superblock"),
        });
        r.map(|()| mine)
    };
    assert_eq!(against(SB, 0), Ok(SB));
    for other in [
        Superblock {
            kind: *b"else",
            ..SB
        },
        Superblock {
            version: SB.version + 1,
            ..SB
        },
        Superblock {
            fingerprint: SB.fingerprint ^ 1,
            ..SB
        },
        Superblock {
            fingerprint: SB.fingerprint ^ 1 << 63,
            ..SB
        },
    ] {
        assert_eq!(against(other, 0xFF), Err(Difference::Layout));
    }
    for i in 0..8 {
        let mut other = SB;
        other.params[i] ^= 1 << 31;
        assert_eq!(against(other, !(1 << i)), Err(Difference::Param(i)));
        assert_eq!(against(other, 1 << i), Ok(SB));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_open_or_are_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 256), magic in 0..4) {
        let mut ram = Ram::filled(256, 0);
        ram.bytes().copy_from_slice(&bytes);
        if magic & 1 != 0 { ram.put(0, b"RLM1") }
        if magic & 2 != 0 { ram.put(1, b"RLM1") }
        let expected = if magic == 0 { State::Foreign } else { State::Damaged };
        proptest::prop_assert_eq!(ram.probe::<InOrder16>(), expected);
        // A forced format works with any content.
        ram.on::<InOrder16, _>(|r| superblock::begin(r, &SB));
        proptest::prop_assert_eq!(ram.probe::<InOrder16>(), State::Formatting);
        ram.on::<InOrder16, _>(|r| superblock::finish(r, &SB));
        proptest::prop_assert_eq!(ram.probe::<InOrder16>(), State::Ready(SB));
    }

    #[test]
    fn a_copy_survives_its_encoding(kind: [u8; 4], version: u16, fingerprint: u64, params: [u32; 8], seq: u16) {
        let sb = Superblock { kind, version, fingerprint, params };
        let c = Superblock::decode(&sb.encode(seq)).unwrap();
        proptest::prop_assert_eq!((c.sequence, c.superblock), (seq, sb));
    }
}

#[test]
fn the_checksum_is_the_usual_one() {
    assert_eq!(nvmem::crc::crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(nvmem::crc::crc32(b""), 0);
}
