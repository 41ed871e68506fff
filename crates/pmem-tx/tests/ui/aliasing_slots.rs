//! Slots: one way to a field at a time.

include!("support/types.rs");

fn read_and_write(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let x = s.n.get();
        *s.n.get_mut()? = 1;
        assert!(*x == 1);
        Ok(())
    });
}

fn written_twice(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let x = s.n.get_mut()?;
        let y = s.n.get_mut()?;
        *x = *y;
        Ok(())
    });
}

fn used_up(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let s = root.fields(tx);
        let x = s.n.into_mut()?;
        let y = s.n.into_mut()?;
        *x = *y;
        Ok(())
    });
}

fn slots_of_two_calls(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let a = root.fields(tx);
        let b = root.fields(tx);
        *a.n.into_mut()? = *b.n.get();
        Ok(())
    });
}

fn slots_and_the_whole(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let a = root.fields(tx);
        root.get_mut(tx)?.n = 1;
        *a.n.into_mut()? = 2;
        Ok(())
    });
}

fn an_element_twice(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let x = s.last.at_mut(1)?;
        let y = s.last.at_mut(1)?;
        *x = *y;
        Ok(())
    });
}

fn an_element_and_the_array(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let x = s.last.at(1)?;
        s.last.set([0; 4])?;
        assert!(*x == 0);
        Ok(())
    });
}

fn followed_twice(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let mut a = s.child.follow().unwrap();
        let mut b = s.child.follow().unwrap();
        a.get_mut()?.v = b.get_mut()?.v;
        Ok(())
    });
}

fn followed_and_taken(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let a = s.child.follow().unwrap().into_mut()?;
        let gone = s.child.get_mut()?.take();
        a.v = gone.is_some() as u32;
        Ok(())
    });
}

fn open_across_a_nested_one(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        tx.nested(root, |tx, root| {
            root.get_mut(tx)?.n = 1;
            Ok(())
        })?;
        s.n.set(2)?;
        Ok(())
    });
}

fn a_cell_replaced_while_read(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let x = s.cell.get().as_ref().unwrap().get(tx);
        s.cell.write(2)?;
        assert!(*x == 2);
        Ok(())
    });
}

fn main() {}
