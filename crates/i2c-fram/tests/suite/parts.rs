//! The list of parts, the IDs, and the README's table.

use i2c_fram::{DeviceId, Maker, Part, WordAddress};

/// IDs that data sheets print.
const KNOWN: [(Part, [u8; 3]); 8] = [
    (Part::MB85RC04V, [0x00, 0xA0, 0x10]),
    (Part::MB85RC64TA, [0x00, 0xA3, 0x58]),
    (Part::MB85RC256V, [0x00, 0xA5, 0x10]),
    (Part::MB85RC512T, [0x00, 0xA6, 0x58]),
    (Part::MB85RC1MT, [0x00, 0xA7, 0x58]),
    (Part::FM24V02A, [0x00, 0x42, 0x08]),
    (Part::FM24V05, [0x00, 0x43, 0x00]),
    (Part::FM24V10, [0x00, 0x44, 0x00]),
];

#[test]
fn ids_tell_maker_and_capacity() {
    for (part, id) in KNOWN {
        let id = DeviceId(id);
        assert_eq!(id.maker(), part.identity(), "{}", part.name());
        assert_eq!(id.capacity(), Some(part.capacity()), "{}", part.name());
        for (other, _) in KNOWN {
            assert_eq!(other.accepts(&id), other == part, "{}", other.name());
        }
    }
    for id in [[0; 3], [0xFF; 3], [0x00, 0xB5, 0x10], [0x80, 0xA5, 0x10]] {
        let id = DeviceId(id);
        assert_eq!((id.maker(), id.capacity()), (None, None));
        for part in Part::ALL {
            assert_eq!(part.accepts(&id), part.identity().is_none());
        }
    }
}

#[test]
fn capacities_never_overflow() {
    for maker in [0xA0, 0x40, 0x50] {
        for code in 0..16 {
            let capacity = DeviceId([0, maker | code, 0]).capacity();
            assert!(capacity.is_none_or(|c| c.is_power_of_two() && c >= 512));
        }
    }
}

#[test]
fn parts_of_ones_own_are_sane() {
    use WordAddress::{One, Two};
    for (asked, got, address, bits) in [
        (0, 0, One, 0),
        (1, 1, One, 0),
        (256, 256, One, 0),
        (511, 256, One, 0),
        (512, 512, One, 1),
        (1024, 1024, One, 3),
        (2048, 2048, One, 7),
        (4095, 2048, One, 7),
        (4096, 4096, Two, 0),
        (0x1_0000, 0x1_0000, Two, 0),
        (0x2_0000, 0x2_0000, Two, 1),
        (u32::MAX, 0x8_0000, Two, 7),
    ] {
        let p = Part::new("p", asked);
        assert_eq!(
            (p.capacity(), p.address(), p.block_bits(), p.identity()),
            (got, address, bits, None)
        );
    }
    let cut = Part::MB85RC256V.with_address(One);
    assert_eq!((cut.capacity(), cut.block_bits()), (2048, 7));
    assert_eq!(Part::MB85RC04V.with_address(Two).block_bits(), 0);
}

/// Each row of the README's table.
#[test]
fn the_readme_has_the_same_table() {
    let readme = include_str!("../../README.md");
    let rows: Vec<Vec<String>> = readme
        .lines()
        .filter(|l| l.starts_with("| `"))
        .map(|l| l.trim_matches('|').split('|'))
        .map(|cells| cells.map(|c| c.trim().to_owned()).collect())
        .collect();
    let known: Vec<Vec<String>> = Part::ALL
        .iter()
        .map(|p| {
            let capacity = match p.capacity() {
                512 => "512 B".to_owned(),
                bytes => format!("{} KiB", bytes / 1024),
            };
            let (bytes, bits) = match p.address() {
                WordAddress::One => ("1", ["none", "A8", "", "", "", "", "", "A10, A9, A8"]),
                WordAddress::Two => ("2", ["none", "A16", "", "", "", "", "", ""]),
            };
            let pins = match p.block_bits() {
                0 => "A2, A1, A0",
                1 => "A2, A1",
                _ => "none",
            };
            let log = p.capacity().ilog2();
            let id = match p.identity() {
                Some(Maker::Fujitsu) => format!("00A {}", log.saturating_sub(10)),
                Some(Maker::Cypress) => format!("004 {}", log - 13),
                _ => "none".to_owned(),
            };
            let bits = bits[usize::from(p.block_bits())];
            let name = format!("`{}`", p.name());
            [name.as_str(), &capacity, bytes, bits, pins, &id]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    assert_eq!(rows, known);
}
