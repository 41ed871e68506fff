//! A hash table of 16 buckets, each a list of nodes of 12 bytes: for the data of a mutex.

use super::nv_rtos::nvmem::Persist;
use super::nv_rtos::pmem_tx::{Error, PBox, Root, Tx};
use crate::support::{Fram, Unit};

const BUCKETS: usize = 16;

/// The table.
#[derive(Persist)]
#[repr(C)]
pub struct Table<'p> {
    buckets: [List<'p>; BUCKETS],
}

type List<'p> = Option<PBox<'p, Node<'p>, Unit>>;

/// A key, its value, and the next node of the bucket.
#[derive(Persist)]
#[repr(C)]
pub struct Node<'p> {
    key: u32,
    value: u32,
    next: List<'p>,
}

/// The bucket of a key.
fn bucket(key: u32) -> usize {
    (key ^ key >> 4) as usize % BUCKETS
}

impl<'p> Table<'p> {
    /// An empty one.
    pub const EMPTY: Self = Table {
        buckets: [const { None }; BUCKETS],
    };

    /// The value of a key.
    pub fn find(&self, tx: &Tx<'p, Fram>, key: u32) -> Option<u32> {
        let mut at = self.buckets[bucket(key)].as_ref();
        while let Some(node) = at {
            let node = node.get(tx);
            if node.key == key {
                return Some(node.value);
            }
            at = node.next.as_ref();
        }
        None
    }

    /// How many nodes there are, and what `f` makes of their values.
    pub fn fold(&self, tx: &Tx<'p, Fram>, mut f: impl FnMut(u32, u32)) {
        for list in &self.buckets {
            let mut at = list.as_ref();
            while let Some(node) = at {
                let node = node.get(tx);
                f(node.key, node.value);
                at = node.next.as_ref();
            }
        }
    }
}

/// Adds a key that is not there yet.
pub fn insert<'p>(
    tx: &Tx<'p, Fram>,
    table: &mut Root<'p, Table<'p>, Unit>,
    key: u32,
    value: u32,
) -> Result<(), Error> {
    let mut buckets = table.fields(tx).buckets;
    let list = buckets.at_mut(bucket(key))?;
    let next = list.take();
    *list = Some(PBox::new(tx, Node { key, value, next })?);
    Ok(())
}

/// Removes a key. Its value, if it was there.
pub fn remove<'p>(
    tx: &Tx<'p, Fram>,
    table: &mut Root<'p, Table<'p>, Unit>,
    key: u32,
) -> Result<Option<u32>, Error> {
    let mut at = table.fields(tx).buckets.into_at(bucket(key))?;
    while let Some(node) = at.get() {
        let node = node.get(tx);
        if node.key == key {
            let list = at.into_mut()?;
            let Some(node) = list.take() else { break };
            let Node { value, next, .. } = node.into_inner(tx)?;
            *list = next;
            return Ok(Some(value));
        }
        let Some(node) = at.into_follow() else { break };
        at = node.into_fields().next;
    }
    Ok(None)
}
