//! Fingerprints of deployed programs: they must not change.

use crate::derive::handle::PBox;
use core::num::NonZeroU16;
use nvmem::{Maybe, Persist, fingerprint};

#[derive(Persist)]
#[repr(C)]
struct Settings {
    rate: u16,
    on: bool,
    mode: Mode,
    owner: Option<NonZeroU16>,
    last: [Maybe<i32>; 3],
}

#[derive(Persist)]
#[repr(i16)]
enum Mode {
    Off = -3,
    On,
    Auto(u8, char) = FIRST,
}

const FIRST: i16 = 700;

#[derive(Persist)]
#[repr(C, u8)]
enum Apart<T> {
    A,
    B(u8, T),
}

#[derive(Persist)]
#[repr(C)]
struct Ring<T, const N: usize> {
    data: [T; N],
}

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    value: f32,
    next: Option<PBox<'p, Node<'p>>>,
}

#[derive(Persist)]
#[repr(transparent)]
struct Meters(u32);

#[derive(Persist)]
#[repr(C)]
struct Unit;

#[test]
#[cfg(all(target_endian = "little", target_pointer_width = "64"))]
fn fingerprints_stay() {
    let all = [
        (fingerprint::<u8>(), 0xfd82_1e97_eebd_4a4e),
        (fingerprint::<Settings>(), 0x28c9_8fc1_5354_a4ea),
        (fingerprint::<Mode>(), 0x35d2_a7ba_c3a7_bc12),
        (fingerprint::<Apart<u64>>(), 0xffb5_b35d_87e0_3230),
        (fingerprint::<Ring<Apart<u16>, 5>>(), 0x8a5c_dc5b_fc63_31fe),
        (fingerprint::<Node<'_>>(), 0xf1e4_1601_1854_4999),
        (fingerprint::<Meters>(), 0x0f22_a55c_e771_d515),
        (fingerprint::<Unit>(), 0x1fda_b88c_cf4a_dfb1),
    ];
    for (is, was) in all {
        assert_eq!(is, was, "{is:#018x}");
    }
}
