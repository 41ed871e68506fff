//! What a scenario gets: the region to work on, and the mailbox.

use crate::Mapped;
use crate::abi::{self, cell};
use crate::mailbox::on::Handle;
use core::fmt::Debug;
use nvmem::{Region, mapped};

/// The non-volatile memory and the mailbox.
pub struct Scene<'s, M: Mapped> {
    region: Option<Region<'s, M>>,
    mailbox: Handle<'s>,
}

impl<'s, M: Mapped> Scene<'s, M> {
    /// A scene on a host.
    #[cfg(not(target_os = "none"))]
    pub fn new(region: Region<'s, M>, mailbox: &'s dyn crate::Mailbox) -> Self {
        Scene {
            region: Some(region),
            mailbox,
        }
    }

    /// The scene of a machine.
    #[cfg(target_os = "none")]
    pub fn new(region: Region<'s, M>) -> Self {
        Scene {
            region: Some(region),
            ..Self::anywhere()
        }
    }

    /// A scene without the region, for code that is given no scene: the body of a step, a handler.
    #[cfg(target_os = "none")]
    #[inline(always)]
    pub fn anywhere() -> Self {
        Scene {
            region: None,
            mailbox: crate::mailbox::on::Handle(core::marker::PhantomData),
        }
    }

    /// The region. A second call fails the scenario.
    pub fn region(&mut self) -> Region<'s, M> {
        match self.region.take() {
            Some(r) => r,
            None => self.fail(
                const { abi::code(file!(), line!()) },
                "the region is asked for once",
            ),
        }
    }

    /// The region, as one of another model of this machine: one with critical sections.
    pub fn region_as<N: nvmem::Model>(&mut self) -> Region<'s, N> {
        let region = self.region();
        let (base, end) = (region.base(), region.base().wrapping_add(region.len()));
        // SAFETY: the same memory of the same machine. The region itself is not used any more.
        match unsafe { Region::from_raw(base, end) } {
            Ok(r) => r,
            Err(_) => self.fail(
                const { abi::code(file!(), line!()) },
                "the region is one of another model",
            ),
        }
    }

    /// Reads a cell of the scenario's own; 0 if it was never written.
    #[inline(always)]
    pub fn read_cell(&self, i: u16) -> u16 {
        self.mailbox.read_cell(cell::OWN + i)
    }

    /// Writes a cell of the scenario's own. Every store before this call is persistent before the
    /// cell changes.
    #[inline(always)]
    pub fn write_cell(&self, i: u16, value: u16) {
        mapped::barrier();
        self.mailbox.write_cell(cell::OWN + i, value);
        mapped::barrier();
    }

    /// As [`write_cell`](Self::write_cell), but without a barrier: the compiler may move the
    /// program's plain stores to either side of this volatile store.
    #[inline(always)]
    pub fn write_cell_unordered(&self, i: u16, value: u16) {
        self.mailbox.write_cell(cell::OWN + i, value);
    }

    /// The scenario's argument: the number of a planted bug.
    #[inline(always)]
    pub fn argument(&self) -> u16 {
        self.mailbox.read_cell(cell::ARGUMENT)
    }

    /// The devices on the bench.
    #[inline(always)]
    pub fn bench(&self) -> Bench<'s> {
        Bench(self.mailbox)
    }

    /// How many operations to do: `few`, or what the mailbox asks for.
    pub fn rounds(&self, few: u16) -> u16 {
        match self.mailbox.read_cell(cell::ROUNDS) {
            0 => few,
            n => n,
        }
    }

    /// Runs `f` as a measured section, between two writes to the mailbox.
    #[inline(always)]
    pub fn measure<O>(&self, section: u16, f: impl FnOnce() -> O) -> O {
        mapped::barrier();
        self.mailbox.write_cell(cell::MARK, section);
        mapped::barrier();
        let o = core::hint::black_box(f());
        mapped::barrier();
        self.mailbox.write_cell(cell::MARK, 0);
        mapped::barrier();
        o
    }

    /// Ends the measured section, if there is one, and begins the next.
    #[inline(always)]
    pub fn next_section(&self, section: u16) {
        mapped::barrier();
        self.mailbox.write_cell(cell::MARK, 0);
        self.mailbox.write_cell(cell::MARK, section);
        mapped::barrier();
    }

    /// As [`next_section`](Self::next_section), for code that has no scene. On a host, where
    /// nothing is measured, it does nothing.
    #[inline(always)]
    pub fn next_section_anywhere(section: u16) {
        #[cfg(target_os = "none")]
        Self::anywhere().next_section(section);
        #[cfg(not(target_os = "none"))]
        let _ = section;
    }

    /// Ends the measured section.
    #[inline(always)]
    pub fn end_section(&self) {
        mapped::barrier();
        self.mailbox.write_cell(cell::MARK, 0);
        mapped::barrier();
    }

    /// Reports a number that the scenario has counted; its key is one of [`abi::figure`].
    pub fn figure(&self, number: u16, value: u16) {
        mapped::barrier();
        self.mailbox.write_cell(cell::FIGURE, number);
        mapped::barrier();
        self.mailbox.write_cell(cell::VALUE, value);
        mapped::barrier();
    }

    /// The `found` operations that have taken effect must be those whose number is in the first
    /// cell of the scenario, or one more. From here on they count as told.
    #[inline]
    pub fn progress(&self, found: u16, code: u16) {
        let told = self.read_cell(0);
        if found != told {
            if found != told.wrapping_add(1) {
                self.fail(
                    code,
                    "neither as many operations as the mailbox says, nor one more",
                )
            }
            self.write_cell(0, found);
        }
    }

    /// Ends the scenario: a check has failed.
    #[cfg(not(target_os = "none"))]
    pub fn fail(&self, code: u16, why: &str) -> ! {
        match abi::source_line(code) {
            Some((file, line)) => panic!("{file}:{line}: {why}"),
            None => panic!("{why}"),
        }
    }

    /// Ends the scenario: a check has failed.
    #[cfg(target_os = "none")]
    #[cold]
    #[inline(never)]
    pub fn fail(&self, code: u16, why: &str) -> ! {
        let _ = why;
        crate::machine::end(code)
    }

    /// Ends the scenario: something failed that must not.
    #[cold]
    pub fn failed<E: Debug>(&self, code: u16, error: &E) -> ! {
        #[cfg(not(target_os = "none"))]
        if let Some((file, line)) = abi::source_line(code) {
            panic!("{file}:{line}: {error:?}");
        }
        let _ = error;
        self.fail(code, "an error")
    }
}

