//! The list of parts, the IDs, and the README's table.

use proptest::prelude::*;
use spi_fram::{AddressWidth, DeviceId, Identity, Maker, Part, Protection, Status};

fn fujitsu(product: [u8; 2]) -> DeviceId {
    let [a, b] = product;
    DeviceId([4, 0x7F, a, b, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])
}

fn cypress(product: [u8; 2]) -> DeviceId {
    let [a, b] = product;
    DeviceId([0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xC2, a, b])
}

fn backwards(mut id: DeviceId) -> DeviceId {
    id.0.reverse();
    id
}

/// IDs read from chips, or printed in data sheets.
const KNOWN: [(Part, bool, [u8; 2]); 18] = [
    (Part::MB85RS16, true, [0x01, 0x01]),
    (Part::MB85RS64V, true, [0x03, 0x02]),
    (Part::MB85RS64T, true, [0x23, 0x03]),
    (Part::MB85RS128B, true, [0x04, 0x09]),
    (Part::MB85RS256B, true, [0x05, 0x09]),
    (Part::MB85RS256TY, true, [0x25, 0x03]),
    (Part::MB85RS512T, true, [0x26, 0x03]),
    (Part::MB85RS1MT, true, [0x27, 0x03]),
    (Part::MB85RS2MT, true, [0x28, 0x03]),
    (Part::MB85RS2MTA, true, [0x48, 0x03]),
    (Part::MB85RS4MT, true, [0x49, 0x03]),
    (Part::FM25V01A, false, [0x21, 0x08]),
    (Part::FM25V02A, false, [0x22, 0x08]),
    (Part::FM25V05, false, [0x23, 0x00]),
    (Part::FM25V10, false, [0x24, 0x00]),
    (Part::FM25V20A, false, [0x25, 0x08]),
    (Part::CY15B102Q, false, [0x2A, 0x60]),
    (Part::CY15B104Q, false, [0x26, 0x08]),
];

#[test]
fn ids_tell_maker_and_capacity() {
    for (part, is_fujitsu, product) in KNOWN {
        let id = if is_fujitsu {
            fujitsu(product)
        } else {
            cypress(product)
        };
        let maker = if is_fujitsu {
            Maker::Fujitsu
        } else {
            Maker::Cypress
        };
        assert_eq!(id.product(), Some((maker, product)), "{}", part.name());
        assert_eq!(id.maker(), Some(maker));
        assert_eq!(id.capacity(), Some(part.capacity()), "{}", part.name());
        assert!(part.accepts(&id), "{}", part.name());
        // Another listed part is refused, unless its capacity and maker are the same.
        for (other, also_fujitsu, _) in KNOWN {
            let ambiguous = other == Part::MB85RS4MT && is_fujitsu && product[0] & 0x1F == 8;
            let same = is_fujitsu == also_fujitsu && part.capacity() == other.capacity();
            assert_eq!(
                other.accepts(&id),
                same || ambiguous,
                "{} and {}",
                part.name(),
                other.name()
            );
        }
    }
    // Parts that send the ID in reverse order.
    let id = backwards(cypress([0x2A, 0x60]));
    assert_eq!(id.product(), Some((Maker::Cypress, [0x2A, 0x60])));
    assert!(Part::CY15B102Q.accepts(&id) && !Part::CY15B104Q.accepts(&id));
}

#[test]
fn both_density_codes_of_the_4mt_are_accepted() {
    for code in [0x48, 0x49] {
        assert!(Part::MB85RS4MT.accepts(&fujitsu([code, 0x03])));
    }
    assert!(!Part::MB85RS4MT.accepts(&fujitsu([0x47, 0x03])));
    assert!(!Part::MB85RS2MTA.accepts(&fujitsu([0x49, 0x03])));
}

