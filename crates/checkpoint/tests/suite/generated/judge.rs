//! What the next load may find: the checkpoint that was saved or loaded last, and each whose save
//! was begun later. It knows nothing of formats.

use super::program::{HEAP, STACK, STATICS, UPDATE, UPDATES};
use checkpoint::Memory;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A program's memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Ram {
    statics: Vec<u8>,
    heap: Vec<u8>,
    stack: Vec<u8>,
    pub heap_used: usize,
    pub stack_from: usize,
}

impl fmt::Debug for Ram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ram {
            heap_used,
            stack_from,
            ..
        } = self;
        write!(f, "heap to {heap_used}, stack from {stack_from}")
    }
}

impl Ram {
    pub fn filled(byte: u8, updates: usize) -> Self {
        Ram {
            statics: vec![byte; STATICS + updates * UPDATE],
            heap: vec![byte; HEAP],
            stack: vec![byte; STACK],
            heap_used: HEAP,
            stack_from: 0,
        }
    }

    /// Memory of another shape, in which each extent of an image has its place.
    pub fn with_more_stack(byte: u8, updates: usize) -> Self {
        let mut ram = Ram::filled(byte, updates);
        ram.stack.extend([byte; UPDATE]);
        ram
    }

    /// All bytes, through all segments.
    pub fn bytes(&mut self) -> impl Iterator<Item = &mut u8> {
        let rest = self.heap.iter_mut().chain(&mut self.stack);
        self.statics.iter_mut().chain(rest)
    }

    pub fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(self.heap_used)
            .stack_from(self.stack_from)
    }

    /// Whether a load left all that this checkpoint holds. Other bytes are not restored.
    pub fn is_in(&self, loaded: &Ram) -> bool {
        self.statics == loaded.statics
            && self.heap[..self.heap_used] == loaded.heap[..self.heap_used]
            && self.stack[self.stack_from..] == loaded.stack[self.stack_from..]
    }
}

/// A checkpoint. Its context is the number of the operation that made this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub ram: Ram,
    pub context: u32,
}

/// The context says which content it is, and the world is hashed at each event.
impl Hash for Saved {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.context.hash(state);
    }
}

/// What the world knows.
#[derive(Clone, Hash, Debug)]
pub struct Seen {
    /// What the next load may find, the oldest first. `None`: no checkpoint.
    possible: Vec<Option<Arc<Saved>>>,
    /// Operations that were begun.
    pub at: u32,
    /// Saves that returned `Ok`.
    pub saves: u64,
    /// Updates of the program.
    pub updates: usize,
    /// Archives: all saves of this build that were begun, and what was deleted.
    begun: Vec<Arc<Saved>>,
    deleted: Vec<u32>,
    /// The last save or rollback returned `Ok`, and nobody has saved since.
    pub settled: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            possible: vec![None],
            at: 0,
            saves: 0,
            updates: 0,
            begun: vec![],
            deleted: vec![],
            settled: false,
        }
    }
}

impl Seen {
    /// A save is begun, or a rollback to this checkpoint.
    pub fn begins(&mut self, saved: &Arc<Saved>) {
        self.possible.push(Some(saved.clone()));
        self.settled = false;
    }

    /// It returned `Ok`.
    pub fn counts(&mut self, saved: &Arc<Saved>) {
        self.possible = vec![Some(saved.clone())];
        self.settled = true;
    }

    /// The next boot has another number, and memory of another size.
    pub fn update(&mut self) {
        if self.updates == UPDATES {
            return;
        }
        self.updates += 1;
        self.possible = vec![None];
        self.settled = false;
        (self.begun, self.deleted) = (vec![], vec![]);
    }

    /// A load found this. What was restored is never taken back. Where words are unstable, a
    /// checkpoint that was begun later may read as whole at a later boot, until this boot saves.
    #[track_caller]
    pub fn restores(&mut self, found: &Ram, context: u32, unstable: bool) -> Arc<Saved> {
        let fits = |p: &Option<Arc<Saved>>| {
            p.as_ref()
                .is_some_and(|p| p.context == context && p.ram.is_in(found))
        };
        // Of equal ones any may have been found: the oldest, so that none is excluded.
        let at = self.possible.iter().position(fits);
        let at = at.unwrap_or_else(|| {
            let of = |p: &Option<Arc<Saved>>| p.as_ref().map(|p| p.context);
            let possible: Vec<_> = self.possible.iter().map(of).collect();
            panic!("checkpoint {context} is restored, and possible are {possible:?}")
        });
        self.possible.drain(..at);
        if !unstable {
            self.possible.truncate(1);
        }
        self.possible[0].clone().expect("it fits")
    }

    /// A load found nothing.
    #[track_caller]
    pub fn restores_nothing(&mut self, unstable: bool) {
        assert!(self.possible[0].is_none(), "the checkpoint is gone");
        if !unstable {
            self.possible.truncate(1);
        }
    }

    /// A save to an archive is begun.
    pub fn archives(&mut self, saved: &Arc<Saved>) {
        self.begun.push(saved.clone());
    }

    /// What an archive lists, the newest first: contexts and sequence numbers.
    #[track_caller]
    pub fn lists(&self, list: &[(u32, u32)]) {
        for (context, sequence) in list {
            self.listed(*context);
            assert!(!self.deleted.contains(sequence), "it was deleted");
        }
        let newest = list.first().map(|(context, _)| *context);
        let mut possible = self.possible.iter().map(|p| p.as_ref().map(|p| p.context));
        assert!(
            possible.any(|p| p == newest),
            "{newest:?} is the newest of the list"
        );
    }

    /// The checkpoint of this context.
    #[track_caller]
    pub fn listed(&self, context: u32) -> Arc<Saved> {
        let saved = self.begun.iter().find(|s| s.context == context);
        saved.expect("it lists what was never saved").clone()
    }

    pub fn deletes(&mut self, sequence: u32) {
        self.deleted.push(sequence);
    }
}
