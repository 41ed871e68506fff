//! The simulated power supply cuts at the given store, and a cut leaves an allowed state.

#[path = "../../src/host/machine.rs"]
mod simulated;

use nvmem::{Region, mapped};
use simulated::Machine;

/// Stores a unit as a library does.
fn put(region: &Region<'_, example_activity::Fram>, unit: usize, v: u16) {
    // SAFETY: inside the 64 bytes of these tests, and nothing there is borrowed.
    unsafe { mapped::store(region.base().add(unit * 2).cast::<u16>(), v) }
}

fn unit(m: &Machine, i: usize) -> u16 {
    u16::from_le_bytes(m.image()[i * 2..][..2].try_into().unwrap())
}

#[test]
fn a_cut_leaves_a_prefix_and_nothing_after_it() {
    struct Repairs<'r>(&'r Region<'r, example_activity::Fram>);
    impl Drop for Repairs<'_> {
        fn drop(&mut self) {
            (0..4).for_each(|i| put(self.0, i, 99));
        }
    }
    for stores in 0..6 {
        let mut m = Machine::with_image(&[0; 64], 1);
        let end = m.boot(Some(stores), |region, meter| {
            let _repairs = (stores < 4).then(|| Repairs(&region));
            put(&region, 0, 1);
            put(&region, 1, 2);
            meter.opened();
            put(&region, 2, 3);
            put(&region, 3, 4);
        });
        assert_eq!(end.is_some(), stores >= 4);
        assert_eq!(m.opened(), (stores >= 2).then_some(2));
        for i in 0..4 {
            let stored = (i as u64) < stores;
            assert_eq!(unit(&m, i), if stored { i as u16 + 1 } else { 0 });
        }
        assert_eq!(m.count().stores, stores.min(4));
        // The next boot sees the medium's contents, not those of memory.
        let seen = m.boot(None, |region, _| {
            // SAFETY: a unit of the region.
            unsafe { mapped::load(region.base().cast::<u16>()) }
        });
        assert_eq!(seen, Some(u16::from(stores > 0)));
    }
}

#[test]
fn any_units_written_through_a_loan_may_persist() {
    let mut seen = [[false; 2]; 8];
    for seed in 0..64 {
        let mut m = Machine::with_image(&[0; 64], seed);
        let end = m.boot(Some(4), |region, _| {
            mapped::lend(region.base(), 16);
            // SAFETY: eight units inside the region.
            unsafe { region.base().cast::<[u16; 8]>().write([7; 8]) };
            mapped::end_loan(region.base(), 16);
        });
        assert!(end.is_none());
        let kept: Vec<_> = (0..8).map(|i| unit(&m, i)).collect();
        assert!(kept.iter().all(|v| *v == 0 || *v == 7));
        assert_eq!(kept.iter().filter(|v| **v == 7).count(), 4);
        for (seen, v) in seen.iter_mut().zip(kept) {
            seen[usize::from(v == 7)] = true;
        }
    }
    assert_eq!(seen, [[true; 2]; 8]);
}

#[test]
fn a_step_that_is_done_again_costs_its_stores_again() {
    let mut m = Machine::with_image(&[0; 64], 3);
    let program = |region: Region<'_, example_activity::Fram>, _: &simulated::Meter| {
        mapped::lend(region.base(), 16);
        // SAFETY: eight units inside the region.
        unsafe { region.base().cast::<[u16; 8]>().write([7; 8]) };
        mapped::end_loan(region.base(), 16);
    };
    for boot in 1..=20 {
        assert!(m.boot(Some(7), program).is_none());
        assert_eq!(m.count().stores, boot * 7);
    }
    assert!(m.boot(Some(8), program).is_some());
}

#[test]
fn writes_without_a_loan_are_found_by_a_scan() {
    let mut m = Machine::new(64);
    m.boot(None, |region, meter| {
        // SAFETY: inside the region.
        unsafe { region.base().cast::<[u16; 3]>().write([0; 3]) };
        meter.scan_all();
        meter.step();
    });
    let c = m.count();
    assert_eq!((c.stores, c.bytes, c.by_program), (3, 6, 6));
    assert!(m.random(5) < 5);
    assert_eq!(std::rc::Rc::strong_count(m.meter()), 1);
}
