//! The superblock under power cuts: format, use, migration, on all mapped models, two cuts deep.

use nvmem::superblock::{self, State, Superblock};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, Unit, mapped};
use powerfail::{Mapped, World, explore};

const V1: Superblock = Superblock {
    kind: *b"TEST",
    version: 1,
    fingerprint: 0x1111_2222_3333_4444,
    params: [1, 2, 3, 4, 5, 6, 7, 0xFFFF_FFFF],
};
const V2: Superblock = Superblock {
    version: 2,
    fingerprint: 0x5555_6666_7777_8888,
    params: [8, 7, 6, 5, 4, 3, 2, 0xFFFF_0000],
    ..V1
};

/// The content: one number at `AT` in version 1, followed by its complement in version 2.
const AT: usize = Superblock::BYTES;
const FIRST: u32 = 0x00AB_00CD;

pub fn get<M: Model>(r: &Region<'_, M>, off: usize) -> u32 {
    // SAFETY: inside, aligned, and nothing is lent.
    unsafe {
        let low = r.load(off);
        if M::Unit::BYTES == 4 {
            low
        } else {
            low | r.load(off + 2) << 16
        }
    }
}

pub fn put<M: Model>(r: &Region<'_, M>, off: usize, v: u32) {
    // SAFETY: inside, aligned, and nothing is lent.
    unsafe {
        r.store(off, v);
        if M::Unit::BYTES == 2 {
            r.store(off + 2, v >> 16);
        }
    }
}

/// The version that the world has seen: 1 or 2.
type Seen = u32;

/// One boot of a device that formats and is later updated to version 2.
fn boot<M: Model>(mut nv: Region<'_, M>, world: &World<'_, Seen>) {
    match superblock::probe(&nv, &V1) {
        State::Blank | State::Formatting => {
            assert_eq!(world.get(), 0, "formatted what was in use");
            let marker = superblock::begin_marked(&mut nv, &V1);
            put(&nv, AT, FIRST);
            put(&nv, AT + 4, 0xDEAD_0000);
            // Both ways to end a format.
            if M::Unit::BYTES == 4 {
                superblock::finish_marked(&mut nv, marker, &V1);
            }
            // Once is enough.
            superblock::finish(&mut nv, &V1);
        }
        State::Ready(_) => {}
        other => panic!("{other:?} after nothing but power cuts"),
    }
    match superblock::probe(&nv, &V1) {
        State::Ready(sb) if sb == V1 => {
            assert!(world.get() <= 1, "an old superblock is back");
            assert_eq!(get(&nv, AT), FIRST);
            world.acknowledge(1);
            put(&nv, AT + 4, !FIRST);
            superblock::replace(&mut nv, &V2);
        }
        State::Ready(sb) => assert_eq!(sb, V2),
        other => panic!("{other:?} after a format"),
    }
    assert_eq!(superblock::probe(&nv, &V2), State::Ready(V2));
    assert_eq!(get(&nv, AT), FIRST);
    assert_eq!(get(&nv, AT + 4), !FIRST, "migrated content is not there");
    world.acknowledge(2);
}

/// A device that changes its superblock repeatedly, from any sequence number on.
fn churn<M: Model>(mut nv: Region<'_, M>, world: &World<'_, u32>) {
    let n = match superblock::probe(&nv, &V1) {
        State::Ready(sb) => sb.params[7],
        other => panic!("{other:?}"),
    };
    assert!(n == world.get() || n == world.get() + 1, "{n}");
    world.acknowledge(n);
    if n < 3 {
        let mut params = V1.params;
        params[7] = n + 1;
        params[0] = n * 0x0101_0101;
        superblock::replace(&mut nv, &Superblock { params, ..V1 });
        world.acknowledge(n + 1);
    }
}

fn aged<M: Model>(sequence: u16) -> Mapped<M> {
    let mut image = vec![0; 256];
    let sb = |n| {
        let mut params = V1.params;
        params[7] = n;
        Superblock { params, ..V1 }
    };
    image[..64].copy_from_slice(&sb(99).encode(sequence.wrapping_sub(1)));
    image[64..128].copy_from_slice(&sb(0).encode(sequence));
    Mapped::with_image(image)
}

fn run<M: Model>() {
    for fill in [0x00, 0xFF] {
        let blank = Mapped::<M>::with_image(vec![fill; 192]);
        let s = explore(blank, |nv, w| boot::<M>(nv, w))
            .depth(2)
            .max_depth(3)
            .run();
        assert!(s.partial || s.cuts > 100, "{s}");
    }
    for sequence in [5, 0x7FFE, 0x7FFF, 0xFFFD, 0xFFFE, 0xFFFF] {
        let s = explore(aged::<M>(sequence), |nv, w| churn::<M>(nv, w))
            .depth(2)
            .max_depth(3)
            .one_in(4)
            .run();
        assert!(s.partial || s.cuts > 100, "{s}");
    }
}

#[test]
fn in_order_16() {
    run::<InOrder16>();
}

#[test]
fn in_order_32() {
    run::<InOrder32>();
}

#[test]
fn buffered_32() {
    run::<Buffered32>();
}

/// `probe` distinguishes the states that no cut can cause.
#[test]
fn foreign_and_damaged_stay_so() {
    let mut image = vec![0; 256];
    image[..64].copy_from_slice(&V1.encode(9));
    for bit in 0..512 {
        let mut image = image.clone();
        image[bit / 8] ^= 1 << (bit % 8);
        let state = on(&image);
        let expected = if bit < 32 {
            State::Foreign
        } else {
            State::Damaged
        };
        assert_eq!(state, expected, "bit {bit}");
    }
    for at in [0, 63, 64, 127, 128, 200] {
        let mut image = vec![0; 256];
        image[at] = 1;
        assert_eq!(on(&image), State::Foreign);
    }
}

fn on(image: &[u8]) -> State {
    let mut words: Vec<_> = image
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| core::mem::MaybeUninit::new(u64::from_ne_bytes(*w)))
        .collect();
    let region = Region::<InOrder32>::new(&mut words);
    mapped::fence::<InOrder32>();
    superblock::probe(&region, &V1)
}
