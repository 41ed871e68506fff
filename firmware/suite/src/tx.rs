//! Scenarios of `pmem-tx`.

use crate::abi::section;
use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use core::hint::black_box;
use nvmem::Unit;
use pmem_tx::{Config, Pool};

/// The scenarios of this primitive.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "tx",
            scenarios: &[
                Scenario {
                    name: "update",
                    bytes: 400,
                    run: update,
                },
                Scenario {
                    name: "measure",
                    bytes: 768,
                    run: measure,
                },
            ],
        }
    }
}

const CONFIG: Config = Config {
    journal_entries: 4,
    journal_bytes: 16,
    seq_bits: 16,
};

/// Two numbers that always agree.
fn update<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let mut pool = ok!(
        scene,
        Pool::<[u32; 2], M>::open_with(region, &CONFIG, |_| Ok([0, !0]))
    );
    let [a, b] = ok!(scene, pool.tx(|tx, root| Ok(*root.get(tx))));
    check!(scene, b == !a);
    progress!(scene, a as u16);
    for n in a as u16..scene.rounds(3) {
        ok!(
            scene,
            pool.tx(|tx, root| {
                let both = root.get_mut(tx)?;
                both[0] = u32::from(n) + 1;
                both[1] = !both[0];
                Ok(())
            })
        );
        scene.tell(0, n + 1);
    }
}

/// Figures: what operations cost, in one run from a blank memory to the end.
fn measure<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let Ok((region, plain)) = region.split_at(768 - 8) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let mut pool = ok!(
        scene,
        Pool::<[u32; 2], M>::open_with(region, &CONFIG, |_| Ok([0, 0]))
    );
    scene.measure(section::EMPTY, || ());
    for _ in 0..2 {
        let v = black_box(7u32);
        scene.measure(section::PLAIN_8, || {
            for i in 0..2 {
                let v = if i == 0 { v } else { !v };
                // SAFETY: units of the region, of which nothing is lent.
                unsafe {
                    plain.store(4 * i, v);
                    if M::Unit::BYTES == 2 {
                        plain.store(4 * i + 2, v >> 16);
                    }
                }
            }
        });
        let done = scene.measure(section::UPDATE_8, || {
            pool.tx(|tx, root| {
                let both = root.get_mut(tx)?;
                both[0] = v;
                both[1] = !v;
                Ok(())
            })
        });
        ok!(scene, done);
    }
}
