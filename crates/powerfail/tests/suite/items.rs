//! A program that is a function item, generic or not.

use nvmem::{Buffered32, InOrder32, Medium, Model, Region};
use powerfail::{
    Chip, Device, EveryEvents, Mapped, Mram16, Simulated, SpiFram, World, endure, explore,
    explore_with,
};

fn mapped<M: Model>(nv: Region<'_, M>, world: &World<'_, u32>) {
    // SAFETY: offset 0 is a unit of the region, and no reference to it exists.
    let n = unsafe { nv.load(0) };
    if n < 3 {
        // SAFETY: as above.
        unsafe { nv.store(0, n + 1) };
        world.acknowledge(n + 1);
    }
}

fn device<C: Chip>(mut nv: Device<'_, C>, world: &World<'_, u32>) {
    let mut b = [0; 16];
    Medium::read(&mut nv, 0, &mut b).unwrap();
    world.set(b[0].into());
    Medium::write(&mut nv, 0, &[1; 16]).unwrap();
}

fn given<M: Model>(nv: Region<'_, M>, world: &World<'_, u32>, _: &u8) {
    mapped(nv, world)
}

#[test]
fn a_function_item_is_a_program() {
    fn all<M: Model>() {
        explore(Mapped::<M>::new(64), mapped::<M>).run();
        explore(Mapped::<M>::new(64), mapped).run();
        explore_with(1, Mapped::<M>::new(64), given::<M>).run();
        endure(Mapped::<M>::new(64), EveryEvents(4), mapped::<M>, |n| *n)
            .boots(20)
            .run();
    }
    all::<InOrder32>();
    all::<Buffered32>();
    explore(Simulated::<Mram16>::new(64), device::<Mram16>).run();
    explore(Simulated::<SpiFram>::new(64), device).run();
}
