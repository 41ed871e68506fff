//! On a host: runs a program as its builds do, and cuts it.

use crate::support::{BYTES, Fram, Machine};
use core::mem::MaybeUninit;
use nv_rtos::nvmem::Region;
use powerfail::{Mapped, Summary, World, explore_with};

/// A boot of a program: what it finds, if all of its threads come to their end.
pub type Boot = for<'a, 'm> fn(Region<'a, Fram>, &'a Machine<'m>) -> Option<[u32; 4]>;

/// A program, and what it must find.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// On the kernel.
    pub protected: Boot,
    /// Without protection.
    pub unprotected: Boot,
    /// Its results.
    pub reference: [u32; 4],
}

/// Names a program.
#[macro_export]
macro_rules! program {
    ($name:ident) => {
        $crate::cuts::Program {
            name: stringify!($name),
            protected: $crate::protected::$name::boot,
            unprotected: $crate::unprotected::$name::boot,
            reference: $crate::reference::$name(),
        }
    };
}

fn found<'a>(boot: Boot, memory: Region<'a, Fram>, world: &'a World<'_, ()>, wanted: [u32; 4]) {
    assert_eq!(boot(memory, &Machine { world }), Some(wanted));
}

impl Program {
    /// Runs it in RAM without protection, and in non-volatile memory with protection. Then all
    /// that again, with a cut at each of about `most` places, and a second cut behind some of them.
    ///
    /// **Panics**: it finds something else than the reference.
    pub fn cut(self, most: usize) -> Summary {
        let life = |nv: Region<'_, Fram>, world: &World<'_, ()>, p: &Program| {
            for garbage in [0, u64::MAX] {
                let mut ram = [MaybeUninit::new(garbage); BYTES / 8];
                found(p.unprotected, Region::new(&mut ram), world, p.reference);
            }
            found(p.protected, nv, world, p.reference);
        };
        explore_with(self, Mapped::<Fram>::new(BYTES), life)
            .name(self.name)
            .depth(2)
            .sample(most)
            .run()
    }
}
