//! A world that cannot go to the other threads of a campaign.
use powerfail::{Mapped, World, explore};
use std::rc::Rc;

fn program(_: nvmem::Region<'_, nvmem::InOrder32>, world: &World<'_, Rc<u32>>) {
    world.set(Rc::new(1));
}

fn main() {
    explore(Mapped::<nvmem::InOrder32>::new(64), program).run();
}
