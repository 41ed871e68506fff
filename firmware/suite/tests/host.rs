//! Every scenario on every mapped model, with two power cuts: the mailbox, and what the devices on
//! the bench keep, are the world that survives them.

use nvmem::{Buffered32, InOrder16, InOrder32};
use powerfail::{Explore, Mapped, World, explore_with};
use relume_models::Bench;
use relume_models::bench::KEPT;
use relume_suite::{Mailbox, Scenario, Scene, abi};
use std::cell::RefCell;

/// The mailbox's cells.
type Cells = [u16; abi::cell::COUNT as usize];

/// What survives a power cut.
#[derive(Clone, Hash, Debug, Default)]
struct Outside {
    cells: Cells,
    kept: [u8; KEPT],
}

struct OnWorld<'w, 'r> {
    world: &'w World<'r, Outside>,
    bench: RefCell<Bench>,
}

impl<'w, 'r> OnWorld<'w, 'r> {
    fn new(world: &'w World<'r, Outside>) -> Self {
        let mut bench = Bench::new();
        bench.power_on(&world.with(|o| o.kept));
        let bench = RefCell::new(bench);
        OnWorld { world, bench }
    }

    /// An access to a device: the power may fail before and after it.
    fn access<O>(&self, f: impl FnOnce(&mut Bench) -> O) -> O {
        let mut bench = self.bench.borrow_mut();
        let o = f(&mut bench);
        let kept = bench.kept();
        self.world.update(|o| o.kept = kept);
        assert_eq!(Bench::mistake(&kept), None);
        o
    }
}

impl Mailbox for OnWorld<'_, '_> {
    fn read_cell(&self, cell: u16) -> u16 {
        self.world.with(|o| o.cells[usize::from(cell)])
    }
    fn write_cell(&self, cell: u16, value: u16) {
        self.world.update(|o| o.cells[usize::from(cell)] = value)
    }
    fn read_register(&self, register: u16) -> u16 {
        self.access(|bench| bench.read(register))
    }
    fn write_register(&self, register: u16, value: u16) {
        self.access(|bench| bench.write(register, value))
    }
}

/// One scenario with an argument.
fn campaign<M: relume_suite::Mapped>(
    s: &'static Scenario<M>,
    argument: u16,
) -> Explore<Mapped<M>, Outside> {
    let mut outside = Outside::default();
    outside.cells[usize::from(abi::cell::ARGUMENT)] = argument;
    explore_with(s, Mapped::<M>::new(s.bytes), |nv, world, s| {
        (s.run)(&mut Scene::new(nv, &OnWorld::new(world)))
    })
    .world(outside)
    .name(&format!("{}-{argument}-{}", s.name, M::NAME))
}

fn all<M: relume_suite::Mapped>() {
    for group in relume_suite::groups::<M>() {
        if group.primitive == "nv-rtos" {
            // The kernel has no port for a host here; its own tests bring one.
            continue;
        }
        if M::BUFFERED
            && ["planted", "vnv-heap", "checkpoint", "nv-mirror"].contains(&group.primitive)
        {
            // Protocols without fences, for machines that store in order; and what the heap's own
            // tests run on a buffered medium, where a format alone has some 100,000 states.
            continue;
        }
        for s in group.scenarios {
            // Without the interrupts, which a host does not have, one cut is enough. Programs with
            // devices make two on a buffered medium in the tests of `nv-device`.
            let few = M::BUFFERED && abi::needs_bench(group.name);
            let depth = if cfg!(miri) || s.measures || s.interrupts || few {
                1
            } else {
                2
            };
            let n = campaign(s, 0).depth(depth).run();
            println!("{}/{}: {n}", group.name, s.name);
            assert!(n.boots > if s.measures { 1 } else { 5 }, "{}: {n}", s.name);
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

/// What only machine code shows, the host does not: each such bug passes where its author tested. A
/// crate that is used wrongly shows on the host, too.
#[test]
fn planted_bugs_on_a_host() {
    for bug in relume_suite::planted::BUGS {
        let none_here = ["checkpoint", "switch", "threads", "rtos"];
        if none_here.iter().any(|group| bug.group.starts_with(group)) || bug.both {
            // What is wrong there is in registers and in the stack, or needs an interrupt.
            continue;
        }
        let groups = relume_suite::groups::<InOrder32>();
        let group = groups.iter().find(|g| g.name == bug.group);
        let all = group.expect("a group").scenarios;
        let s = all.iter().find(|s| s.name == bug.scenario);
        let s = campaign(s.expect("a scenario of the group"), bug.number).depth(2);
        if bug.group == "planted" {
            let s = s.run();
            assert!(s.boots > 5, "{}: {s}", bug.what);
        } else {
            match s.try_run() {
                Ok(s) => assert!(s.partial, "not found: {}: {s}", bug.what),
                Err(f) => assert!(f.cuts() > 0, "{}: {}", bug.what, f.report()),
            }
        }
    }
}

/// Names are unique, and the mailbox's index reaches them all.
#[test]
fn names() {
    let mut names: Vec<_> = relume_suite::scenarios::<InOrder32>()
        .map(|s| (s.1, s.0))
        .collect();
    let n = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), n);
    for m in abi::MACHINES {
        assert_eq!(m.nvm_len as usize, abi::NVM_BYTES);
    }
    for s in relume_suite::groups::<InOrder32>() {
        assert!(s.scenarios.iter().all(|s| s.bytes <= abi::NVM_BYTES));
    }
}

#[test]
fn each_group_has_an_image() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/src/bin");
    let files = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut wanted: Vec<_> = relume_suite::groups::<InOrder32>()
        .iter()
        .map(|g| format!("image-{}.rs", g.name))
        .collect();
    wanted.sort();
    assert_eq!(files, wanted);
}
