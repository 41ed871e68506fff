//! Tokens, roots, handles and slots cannot be made by hand.

include!("support/types.rs");

fn token() -> Tx<'static> {
    Tx { level: 0 }
}

fn root(b: PBox<'static, u32>) -> Root<'static, u32> {
    Root(b)
}

fn handle() -> PBox<'static, u32> {
    PBox::from_offset(8)
}

fn held() -> Held<u32> {
    Held::restore(8, 1).unwrap()
}

fn lent<'p>(l: HeldBox<'p, u32>) -> PBox<'p, u32> {
    l.0
}

fn lender<'a, 'p>(tx: &'a Tx<'p>) -> FieldLender<'a, 'p> {
    FieldLender::new(tx)
}

fn main() {}
