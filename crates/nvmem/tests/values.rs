//! A region that held typed values is read as bytes only after it was cleared.

use nvmem::device::{Medium, Misuse};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, RegionError};
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
