//! Rule 1 holds for every function that takes a body.

include!("support/types.rs");

fn tx_with(pool: &mut Store) {
    let mut out = None;
    let _ = pool.tx_with(1u32, |tx, root, _| {
        out = root.get_mut(tx)?.child.take();
        Ok(())
    });
}

fn tx_own(pool: &mut Store) {
    let mut out = None;
    let _ = pool.tx_own::<_, u32, _>((), |tx, root, ()| {
        out = root.get_mut(tx)?.child.take();
        Ok(1)
    });
}

fn prepare(mut context: Context<Top<'static>>) {
    let mut out = None;
    let _ = context.prepare::<_, u32, _>((), |tx, root, ()| {
        out = root.get_mut(tx)?.child.take();
        Ok(1)
    });
}

fn nested<'p>(tx: &Tx<'p>, root: &mut Root<'p, Top<'p>>) {
    let mut out = None;
    let _ = tx.nested(root, |tx, root| {
        out = root.get_mut(tx)?.child.take();
        Ok(())
    });
}

fn nested_result<'p>(tx: &Tx<'p>, root: &mut Root<'p, Top<'p>>) {
    let _ = tx.nested(root, |tx, root| Ok(root.get_mut(tx)?.child.take()));
}

fn init(region: Region<InOrder32>) {
    let mut out = None;
    let _ = Pool::<u32>::open(region, |tx| {
        out = Some(PBox::new(tx, 1u32)?);
        Ok(1)
    });
}

fn migrate(region: Region<InOrder32>) {
    let mut out = None;
    let _ = Pool::<u32>::migrate::<N, _, _>(
        region,
        &Config::DEFAULT,
        |_| Ok(1),
        |_, old| {
            out = Some(old);
            Ok(1)
        },
    );
}

fn main() {}
