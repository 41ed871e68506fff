//! A region that held typed values is read as bytes only after it was cleared.

use nvmem::device::{Medium, Misuse};
use nvmem::{
    Area, AreaLength, Buffered32, InOrder16, InOrder32, Model, Persist, Region, RegionError,
};
use std::mem::MaybeUninit;

fn values_are_no_bytes<M: Model>() {
    let mut words = [MaybeUninit::new(0x0101_0101_0101_0101u64); 4];
    let mut region = Region::<M>::new(&mut words);
    let mut bytes = [0; 32];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 32]);
    region.mark_values();
    assert_eq!((region.len(), region.capacity()), (32, 32));
    assert_eq!(region.read(0, &mut bytes[..1]), Err(Misuse::HoldsValues));
    assert_eq!(region.write(1, &[2]), Err(Misuse::HoldsValues));
    let Err((RegionError::HoldsValues, mut region)) = region.split_at(8) else {
        panic!("it was split");
    };
    // SAFETY: inside, and `region` is not used while the tail lives.
    let mut tail = unsafe { region.tail(8) };
    assert_eq!(tail.read(0, &mut bytes[..1]), Err(Misuse::HoldsValues));
    assert_eq!(tail.len(), 24);
    region.clear();
    region.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 32]);
    let Ok((mut first, second)) = region.split_at(8) else {
        panic!("it holds bytes");
    };
    first.write(7, &[3]).unwrap();
    first.read(4, &mut bytes[..4]).unwrap();
    assert_eq!(
        (bytes[..4].as_ref(), second.len()),
        ([0, 0, 0, 3].as_ref(), 24)
    );
}

#[test]
fn a_region_of_values_is_not_read_as_bytes() {
    values_are_no_bytes::<InOrder32>();
    values_are_no_bytes::<InOrder16>();
    values_are_no_bytes::<Buffered32>();
}

/// Not any bytes are one, and it has padding.
#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Reading {
    valid: bool,
    n: u16,
    tail: [u8; 3],
}

/// A value comes back, its padding and the rest of its last unit are zeros, and nothing else
/// changes.
fn a_value_comes_back<M: Model>() {
    let mut words = [MaybeUninit::new(u64::MAX); 2];
    let mut region = Region::<M>::new(&mut words);
    let reading = Reading {
        valid: true,
        n: 0x0203,
        tail: [4, 5, 6],
    };
    region.write_value(4, &reading).unwrap();
    assert_eq!(region.read_value(4), Some(reading));
    let mut bytes = [0; 16];
    region.read(0, &mut bytes).unwrap();
    let n = reading.n.to_ne_bytes();
    let mut stored = [0xff; 16];
    stored[4..12].copy_from_slice(&[1, 0, n[0], n[1], 4, 5, 6, 0]);
    assert_eq!(bytes, stored);
    // No `bool`.
    region.write(4, &[2]).unwrap();
    assert_eq!(region.read_value::<Reading>(4), None);

    assert_eq!(region.write_value(1, &reading), Err(Misuse::Misaligned));
    assert_eq!(region.write_value(12, &reading), Err(Misuse::OutOfRange));
    let far = usize::MAX & !7;
    assert_eq!(region.write_value(far, &reading), Err(Misuse::OutOfRange));
    assert_eq!(region.write_value(0, &[0u8; 24]), Err(Misuse::OutOfRange));
    assert_eq!(region.read_value::<[u8; 8]>(12), None);
    region.mark_values();
    assert_eq!(region.write_value(4, &reading), Err(Misuse::HoldsValues));
    assert_eq!(region.read_value::<[u8; 8]>(4), None);
}

/// 12 bytes, so that the last 4 of a region of 16 are outside.
struct Twelve;
impl AreaLength for Twelve {
    const BYTES: usize = 12;
}

/// An area refuses what its region would, and what lies behind its own length.
fn an_area_ends_where_it_says<M: Model>() {
    let mut words = [MaybeUninit::new(u64::MAX); 2];
    let mut area = Area::<M, Twelve>::new(Region::new(&mut words)).unwrap();
    let reading = Reading {
        valid: true,
        n: 7,
        tail: [1, 2, 3],
    };
    area.write_value(4, &reading).unwrap();
    assert_eq!(area.read_value(4), Some(reading));
    assert_eq!(area.read_value::<[u8; 4]>(0), Some([0xff; 4]));
    assert_eq!(area.read_value::<bool>(0), None);
    let far = usize::MAX & !7;
    for (at, wrong) in [
        (1, Misuse::Misaligned),
        (8, Misuse::OutOfRange),
        (12, Misuse::OutOfRange),
        (far, Misuse::OutOfRange),
    ] {
        assert_eq!(area.write_value(at, &reading), Err(wrong), "{at}");
        assert_eq!(area.read_value::<Reading>(at), None, "{at}");
    }
    assert_eq!(area.write_value(0, &[0u8; 13]), Err(Misuse::OutOfRange));
    assert!(Area::<M, Twelve>::new(Region::new(&mut words[..1])).is_none());
    let mut region = Region::new(&mut words);
    region.mark_values();
    assert!(Area::<M, Twelve>::new(region).is_none());
}

#[test]
fn areas_end_where_they_say() {
    an_area_ends_where_it_says::<InOrder32>();
    an_area_ends_where_it_says::<InOrder16>();
}

#[test]
fn values_come_back() {
    a_value_comes_back::<InOrder32>();
    a_value_comes_back::<InOrder16>();
    a_value_comes_back::<Buffered32>();
}
