//! Functions that never return, futures and statics: a brand holds there, too.

include!("support/types.rs");

/// The shape of a firmware's `main`: no scope ends, and two pools' handles are still two types.
fn two_pools_for_ever(a: &mut Store, b: &mut Store) -> ! {
    let _ = a.tx(|ta, ra| -> Result<(), Error> {
        let mine = ra.get_mut(ta)?;
        b.tx(|tb, rb| -> Result<(), Error> {
            core::mem::swap(&mut mine.child, &mut rb.get_mut(tb)?.child);
            loop {}
        })
    });
    loop {}
}

fn kept_for_ever(a: &mut Store) -> ! {
    let mut _kept = None;
    let _ = a.tx(|tx, root| -> Result<(), Error> {
        _kept = root.get_mut(tx)?.child.take();
        loop {}
    });
    loop {}
}

fn a_nested_root_for_ever(a: &mut Store) -> ! {
    let _ = a.tx(|tx, root| {
        let mut _kept = None;
        tx.nested(root, |ty, inner| -> Result<(), Error> {
            _kept = inner.get_mut(ty)?.child.take();
            loop {}
        })
    });
    loop {}
}

fn a_future(a: &mut Store) {
    let later = a.tx(|tx, root| Ok(async move { root.get(tx).n }));
    drop(later);
}

fn a_static(a: &mut Store) {
    static KEPT: std::sync::Mutex<Option<PBox<'static, Node<'static>>>> = std::sync::Mutex::new(None);
    let _ = a.tx(|tx, root| {
        *KEPT.lock().unwrap() = root.get_mut(tx)?.child.take();
        Ok(())
    });
}

fn main() {}
