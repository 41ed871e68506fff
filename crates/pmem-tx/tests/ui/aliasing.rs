//! Never two live `&mut` to one object, nor a `&` beside one.

include!("support/types.rs");

fn twice(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let a = root.get_mut(tx)?;
        let b = root.get_mut(tx)?;
        a.n = b.n;
        Ok(())
    });
}

fn read_and_write(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let a = root.get(tx);
        root.get_mut(tx)?.n = 2;
        assert!(a.n == 2);
        Ok(())
    });
}

fn a_child_twice(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let top = root.get_mut(tx)?;
        let a = top.child.as_mut().unwrap().get_mut(tx)?;
        let b = top.child.as_mut().unwrap().get_mut(tx)?;
        a.v = b.v;
        Ok(())
    });
}

fn freed_while_borrowed(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        let mut b = PBox::new(tx, 1u32)?;
        let x = b.get_mut(tx)?;
        b.free(tx)?;
        *x = 1;
        Ok(())
    });
}

fn taken_while_borrowed(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let top = root.get_mut(tx)?;
        let a = top.child.as_mut().unwrap().get_mut(tx)?;
        top.other = top.child.take();
        a.v = 1;
        Ok(())
    });
}

fn an_object_inside_itself(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        let mut n = PBox::new(tx, Node { v: 1, next: None })?;
        n.get_mut(tx)?.next = Some(n);
        Ok(())
    });
}

fn an_element_twice(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        let mut b = PBox::new(tx, [0u32; 4])?;
        let x = b.at_mut(tx, 1)?;
        let y = b.at_mut(tx, 1)?;
        *x = *y;
        Ok(())
    });
}

fn a_cell_replaced_while_read(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let c = root.get_mut(tx)?.cell.as_mut().unwrap();
        let x = c.get(tx);
        c.write(tx, 2)?;
        assert!(*x == 2);
        Ok(())
    });
}

fn main() {}
