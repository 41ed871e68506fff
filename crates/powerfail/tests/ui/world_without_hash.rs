//! A world that cannot be told from another one.
use powerfail::{Mapped, World, explore};

#[derive(Clone, Debug, Default)]
struct Sent(u32);

fn main() {
    explore(
        Mapped::<nvmem::InOrder32>::new(64),
        |_, world: &World<Sent>| world.set(Sent(1)),
    )
    .run();
}
