// More than 8 bytes of alignment, which no block has.

include!("types.rs");

fn f<'p>(tx: &Tx<'p>) {
    let _ = PBox::new(tx, 1u128);
}

fn g<'p>(tx: &Tx<'p>) {
    let _ = Ptr::new(tx, [1i128; 2]);
}

fn main() {
    let mut words = [core::mem::MaybeUninit::new(0); 64];
    let pool = Pool::<u32>::open(Region::<InOrder32>::new(&mut words), |tx| {
        f(tx);
        g(tx);
        Ok(1)
    });
    let _ = pool;
}
