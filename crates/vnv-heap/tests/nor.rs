//! A heap on NOR flash, through `nvmem`'s wear levelling: both promises under power cuts, with torn words that read differently
//! each time and interrupted erases.

#[path = "crash/support.rs"]
#[allow(dead_code)]
mod support;

use nvmem::device::{Contract, EraseUnit};
use nvmem::level::WearLevelled;
use powerfail::{Chip, Simulated, SpiNor, World, explore_with};
use support::{Known, Op, Save, program};
use vnv_heap::{JustInTime, Snapshot};

/// A small flash.
enum Small {}
impl Chip for Small {
    const CONTRACT: Contract = Contract {
        erase: Some(EraseUnit {
            size: 512,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
        write_size: 32,
        ..SpiNor::CONTRACT
    };
    const PAGE: u32 = 32;
}

/// One cut deep: two cuts on flash are judged in `nvmem`, below this; on bytes they are in the crash tests beside this.
fn on_flash<P: Save>(ops: &[Op]) {
    let flash = Simulated::<Small>::new(8 * 512);
    let s = explore_with(ops.to_vec(), flash, |nv, w: &World<Known>, ops| {
        let mut table = [0; 64];
        let nv = WearLevelled::<_, 88>::open(nv, &mut table).expect("nothing but power cuts");
        program::<P, _>(nv, w, ops)
    })
    .depth(1)
    .run();
    println!("{s}");
    assert!(s.part || s.boots > 50, "{s}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn just_in_time() {
    on_flash::<JustInTime>(&[Op::Push(1), Op::Blob(2), Op::Pop]);
}

#[test]
#[cfg_attr(miri, ignore)]
fn snapshot() {
    on_flash::<Snapshot>(&[Op::Push(1), Op::Blob(2), Op::Pop]);
}
