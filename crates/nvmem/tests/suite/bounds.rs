//! Constant functions for sizes and endurance: correct or refused for all inputs, compared with
//! 128-bit arithmetic.

use nvmem::device::{Contract, EraseUnit, Medium, Misuse, Torn, check_range};
use nvmem::{Record, WearLevelled};
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::Once;

/// A medium with a contract only.
macro_rules! media {
    ($($name:ident: $read:expr, $write:expr, $erase:expr;)*) => {$(
        struct $name;
        impl Medium for $name {
            type Error = Misuse;
            const CONTRACT: Contract = Contract {
                name: "test",
                read_size: $read,
                write_size: $write,
                unit: 1,
                torn: if $erase == 0 { Torn::Prefix } else { Torn::Unstable },
                erase: if $erase == 0 {
                    None
                } else {
                    Some(EraseUnit { size: $erase, erased: 0xFF, write_once: true, endurance: 0 })
                },
            };
            fn capacity(&self) -> u32 {
                u32::MAX
            }
            fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), Misuse> {
                Err(Misuse::OutOfRange)
            }
            fn write(&mut self, _: u32, _: &[u8]) -> Result<(), Misuse> {
                Err(Misuse::OutOfRange)
            }
            fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
                Err(Misuse::OutOfRange)
            }
        }
    )*};
}
media! {
    Bytes: 1, 1, 0;
    Words: 1, 16, 0;
    Nor: 1, 4, 4096;
    Wide: 4, 8, 2048;
    Page: 1, 128, 256;
    Odd: 1, 3, 99;
    Huge: 1, 4, 1 << 28;
    Largest: 1, 4, 1 << 31;
}

fn lcm(a: u128, b: u128) -> u128 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Extreme values are as likely as others.
fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..70_000u32,
        (0..40u32).prop_map(|n| u32::MAX - n),
        (0..32u32, 0..3u32).prop_map(|(bit, n)| (1u32 << bit).wrapping_add(n).wrapping_sub(1)),
    ]
}

/// The result of `f`, or `None` if it panics: such a panic prints nothing.
fn quietly<R>(f: impl FnOnce() -> R + std::panic::UnwindSafe) -> Option<R> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    // The other tests of this process keep their messages.
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic)
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(f).ok();
    QUIET.set(false);
    result
}

/// The range of a record of `len` bytes.
fn record_bytes(c: &Contract, len: u128, updates: u32) -> Option<u32> {
    let word = lcm(c.read_size.into(), c.write_size.into());
    let content = |len: u128| (len + 20).next_multiple_of(word);
    let mark = 4u128.next_multiple_of(word);
    let all = match &c.erase {
        None => 2 * content(len),
        Some(_) if updates > 4096 => return None,
        Some(e) => {
            let stride = content(len) + 3 * mark;
            let bank = (stride * u128::from(updates.max(1))).max(content(0) + 3 * mark);
            3 * bank.next_multiple_of(e.size.into())
        }
    };
    u32::try_from(all).ok()
}

fn record<D: Medium>(updates: u32) {
    let c = &D::CONTRACT;
    let small = quietly(|| Record::<u8, D>::bytes(updates));
    assert_eq!(small, record_bytes(c, 1, updates), "{updates} of a byte");
    let large = quietly(|| Record::<[u64; 4096], D>::bytes(updates));
    assert_eq!(
        large,
        record_bytes(c, 32_768, updates),
        "{updates} of 32 KiB"
    );
}

struct Level {
    page: u128,
    slots: u128,
    block: u128,
}

impl Level {
    fn of(c: &Contract, page: u128) -> Self {
        let word = lcm(c.read_size.into(), c.write_size.into());
        let first = 4u128.next_multiple_of(word);
        let mut stride = (page + 8).next_multiple_of(word);
        if stride < first + 4 {
            stride += word;
        }
        let head = 32u128.next_multiple_of(word) + 2 * 4u128.next_multiple_of(word);
        let unit = lcm(c.alignment().into(), 1);
        let block = (head + 4 * stride).next_multiple_of(unit);
        let slots = ((block - head) / stride).min(4096);
        Level { page, slots, block }
    }
    fn blocks(&self, bytes: u32) -> u128 {
        (u128::from(bytes) / self.block).min(0xFFFD / self.slots)
    }
    fn pages(&self, bytes: u32) -> u128 {
        let slots = self.blocks(bytes).saturating_sub(4) * self.slots;
        slots.saturating_sub(6) * 4 / 5
    }
}

