//! Threads of a campaign come from `World::threads`, not from the host.
use powerfail::{Mapped, World, explore};

fn program(_: nvmem::Region<'_, nvmem::InOrder32>, world: &World<'_, u32>) {
    std::thread::scope(|s| {
        s.spawn(|| world.update(|n| *n += 1));
    });
}

fn main() {
    explore(Mapped::<nvmem::InOrder32>::new(64), program).run();
}
