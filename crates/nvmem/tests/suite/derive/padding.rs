//! Padding: every byte is initialised before it is read as a byte. Miri detects bytes that were
//! not.

use core::mem::{MaybeUninit, offset_of};
use nvmem::persist::to_bytes;
use nvmem::{Maybe, Persist, Plain};

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Gaps {
    a: u8,
    b: u32,
    c: u16,
    d: u64,
    e: u8,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Pair<A, B>(A, B);

#[derive(Persist, Clone, Copy)]
#[repr(C, align(8))]
struct Wide(u8);

#[derive(Persist, Clone, Copy)]
#[repr(transparent)]
struct Wrapped(Pair<u8, u16>);

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Own {
    A = 1,
    B(u8, u32, u8),
    C { gaps: Gaps },
    D(Maybe<u16>),
}

#[derive(Persist, Clone, Copy)]
#[repr(C, u8)]
enum Apart<T> {
    A = 1,
    B(u8, T),
    C(u16),
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Empty;

const GAPS: Gaps = Gaps {
    a: 0x11,
    b: 0x1111_1111,
    c: 0x1111,
    d: 0x1111_1111_1111_1111,
    e: 0x11,
};

/// `.` is padding, `#` is data; data bytes are never zero.
fn map<T: Plain>(v: T) -> String {
    map_after(0, v)
}

/// The same for a value that begins with `kept` bytes that may be zero.
fn map_after<T: Plain>(kept: usize, v: T) -> String {
    let n = size_of::<T>();
    let mut buf = [MaybeUninit::uninit(); 256];
    let clean = to_bytes(v, &mut buf).unwrap().to_vec();
    let shown: String = clean
        .iter()
        .map(|&b| if b == 0 { '.' } else { '#' })
        .collect();

    // The same in memory with other content before.
    let mut place = MaybeUninit::<T>::uninit();
    let p: *mut u8 = place.as_mut_ptr().cast();
    for (i, &b) in clean.iter().enumerate() {
        // SAFETY: inside `place`.
        unsafe { p.add(i).write(if b == 0 && i >= kept { 0xee } else { b }) }
    }
    // SAFETY: `place` holds the value's bytes; its padding has any value.
    let again = unsafe {
        T::clear_padding(p);
        core::slice::from_raw_parts(p, n).to_vec()
    };
    assert_eq!(again, clean);
    shown
}

#[test]
fn structs() {
    assert_eq!(
        map(GAPS),
        "#...######......########".to_string() + "#......."
    );
    assert_eq!(map(Pair(1u8, 0x0101u16)), "#.##");
    assert_eq!(
        map(Pair(Pair(1u8, 0x0101u16), 0x0101_0101_0101_0101u64)),
        "#.##....########"
    );
    assert_eq!(map(Pair([Pair(1u8, 0x0101u16); 2], 1u8)), "#.###.###.");
    assert_eq!(map(Pair([(); 3], 1u8)), "#");
    assert_eq!(map(Wide(1)), "#.......");
    assert_eq!(map(Wrapped(Pair(1, 0x0101))), "#.##");
    assert_eq!(map(Empty), "");
}

#[test]
fn enums() {
    assert_eq!(offset_of!(Gaps, d), 16);
    assert_eq!(map(Own::A), format!("#{}", ".".repeat(39)));
    let b = Own::B(1, 0x0101_0101, 1);
    assert_eq!(map(b), format!("##..#####{}", ".".repeat(31)));
    let c = Own::C { gaps: GAPS };
    assert_eq!(map(c), "#.......#...######......#########.......");
    let some = Own::D(Maybe::Some(0x0101));
    assert_eq!(map(some), format!("#.#.##{}", ".".repeat(34)));
    let none = Own::D(Maybe::None);
    assert_eq!(map_after(3, none), format!("#{}", ".".repeat(39)));

    assert_eq!(map(Apart::<u32>::A), "#...........");
    assert_eq!(map(Apart::B(1, 0x0101_0101u32)), "#...#...####");
    assert_eq!(map(Apart::<u32>::C(0x0101)), "#...##......");
    assert_eq!(map(Apart::B(1, Apart::B(1, 0x0101u16))), "#.#.#.#.##");
}

#[test]
fn options() {
    assert_eq!(map_after(1, Maybe::<u64>::None), ".".repeat(16));
    assert_eq!(
        map(Maybe::Some(0x0101_0101_0101_0101u64)),
        "#.......########"
    );
    assert_eq!(map(Maybe::Some(Maybe::Some(0x0101u16))), "#.#.##");
    assert_eq!(map_after(3, Maybe::Some(Maybe::<u16>::None)), "#.....");
    assert_eq!(map([Maybe::Some(Pair(1u8, 0x0101u16)); 2]), "#.#.###.#.##");
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Sum(u32, u16, u8, bool);

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Even {
    A(u8, [u8; 2]) = 1,
    B([u8; 3]),
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Plainly {
    A,
    B,
}

/// `PADDED` agrees with the padding of values.
fn says<T: Plain + Copy>(values: &[T]) {
    let any = values.iter().any(|v| map(*v).contains('.'));
    assert_eq!(T::PADDED, any, "{}", core::any::type_name::<T>());
}

#[test]
fn padded_is_true_only_with_padding() {
    says(&[GAPS]);
    says(&[Pair(1u8, 0x0101u16)]);
    says(&[Pair(0x0101u16, 0x0101u16)]);
    says(&[Pair(Pair(1u8, 0x0101u16), 0x0101u16)]);
    says(&[Pair([Pair(1u8, 1u8); 2], 1u8)]);
    says(&[Pair([Pair(0x0101u16, 1u8); 2], 0x0101u16)]);
    says(&[Pair([(); 3], 1u8)]);
    says(&[Wide(1)]);
    says(&[Wrapped(Pair(1, 0x0101))]);
    says(&[Empty]);
    says(&[Sum(0x0101_0101, 0x0101, 1, true)]);
    says(&[Even::A(1, [1; 2]), Even::B([1; 3])]);
    says(&[Apart::<u32>::A, Apart::B(1, 0x0101_0101), Apart::C(0x0101)]);
    says(&[Own::A, Own::D(Maybe::Some(0x0101))]);
    // `None` has only a tag.
    const { assert!(<Maybe<u8>>::PADDED) };
    says(&[Maybe::Some(())]);
    says(&[1u8]);
    says(&[[0x0101u16; 3]]);
    const { assert!(!Plainly::PADDED && !<[Gaps; 0]>::PADDED) };
    assert_eq!([Plainly::A as u8, Plainly::B as u8], [0, 1]);
}
