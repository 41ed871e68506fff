//! What the paper of IntOS (OSDI'24) says of its programs in table 3: cycles of the longest
//! transaction on an MSP430FR5994, lines of code, and lines that were added or changed.

pub struct Published {
    pub name: &'static str,
    pub cycles: u32,
    pub lines: u32,
    pub changed: u32,
}

const fn of(name: &'static str, cycles: u32, lines: u32, changed: u32) -> Published {
    Published {
        name,
        cycles,
        lines,
        changed,
    }
}

pub const TABLE_3: [Published; 11] = [
    of("bc", 10_676, 181, 32),
    of("mlp", 3_488, 155, 30),
    of("ar", 12_060, 301, 33),
    of("kv", 6_276, 325, 102),
    of("sen", 6_420, 107, 15),
    of("em", 2_592, 113, 29),
    of("mq", 2_532, 166, 51),
    of("etl", 3_580, 709, 148),
    of("pred", 3_808, 440, 58),
    of("stats", 4_884, 413, 46),
    of("train", 9_472, 511, 132),
];
