//! Rule 3: a type that does not survive a power cut cannot be stored.

include!("support/types.rs");

fn a_reference<'p>(tx: &Tx<'p>, x: &'static u32) {
    let _ = PBox::new(tx, x);
}

fn counted<'p>(tx: &Tx<'p>) {
    let _ = PBox::new(tx, std::rc::Rc::new(1u32));
}

fn a_function<'p>(tx: &Tx<'p>, x: fn()) {
    let _ = Ptr::new(tx, x);
}

fn a_cell<'p>(tx: &Tx<'p>) {
    let _ = PBox::new(tx, [std::cell::Cell::new(1u32)]);
}

fn a_held_handle<'p>(tx: &Tx<'p>, h: Held<u32>) {
    let _ = PBox::new(tx, h);
}

fn a_token<'p>(tx: &'p Tx<'p>) {
    let _ = PBox::new(tx, tx);
}

fn a_number_of_the_machine<'p>(root: &mut Root<'p, usize>, tx: &Tx<'p>) {
    let _ = root.get(tx);
}

fn a_root(_: Pool<std::sync::atomic::AtomicU32>) {}

fn main() {}
