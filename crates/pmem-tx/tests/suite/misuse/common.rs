// The types, for one model `M` with handles of width `W`.

type Box<'p, T> = PBox<'p, T, W>;
type H<T> = Held<T, W>;
#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    v: u32,
    next: Option<Box<'p, Node<'p>>>,
}
#[derive(Persist)]
#[repr(C)]
struct Top<'p> {
    n: u32,
    a: Option<Box<'p, Node<'p>>>,
    b: Option<Box<'p, Node<'p>>>,
    cell: Option<Ptr<'p, [bool; 3], W>>,
}
type T = Top<'static>;
type N = Node<'static>;
type P<'m> = Pool<'m, T, M>;

fn open<'m>(region: Region<'m, M>) -> P<'m> {
    Pool::open(region, |_| {
        Ok(Top {
            n: 7,
            a: None,
            b: None,
            cell: None,
        })
    })
    .unwrap()
}
fn node(pool: &mut P<'_>, v: u32) -> H<N> {
    pool.tx_own((), |tx, _, ()| PBox::new(tx, Node { v, next: None }))
        .unwrap()
}

trait FreeTree<'p> {
    fn free_tree(self, tx: &pmem_tx::Tx<'p, M>) -> Result<(), Error>;
}
impl<'p> FreeTree<'p> for Box<'p, Node<'p>> {
    fn free_tree(self, tx: &pmem_tx::Tx<'p, M>) -> Result<(), Error> {
        let mut at = Some(self);
        while let Some(b) = at {
            at = b.into_inner(tx)?.next;
        }
        Ok(())
    }
}
