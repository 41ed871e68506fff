//! How fast `powerfail` explores on one core: 1 KiB of memory, the real `open` of `pmem-tx`, and
//! seven transactions of seven stores each. In seconds of processor time, so that what else the
//! machine does is not counted.

use nvmem::{InOrder32, Region};
use pmem_tx::Pool;
use powerfail::{Mapped, World, explore};
use std::mem::MaybeUninit;

/// The version that is committed, in each of two numbers.
type Root = [u32; 2];

const LAST: u32 = 7;

fn open(region: Region<'_, InOrder32>) -> Pool<'_, Root> {
    match Pool::open(region, |_| Ok([0; 2])) {
        Ok(p) => p,
        Err(e) => panic!("{}", e.error),
    }
}

/// The world: the version acknowledged last, and how many boots there were, so that few states are
/// the same and most are booted.
fn program(nv: Region<'_, InOrder32>, world: &World<'_, (u32, u32)>) {
    world.update(|w| w.1 += 1);
    let mut pool = open(nv);
    loop {
        let numbers = pool.tx(|tx, root| Ok(*root.get(tx)));
        let n = numbers.map(|all| (all[0], all[0] == all[1]));
        let Ok((n, true)) = n else {
            panic!("half a transaction: {numbers:?}");
        };
        assert!(n >= world.get().0, "a commit was lost");
        world.update(|w| w.0 = n);
        if n == LAST {
            return;
        }
        let done = pool.tx(|tx, root| {
            root.get_mut(tx)?.fill(n + 1);
            Ok(())
        });
        assert_eq!(done, Ok(()));
    }
}

fn main() {
    let mut memory = [const { MaybeUninit::<u64>::new(0) }; 128];
    let region = open(Region::new(&mut memory)).close();
    // SAFETY: inside of the region, aligned, and nothing is lent.
    let word = |i: usize| unsafe { region.load(i * 4) }.to_le_bytes();
    let image: Vec<u8> = (0..256).flat_map(word).collect();

    let (mut cuts, mut boots) = (0, 0);
    let start = processor_seconds();
    let seconds = loop {
        let s = explore(Mapped::<InOrder32>::with_image(image.clone()), |nv, w| {
            program(nv, w)
        })
        .name("speed")
        .depth(2)
        .threads(1)
        .run();
        cuts += s.cuts;
        boots += s.boots;
        let spent = processor_seconds() - start;
        if spent > 2.0 {
            break spent;
        }
    };
    println!("powerfail.cuts_per_second {:.0}", cuts as f64 / seconds);
    println!("powerfail.boots_per_second {:.0}", boots as f64 / seconds);
}

/// What this process has used, in user and system mode; Linux counts it in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}