/// The devices of the machine: the registers of [`abi::bench`]. Each access is one volatile access,
/// and the compiler may move plain stores to either side of it.
#[derive(Clone, Copy)]
pub struct Bench<'s>(Handle<'s>);

impl Bench<'_> {
    /// Reads a register.
    #[inline(always)]
    pub fn read(&self, register: u16) -> u16 {
        self.0.read_register(register)
    }

    /// Writes a register.
    #[inline(always)]
    pub fn write(&self, register: u16, value: u16) {
        self.0.write_register(register, value)
    }
}

/// Fails the scenario with the number of this line unless the condition holds.
#[macro_export]
macro_rules! check {
    ($scene:expr, $cond:expr) => {
        if !$cond {
            $scene.fail(
                const { $crate::abi::code(file!(), line!()) },
                stringify!($cond),
            )
        }
    };
}

/// The value, or the end of the scenario with the number of this line.
#[macro_export]
macro_rules! ok {
    ($scene:expr, $result:expr) => {
        match $result {
            Ok(v) => v,
            Err(e) => $scene.failed(const { $crate::abi::code(file!(), line!()) }, &e),
        }
    };
}

/// The operations that have taken effect, as [`Scene::progress`] judges them.
#[macro_export]
macro_rules! progress {
    ($scene:expr, $found:expr) => {
        $scene.progress($found, const { $crate::abi::code(file!(), line!()) })
    };
}
