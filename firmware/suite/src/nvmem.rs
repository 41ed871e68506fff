//! Scenarios of `nvmem`.

use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use ::nvmem::superblock::{self, State, Superblock};
use ::nvmem::{Persist, Record, mapped};

/// The scenarios of this primitive.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "nvmem",
            primitive: "nvmem",
            scenarios: &[
                Scenario::new("superblock", 160, superblock),
                Scenario::new("record", 64, record),
                Scenario::new("record_migrate", 96, record_migrate),
                Scenario::new("loan", 24, loan),
            ],
        }
    }
}

/// A superblock whose content is as long as the format says.
fn sb(n: u16) -> Superblock {
    Superblock {
        kind: *b"SCEN",
        version: 1,
        fingerprint: 0x0123_4567_89AB_CDEF,
        params: [u32::from(n), 0, 0, 0, 0, 0, 0, !u32::from(n)],
    }
}

/// Format, then changes of what the superblock says, each at once.
fn superblock<M: Mapped>(scene: &mut Scene<'_, M>) {
    const CONTENT: u32 = 0x4B5A;
    let mut region = scene.region();
    let at = Superblock::BYTES;
    let found = match superblock::probe(&region, &sb(0)) {
        State::Ready(stored) => {
            check!(scene, stored.check_layout(&sb(0)).is_ok());
            let n = stored.params[0] as u16;
            check!(scene, stored == sb(n));
            // SAFETY: a unit of the region, of which nothing is lent.
            check!(scene, unsafe { region.load(at) } == CONTENT);
            n + 1
        }
        State::Blank | State::Formatting => 0,
        State::Foreign | State::Damaged => {
            scene.fail(const { crate::code(file!(), line!()) }, "it was ours")
        }
    };
    progress!(scene, found);
    for n in found..scene.rounds(3) {
        if n == 0 {
            superblock::begin(&mut region, &sb(0));
            // SAFETY: as above.
            unsafe { region.store(at, CONTENT) };
            superblock::finish(&mut region, &sb(0));
        } else {
            superblock::replace(&mut region, &sb(n));
        }
        scene.write_cell(0, n + 1);
    }
    let last = scene.rounds(3) - 1;
    check!(
        scene,
        superblock::probe(&region, &sb(0)) == State::Ready(sb(last))
    );
}

#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
struct Counter {
    n: u16,
    low: u8,
    /// Spans two units, wherever it lies.
    all: u32,
}

fn counter(n: u16) -> Counter {
    Counter {
        n,
        low: n as u8,
        all: u32::from(n) * 0x1_0001,
    }
}

/// A record that counts.
fn record<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let all = 0..region.len() as u32;
    let mut r = ok!(scene, Record::open(region, all, counter(0)));
    let found = *r.get();
    check!(scene, found == counter(found.n));
    progress!(scene, found.n);
    for n in found.n..scene.rounds(3) {
        ok!(scene, r.set(counter(n + 1)));
        check!(scene, *r.get() == counter(n + 1));
        scene.write_cell(0, n + 1);
    }
}

#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
struct Wide {
    n: u16,
    more: [u16; 5],
}

fn wide(n: u16) -> Wide {
    Wide { n, more: [!n; 5] }
}

/// Two settings of an old program, then the one of a new program with another type, which makes one
/// more.
fn record_migrate<M: Mapped>(scene: &mut Scene<'_, M>) {
    let mut region = scene.region();
    let all = 0..region.len() as u32;
    // The new program is installed when the old one has done its last.
    if scene.read_cell(0) < 2 {
        let mut r = ok!(scene, Record::open(&mut region, all.clone(), counter(0)));
        let found = *r.get();
        check!(scene, found == counter(found.n));
        progress!(scene, found.n);
        for n in found.n..2 {
            ok!(scene, r.set(counter(n + 1)));
            scene.write_cell(0, n + 1);
        }
    }
    // What is found in the old type is 2, and becomes 3.
    let mut r = ok!(
        scene,
        Record::open_or_migrate(&mut region, all, wide(99), |old: Counter| {
            if old == counter(2) { wide(3) } else { wide(98) }
        })
    );
    let found = *r.get();
    check!(scene, found == wide(found.n));
    check!(scene, matches!(found.n, 3..=5));
    progress!(scene, found.n);
    for n in found.n..5 {
        ok!(scene, r.set(wide(n + 1)));
        scene.write_cell(0, n + 1);
    }
}

/// Two copies of a value and a word that says which one counts; the other one is written through a
/// plain `&mut`.
fn loan<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    // SAFETY: a unit of the region, of which nothing is lent.
    let found = unsafe { region.load(0) } as u16;
    let at = |n: u16| {
        let copy = 8 + usize::from(n % 2) * 8;
        region.base().wrapping_add(copy).cast::<[u16; 4]>()
    };
    if found > 0 {
        let copy = at(found);
        mapped::will_read(copy.cast(), 8);
        // SAFETY: inside the region, aligned, any bytes are numbers; nothing else refers to it.
        let copy = unsafe { &*copy };
        check!(scene, copy.iter().all(|v| *v == found));
    }
    progress!(scene, found);
    for n in found + 1..=scene.rounds(3) {
        let copy = at(n).cast::<u8>();
        mapped::lend(copy, 8);
        {
            // SAFETY: as above; the loan ends below, after the last use.
            let copy = unsafe { &mut *at(n) };
            copy.fill(n);
        }
        mapped::end_loan(copy, 8);
        mapped::fence::<M>();
        // SAFETY: as the load.
        unsafe { region.store(0, u32::from(n)) };
        mapped::fence::<M>();
        scene.write_cell(0, n);
    }
}
