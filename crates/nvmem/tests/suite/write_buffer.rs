//! A driver with an in-order write buffer that is written at a flush or an erase. A write
//! acknowledged before a flush would be lost.

use crate::support::{Promise, Tiny};
use nvmem::device::{Contract, Medium};
use nvmem::level::WearLevelled;
use nvmem::{Record, ram::RamNor};
use powerfail::{Simulated, World, explore};

/// A cut loses the buffer in RAM.
struct Buffered<D> {
    nv: D,
    waiting: Vec<(u32, Vec<u8>)>,
}

impl<D: Medium> Buffered<D> {
    fn new(nv: D) -> Self {
        let waiting = Vec::new();
        Buffered { nv, waiting }
    }
}

impl<D: Medium> Medium for Buffered<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.nv.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.nv.read(at, buf)?;
        for (i, to) in (at..).zip(buf) {
            for (from, bytes) in &self.waiting {
                if let Some(b) = i.checked_sub(*from).and_then(|k| bytes.get(k as usize)) {
                    *to = *b;
                }
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.waiting.push((at, bytes.to_vec()));
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.flush()?;
        self.nv.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), D::Error> {
        for (at, bytes) in self.waiting.drain(..) {
            self.nv.write(at, &bytes)?;
        }
        self.nv.flush()
    }
}

fn look(world: &World<'_, Promise>, n: u32) -> u32 {
    let p = world.get();
    assert!(n == p.seen || n == p.tried, "{n} is there: {p:?}");
    world.set(Promise { seen: n, tried: n });
    n
}

#[test]
fn a_record_is_durable_after_set() {
    let s = explore(
        Simulated::<Tiny>::new(3 * 128),
        |nv, world: &World<'_, Promise>| {
            let nv = Buffered::new(nv);
            let mut r = Record::open(nv, 0..384, 0u32).expect("only a power cut stops it");
            for n in look(world, *r.get())..2 {
                world.update(|p| p.tried = n + 1);
                r.set(n + 1).expect("only a power cut stops it");
                look(world, n + 1);
            }
        },
    )
    .depth(1)
    .max_depth(2)
    .run();
    assert!(s.partial || s.cuts > 50, "{s}");
}

/// A flash in use, whose last slot is in doubt at boot.
fn in_use() -> Vec<u8> {
    let mut flash = RamNor::<7, 128, 4>::new();
    let mut table = [0; 64];
    let mut d = WearLevelled::<_, 8>::open(&mut flash, &mut table).unwrap();
    for n in 0..28u32 {
        d.write(8 * (n % 7), &[n as u8; 8]).unwrap();
    }
    d.write(0, &[0; 8]).unwrap();
    flash.bytes().to_vec()
}

#[test]
fn a_page_is_durable_after_write() {
    let s = explore(
        Simulated::<Tiny>::with_image(in_use()),
        |nv, world: &World<'_, Promise>| {
            let mut table = [0; 64];
            let nv = Buffered::new(nv);
            let mut d =
                WearLevelled::<_, 8>::open(nv, &mut table).expect("only a power cut stops it");
            let mut b = [0; 4];
            d.read(0, &mut b).expect("only a power cut stops it");
            for n in look(world, u32::from_le_bytes(b))..2 {
                world.update(|p| p.tried = n + 1);
                d.write(0, &(n + 1).to_le_bytes())
                    .expect("only a power cut stops it");
                look(world, n + 1);
            }
        },
    )
    .depth(1)
    .max_depth(2)
    .run();
    assert!(s.partial || s.cuts > 50, "{s}");
}
