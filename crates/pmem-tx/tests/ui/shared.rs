//! A shared root is reached through `&mut` to its key and by no other way.

use pmem_tx::{Contexts, Pool, Shared, Sharing};
use std::sync::Mutex;

type Both = Pool<'static, Sharing<(u32,), Contexts<(u8, u16)>>>;

fn without_a_lock(pool: &mut Both) {
    let Ok(((mut a, _), (board,))) = pool.share() else {
        return;
    };
    let _ = a.tx_with(&board, |tx, _, board| Ok(*board.get(tx)));
}

fn twice(pool: &mut Both) {
    let Ok(((mut a, _), (mut board,))) = pool.share() else {
        return;
    };
    let _ = a.tx_with((&mut board, &mut board), |_, _, _| Ok(()));
}

fn kept(pool: &mut Both) {
    let Ok(((mut a, _), (mut board,))) = pool.share() else {
        return;
    };
    let mut out = None;
    let _ = a.tx_with(&mut board, |_, _, board| {
        out = Some(board);
        Ok(())
    });
}

fn two_keys(pool: &mut Both) {
    let Ok((_, (mut board,))) = pool.share() else {
        return;
    };
    let Ok((_, (mut again,))) = pool.share() else {
        return;
    };
    core::mem::swap(&mut board, &mut again);
}

fn key_of_another_root(pool: &mut Pool<'static, Sharing<(u32, i32), Contexts<(u8, u16)>>>) {
    let Ok((_, (mut board, mut other))) = pool.share() else {
        return;
    };
    core::mem::swap(&mut board, &mut other);
}

fn lock_in_a_body(pool: &mut Both) {
    let Ok(((mut a, _), (board,))) = pool.share() else {
        return;
    };
    let board = Mutex::new(board);
    let _ = a.tx(|_, _| {
        let Ok(mut board) = board.lock() else {
            return Ok(());
        };
        a.tx_with(&mut *board, |_, _, _| Ok(())).map_err(|f| f.error)
    });
}

fn copied(key: &Shared<'static, u32>) -> Shared<'static, u32> {
    key.clone()
}

fn main() {}
