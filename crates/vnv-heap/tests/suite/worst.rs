//! The worst-case cost as a constant, against a computation in 128 bits, for all values.

use proptest::prelude::*;
use vnv_heap::{Budget, Config, CostModel, WorstCase};

fn model(byte_ns: u32, operation_ns: u32, power_uw: u32) -> CostModel {
    CostModel {
        byte_ns,
        operation_ns,
        power_uw,
        ..CostModel::ESP32C3_MB85RS4MT
    }
}

/// Microseconds and microjoules, not rounded down.
fn exact(m: &CostModel, bytes: u128, operations: u128) -> (u128, u128) {
    let ns = bytes * u128::from(m.byte_ns) + operations * u128::from(m.operation_ns);
    (
        ns.div_ceil(1000),
        (ns * u128::from(m.power_uw)).div_ceil(1_000_000_000),
    )
}

/// Bytes and operations of a persist, and of the section that it waits for.
fn work(c: &Config) -> ([u128; 2], [u128; 2]) {
    let limit = u128::from(c.dirty_limit).min(0xFFFF);
    let objects = (limit / 3).min(c.objects.into());
    let moved = u128::from(c.burst).max(32) + 28;
    let persist = [
        limit + 12 + 4 * objects,
        2 * objects + u128::from(c.max_pins) + 2,
    ];
    (persist, [moved, (moved / 15 * 2).max(8)])
}

fn is_right(found: &WorstCase, (us, uj): (u128, u128), power_uw: u32) {
    let most = u128::from(u32::MAX);
    assert_eq!(u128::from(found.microseconds), us.min(most));
    // A begun unit of 1,024 ns counts in full.
    let (low, high) = (
        uj,
        uj + (u128::from(power_uw) * 1024).div_ceil(1_000_000_000),
    );
    let found = u128::from(found.microjoules);
    assert!(
        low.min(most) <= found && found <= high.min(most),
        "{low} {found} {high}"
    );
}

fn check(c: &Config, m: &CostModel) {
    let ([bytes, calls], [moved, waits]) = work(c);
    let worst = c.worst_case(m);
    let all = exact(m, bytes + moved, calls + waits);
    is_right(&worst, all, m.power_uw);
    assert_eq!(
        u128::from(worst.bytes),
        u128::from(c.dirty_limit).min(0xFFFF) + 12
    );
    assert_eq!(u128::from(worst.operations), calls + waits);
    assert_eq!(
        [worst.wait.bytes, worst.wait.operations].map(u128::from),
        [moved, waits]
    );
    let wait = m.cost(worst.wait.bytes, 0, worst.wait.operations);
    assert_eq!(
        (worst.wait.microseconds, worst.wait.microjoules),
        (wait.microseconds, wait.microjoules)
    );
    // Kept by exactly those budgets that are no less.
    let keeps = |microseconds, microjoules| {
        c.fits_budget(&Budget {
            model: *m,
            microseconds,
            microjoules,
        })
    };
    let most = u128::from(u32::MAX);
    let high = all.1 + (u128::from(m.power_uw) * 1024).div_ceil(1_000_000_000);
    assert!(keeps(u32::MAX, u32::MAX) || all.0 > most || high > most);
    assert!(!keeps(u32::MAX, u32::MAX) || all.0 <= most && all.1 <= most);
    if all.0 <= most && high <= most {
        assert!(keeps(worst.microseconds, worst.microjoules));
        assert!(worst.microseconds == 0 || !keeps(worst.microseconds - 1, u32::MAX));
        assert!(worst.microjoules == 0 || !keeps(u32::MAX, worst.microjoules - 1));
    }
}

const EDGES: [u32; 9] = [
    0,
    1,
    2,
    999,
    0x7FFF,
    0xFFFF,
    0x1_0000,
    u32::MAX - 1,
    u32::MAX,
];

#[test]
fn at_the_extremes() {
    for dirty_limit in EDGES {
        for (burst, objects, max_pins) in [
            (0, 0, 0),
            (1, 1, 1),
            (0xFFFF, 0xFFFF, 0xFFFF),
            (64, 256, 16),
        ] {
            let c = Config {
                dirty_limit,
                burst,
                objects,
                max_pins,
                budget: None,
            };
            for byte_ns in EDGES {
                for power_uw in EDGES {
                    for operation_ns in [0, 1, 1120, u32::MAX] {
                        check(&c, &model(byte_ns, operation_ns, power_uw));
                    }
                }
            }
        }
    }
}

/// A limit over 16 bits does not wrap to a small one, and seconds are not cut off.
#[test]
fn a_bound_does_not_wrap() {
    const BUDGET: Budget = Budget {
        model: CostModel::ESP32C3_MB85RS4MT,
        microseconds: 10_000,
        microjoules: 1_000,
    };
    const LARGE: Config = Config {
        dirty_limit: u32::MAX,
        ..Config::DEFAULT
    };
    const { assert!(!LARGE.fits_budget(&BUDGET)) };
    assert_eq!(LARGE.worst_case(&BUDGET.model).bytes, 65_547);
    // A minute for each byte.
    let slow = Budget {
        model: model(u32::MAX, 0, 1),
        microseconds: 4_300_000,
        microjoules: u32::MAX,
    };
    assert!(!Config::DEFAULT.fits_budget(&slow));
    assert_eq!(
        slow.model.cost(u32::MAX, u32::MAX, u32::MAX).microseconds,
        u32::MAX
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cost_is_exact(m in any::<[u32; 3]>(), s in 0..32u32, n in any::<[u32; 3]>()) {
        let m = model(m[0] >> s, m[1] >> s, m[2] >> s);
        let [bytes, read, operations] = n.map(|n| n >> s);
        let found = m.cost(bytes, read, operations);
        let all = exact(&m, u128::from(bytes) + u128::from(read), operations.into());
        is_right(&found, all, m.power_uw);
        prop_assert_eq!((found.bytes, found.operations), (bytes, operations));
    }

    #[test]
    fn a_configuration_is_exact(m in any::<[u32; 3]>(), s in 0..32u32, limit: u32, l in 0..32u32, n in any::<[u16; 3]>()) {
        let [burst, objects, max_pins] = n;
        let c = Config { dirty_limit: limit >> l, burst, objects, max_pins, budget: None };
        check(&c, &model(m[0] >> s, m[1] >> s, m[2] >> s));
    }
}