#[test]
fn what_is_no_id_is_none() {
    for id in [[0; 9], [0xFF; 9], [0x7F; 9]] {
        let id = DeviceId(id);
        assert_eq!((id.maker(), id.capacity()), (None, None));
        for part in Part::ALL {
            assert_eq!(part.accepts(&id), part.identity() == Identity::None);
        }
    }
    // Each bit of the maker's number is compared.
    for bit in 0..56 {
        let mut id = cypress([0x24, 0]);
        id.0[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(id.maker(), None, "bit {bit}");
        if bit < 16 {
            let mut id = fujitsu([0x27, 3]);
            id.0[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(id.maker(), None, "bit {bit}");
        }
    }
}

#[test]
fn capacities_never_overflow() {
    for code in 0..=0xFF {
        for id in [fujitsu([code, 0]), cypress([code, 0])] {
            assert!(
                id.capacity()
                    .is_none_or(|c| c.is_power_of_two() && c >= 2048)
            );
        }
    }
    // A Cypress chip with an unknown product number is accepted.
    assert_eq!(cypress([0x50, 0]).capacity(), None);
    assert!(Part::CY15B104Q.accepts(&cypress([0x50, 0])));
}

#[test]
fn parts_of_ones_own_are_sane() {
    for (asked, got, address) in [
        (0, 0, AddressWidth::Two),
        (1, 1, AddressWidth::Two),
        (511, 256, AddressWidth::Two),
        (512, 512, AddressWidth::Two),
        (2048, 2048, AddressWidth::Two),
        (3000, 2048, AddressWidth::Two),
        (0x1_0000, 0x1_0000, AddressWidth::Two),
        (0x2_0000, 0x2_0000, AddressWidth::Three),
        (u32::MAX, 0x100_0000, AddressWidth::Three),
    ] {
        let p = Part::new("p", asked);
        assert_eq!((p.capacity(), p.address()), (got, address));
        assert_eq!((p.identity(), p.recovery_us()), (Identity::None, None));
    }
    let cut = Part::MB85RS1MT.with_address(AddressWidth::Two);
    assert_eq!(cut.capacity(), 0x1_0000);
    assert_eq!(
        Part::MB85RS16.with_address(AddressWidth::Three).capacity(),
        2048
    );
}

proptest! {
    /// The driver uses no byte that the part does not have, that its address cannot reach, or that
    /// is protected.
    #[test]
    fn no_more_is_used_than_there_is(asked: u32, shift in 0u32..32, any: u32) {
        for asked in [asked, asked >> shift, 1 << shift, (1 << shift) - 1, u32::MAX, 0] {
            let p = Part::new("p", asked);
            let most = u128::from(asked).min(1 << 24);
            let got = u128::from(p.capacity());
            prop_assert!(got <= most && (got * 2 > most || most == 0));
            prop_assert!(got == 0 || got.is_power_of_two());
            for address in [AddressWidth::Two, AddressWidth::Three] {
                let p = p.with_address(address);
                let reached: u128 = if p.address() == AddressWidth::Two { 1 << 16 } else { 1 << 24 };
                prop_assert!(u128::from(p.capacity()) <= reached.min(got));
            }
            let reached: u128 = if p.address() == AddressWidth::Two { 1 << 16 } else { 1 << 24 };
            prop_assert!(got <= reached);
        }
        for capacity in [any, any >> shift, 0, 1, 3, u32::MAX] {
            let bytes = u128::from(capacity);
            for (blocks, quarters) in [
                (Protection::Nothing, 0),
                (Protection::UpperQuarter, 1),
                (Protection::UpperHalf, 2),
                (Protection::All, 4),
            ] {
                let writable = u128::from(blocks.writable(capacity));
                let at_most = bytes * (4 - quarters);
                prop_assert!(writable * 4 <= at_most && writable * 4 + 4 > at_most);
            }
        }
    }
}

#[test]
fn status_bits() {
    for raw in 0..=0xFF {
        let s = Status(raw);
        assert_eq!(s.write_enabled(), raw & 2 != 0);
        assert_eq!(s.pin_locks(), raw & 0x80 != 0);
        let upper = 1024 - s.protection().writable(1024);
        assert_eq!(upper, [0, 256, 512, 1024][(raw >> 2 & 3) as usize]);
    }
    assert_eq!(Protection::default(), Protection::Nothing);
}

/// Name, capacity, address bytes and sleep of each row of the README's table.
#[test]
fn the_readme_has_the_same_table() {
    let readme = include_str!("../../README.md");
    let rows: Vec<Vec<&str>> = readme
        .lines()
        .filter(|l| l.starts_with("| `"))
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let said: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r[0].trim_matches('`').to_owned(),
                r[1].to_owned(),
                r[2].to_owned(),
                r[5] != "no",
            )
        })
        .collect();
    let known: Vec<_> = Part::ALL
        .iter()
        .map(|p| {
            let bytes = match p.address() {
                AddressWidth::Two => "2",
                AddressWidth::Three => "3",
            };
            (
                p.name().to_owned(),
                format!("{} KiB", p.capacity() / 1024),
                bytes.to_owned(),
                p.recovery_us().is_some(),
            )
        })
        .collect();
    assert_eq!(said, known);
    for (row, part) in rows.iter().zip(Part::ALL) {
        assert_eq!(
            row[3] == "none",
            part.identity() == Identity::None,
            "{row:?}"
        );
    }
}
