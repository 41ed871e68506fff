//! A world that cannot go to the other threads of a campaign.
use powerfail::{Mapped, World, explore};

#[derive(Clone, Hash, Debug)]
struct Seen(*const u32);

impl Default for Seen {
    fn default() -> Self {
        Seen(std::ptr::null())
    }
}

fn program(_: nvmem::Region<'_, nvmem::InOrder32>, world: &World<'_, Seen>) {
    world.set(Seen(&1));
}

fn main() {
    explore(Mapped::<nvmem::InOrder32>::new(64), program).run();
}
