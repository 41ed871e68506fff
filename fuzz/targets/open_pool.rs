//! Any bytes as a pool: `open` gives an error value, or a working pool.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvmem::{InOrder16, InOrder32, Maybe, Persist, Region};
use pmem_tx::{PBox, Pool, Ptr};
use relume_fuzz::{attack, blank, bytes, bytes_mut, seeds_of_both};
use std::sync::LazyLock;

const BYTES: usize = 1024;

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Mode {
    Idle,
    Busy(bool),
    Gone { letter: char } = 7,
}

macro_rules! target {
    ($name:ident, $model:ty, $w:ty) => {
        mod $name {
            use super::*;

            #[derive(Persist)]
            #[repr(C)]
            struct Node<'p> {
                mode: Mode,
                value: u32,
                next: Option<PBox<'p, Node<'p>, $w>>,
                table: Option<PBox<'p, [Maybe<u16>; 6], $w>>,
            }

            #[derive(Persist)]
            #[repr(C)]
            struct Top<'p> {
                count: u32,
                list: Option<PBox<'p, Node<'p>, $w>>,
                cell: Option<Ptr<'p, [bool; 3], $w>>,
            }

            type P<'m> = Pool<'m, Top<'static>, $model>;

            fn open<'m>(region: Region<'m, $model>) -> Option<P<'m>> {
                Pool::open(region, |tx| {
                    Ok(Top {
                        count: 0,
                        list: None,
                        cell: Some(Ptr::new(tx, [true, false, true])?),
                    })
                })
                .ok()
            }

            /// Adds a node; the pool may be full.
            fn push(pool: &mut P<'_>, value: u32) {
                let _ = pool.tx(|tx, root| {
                    let top = root.get_mut(tx)?;
                    let table = match value % 2 {
                        0 => None,
                        _ => Some(PBox::new(tx, [Maybe::Some(value as u16); 6])?),
                    };
                    let mode = match value % 3 {
                        0 => Mode::Idle,
                        1 => Mode::Busy(true),
                        _ => Mode::Gone { letter: 'x' },
                    };
                    let node = Node {
                        mode,
                        value,
                        next: top.list.take(),
                        table,
                    };
                    top.list = Some(PBox::new(tx, node)?);
                    top.count = top.count.wrapping_add(1);
                    Ok(())
                });
            }

            /// Reads all reachable values. A value with invalid bits would be undefined behaviour
            /// here.
            fn read(pool: &mut P<'_>) -> (usize, u32) {
                pool.tx(|tx, root| {
                    let top = root.get(tx);
                    let (mut n, mut sum) = (0, top.count);
                    let mut at = &top.list;
                    while let Some(node) = at {
                        let node = node.get(tx);
                        n += 1;
                        sum = sum.wrapping_add(node.value).wrapping_add(match node.mode {
                            Mode::Idle => 1,
                            Mode::Busy(b) => u32::from(b),
                            Mode::Gone { letter } => u32::from(letter),
                        });
                        if let Some(t) = &node.table {
                            for m in t.get(tx) {
                                if let Maybe::Some(v) = m {
                                    sum = sum.wrapping_add(u32::from(*v));
                                }
                            }
                        }
                        at = &node.next;
                    }
                    if let Some(c) = &top.cell {
                        sum = sum.wrapping_add(c.get(tx).iter().map(|b| u32::from(*b)).sum());
                    }
                    Ok((n, sum))
                })
                .expect("reading fails only when a value is invalid")
            }

            /// Changes, frees and aborts: none may panic; the pool may be full.
            fn work(pool: &mut P<'_>) {
                push(pool, 4);
                push(pool, 5);
                let _ = pool.tx(|tx, root| {
                    let top = root.get_mut(tx)?;
                    if let Some(c) = &mut top.cell {
                        c.write(tx, [false; 3])?;
                    }
                    if let Some(first) = top.list.take() {
                        let node = first.into_inner(tx)?;
                        if let Some(t) = node.table {
                            t.free(tx)?;
                        }
                        top.list = node.next;
                    }
                    Ok(())
                });
                let _ = pool.tx::<(), _>(|tx, root| {
                    root.get_mut(tx)?.count = 9;
                    Err(tx.abort(1))
                });
            }

            pub static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
                let mut words = blank(BYTES);
                let mut pool = open(Region::new(&mut words)).expect("a blank region is formatted");
                for v in 1..8 {
                    push(&mut pool, v);
                }
                drop(pool);
                bytes(&words).to_vec()
            });

            pub fn run(change: impl FnOnce(&mut [u8])) {
                let mut words = blank(BYTES);
                let image = bytes_mut(&mut words);
                image.copy_from_slice(&SOUND);
                change(image);
                let Some(mut pool) = open(Region::new(&mut words)) else {
                    return;
                };
                pool.audit().expect("an opened pool is sound");
                let before = read(&mut pool);
                let mut pool = open(pool.close()).expect("what was opened opens again");
                assert_eq!(read(&mut pool), before, "opening changed the content");
                work(&mut pool);
                let after = read(&mut pool);
                pool.audit().expect("sound after work");
                let mut pool = open(pool.close()).expect("opens after work");
                assert_eq!(read(&mut pool), after, "a commit was lost");
            }
        }
    };
}
target!(narrow, InOrder16, u16);
target!(wide, InOrder32, u32);

fuzz_target!(
    init: seeds_of_both(&narrow::SOUND, &wide::SOUND),
    |data: &[u8]| attack(data, |wide, change| match wide {
        false => narrow::run(change),
        true => wide::run(change),
    })
);