fn level<D: Medium, const PAGE: usize>(n: u32, erases: u32) {
    type W<D, const PAGE: usize> = WearLevelled<'static, D, PAGE>;
    let l = Level::of(&D::CONTRACT, PAGE as u128);
    let capacity = W::<D, PAGE>::capacity_of(n);
    assert_eq!(u128::from(capacity), l.pages(n) * l.page);
    let entries = l.pages(n) + 2 * l.blocks(n);
    assert_eq!(W::<D, PAGE>::table_entries(n) as u128, entries);
    let writes = l.blocks(n) * l.slots * u128::from(erases) / 5;
    assert_eq!(u128::from(W::<D, PAGE>::page_writes(n, erases)), writes);
    // The smallest size that suffices, or none.
    match quietly(|| W::<D, PAGE>::bytes_for(n)) {
        Some(bytes) => {
            assert!(W::<D, PAGE>::capacity_of(bytes) >= n.max(1), "{n}: {bytes}");
            assert!(
                W::<D, PAGE>::capacity_of(bytes - 1) < n.max(1),
                "{n}: {bytes}"
            );
        }
        None => assert!(W::<D, PAGE>::capacity_of(u32::MAX) < n.max(1), "{n}"),
    }
}

fn all(n: u32, erases: u32) {
    record::<Bytes>(n);
    record::<Words>(n);
    record::<Nor>(n);
    record::<Wide>(n);
    record::<Page>(n);
    record::<Odd>(n);
    record::<Huge>(n);
    record::<Largest>(n);
    level::<Nor, 4>(n, erases);
    level::<Nor, 256>(n, erases);
    level::<Nor, 4096>(n, erases);
    level::<Wide, 64>(n, erases);
    level::<Page, 120>(n, erases);
    level::<Odd, 4>(n, erases);
    level::<Huge, 64>(n, erases);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of numbers, safe code")]
fn at_the_extremes() {
    let powers = (0..32).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    for n in powers.chain([4095, 4096, 4097, 65_533, u32::MAX - 1, u32::MAX]) {
        for erases in [0, 1, 10_000, u32::MAX] {
            all(n, erases);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    #[cfg_attr(miri, ignore = "as above")]
    fn anywhere(n in any_number(), erases in any_number()) {
        all(n, erases);
    }

    /// A contract is sound if its sizes have a common multiple, which then is the alignment.
    #[test]
    fn an_alignment_is_a_multiple_of_all_sizes(
        read_size in any_number(), write_size in any_number(), unit in any_number(), erase in any_number(), with in any::<bool>(),
    ) {
        let erase = with.then_some(EraseUnit { size: erase, erased: 0, write_once: true, endurance: 0 });
        let c = Contract { name: "any", read_size, write_size, unit, torn: Torn::Prefix, erase };
        let sizes = [read_size, write_size, unit, erase.map_or(1, |e| e.size)].map(u128::from);
        let zero = sizes.contains(&0);
        let common = if zero { 0 } else { sizes.into_iter().fold(1, lcm) };
        let fits = !zero && common <= u128::from(u32::MAX);
        let whole = erase.is_none_or(|e| write_size != 0 && e.size.is_multiple_of(write_size));
        prop_assert_eq!(c.is_sound(), fits && whole);
        if fits {
            prop_assert_eq!(u128::from(c.alignment()), common);
        } else {
            prop_assert!(quietly(|| c.alignment()).is_none());
        }
    }

    #[test]
    fn a_range_is_inside_or_refused(at in any_number(), len in any_number(), size in 1..9u32, capacity in any_number()) {
        let inside = u128::from(at) + u128::from(len) <= u128::from(capacity);
        let aligned = at % size == 0 && len % size == 0;
        let want = match (inside, aligned) {
            (false, _) => Err(Misuse::OutOfRange),
            (_, false) => Err(Misuse::Misaligned),
            _ => Ok(()),
        };
        prop_assert_eq!(check_range(at, len as usize, size, capacity), want);
    }
}
