//! The scenarios that run on a host, with two power cuts, and the images of all groups. The mailbox
//! is the world that survives a cut.

use lab_suite::groups;
use nvmem::{Buffered32, InOrder16, InOrder32};
use powerfail::{Mapped, World, explore_with};
use relume_suite::{Mailbox, Scene, abi};

/// The mailbox's cells.
type Cells = [u16; abi::cell::COUNT as usize];

struct OnWorld<'w, 'r>(&'w World<'r, Cells>);

impl Mailbox for OnWorld<'_, '_> {
    fn read_cell(&self, cell: u16) -> u16 {
        self.0.with(|cells| cells[usize::from(cell)])
    }
    fn write_cell(&self, cell: u16, value: u16) {
        self.0.update(|cells| cells[usize::from(cell)] = value)
    }
    fn read_register(&self, register: u16) -> u16 {
        panic!("register {register} of a bench that is not there")
    }
    fn write_register(&self, register: u16, _: u16) {
        panic!("register {register} of a bench that is not there")
    }
}

/// The kernel has no port for a host here: `lab/programs` brings one for its own tests. Some cuts
/// of `rsa` leave so many states on a medium of 16 bits that all of them take ten minutes: some of
/// them in each run, and all in a long one.
fn all<M: relume_suite::Mapped>() {
    for group in groups::<M>().iter().filter(|g| g.primitive != "nv-rtos") {
        for s in group.scenarios {
            let depth = if M::BUFFERED { 1 } else { 2 };
            let n = explore_with(s, Mapped::<M>::new(s.bytes), |nv, world, s| {
                (s.run)(&mut Scene::new(nv, &OnWorld(world)))
            })
            .world([0; abi::cell::COUNT as usize])
            .name(&format!("{}-{}", s.name, M::NAME))
            .depth(depth)
            .sample(64)
            .run();
            println!("{}/{}: {n}", group.name, s.name);
            assert!(n.boots > 5, "{}: {n}", s.name);
        }
    }
}

#[test]
fn in_order_16() {
    all::<InOrder16>();
}

#[test]
fn in_order_32() {
    all::<InOrder32>();
}

#[test]
fn buffered_32() {
    all::<Buffered32>();
}

#[test]
fn each_group_has_an_image() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/src/bin");
    let files = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let each = groups::<InOrder32>();
    let mut wanted: Vec<_> = each
        .iter()
        .map(|g| format!("image-{}.rs", g.name))
        .collect();
    wanted.sort();
    assert_eq!(files, wanted);
}
