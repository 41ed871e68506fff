//! What the probes share: an entry, a panic handler, and a region at a fixed address.
//!
//! On a host the probes are programs that do nothing, so that `--workspace` builds them.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

#[cfg(target_arch = "msp430")]
#[path = "../../../crates/rtos/src/msp430fr5994/arithmetic.rs"]
mod arithmetic;
// What an image of this board has: its multiplier is the one of `nv-rtos`.
#[cfg(target_arch = "msp430")]
#[path = "../../../crates/rtos/src/msp430fr5994/multiply.rs"]
mod multiply;

use nvmem::device::{Contract, EraseUnit, Medium, Misuse, Torn};

/// Makes a probe of the block: its entry on a bare target.
#[macro_export]
macro_rules! probe {
    ($body:block) => {
        /// The entry.
        #[cfg(target_os = "none")]
        #[unsafe(no_mangle)]
        pub extern "C" fn _start() -> ! {
            $body
            loop {}
        }

        #[cfg(target_os = "none")]
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {}
        }

        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
}

/// The probe of a heap with this policy.
#[macro_export]
macro_rules! heap_probe {
    ($policy:ty) => {
        $crate::probe!({
            use vnv_heap::{Config, Heap, JustInTime, Own, brand};
            use $crate::Bytes;

            type Root<'h> = Option<Own<'h, [u32; 2]>>;
            type Kept<'h> = Heap<'h, Root<'h>, Bytes, JustInTime, $policy>;

            brand!(b);
            let (fram, ram) = ($crate::bytes(), $crate::ram());
            // Where it is: a heap that is moved is copied.
            let mut opened = Kept::open(b, fram, ram, Config::DEFAULT, |_| Ok(None));
            if let Ok(heap) = &mut opened {
                if let Ok(pair) = heap.alloc([1, 2]) {
                    let read = heap.get(&pair).map_or(0, |p| p[0]);
                    if let Ok(mut pair) = heap.get_mut(&pair) {
                        pair[1] += read;
                    }
                    if let Ok(mut root) = heap.root_mut() {
                        *root = Some(pair);
                    }
                }
                let saved = heap.persist();
                let back = heap.restore();
                core::hint::black_box((saved.is_ok(), back.is_ok()));
            }
        });
    };
}

/// The medium's model: that of the cores of this width.
#[cfg(target_pointer_width = "16")]
pub type Machine = nvmem::InOrder16;
/// The medium's model: that of the cores of this width.
#[cfg(not(target_pointer_width = "16"))]
pub type Machine = nvmem::InOrder32;
/// Its unit.
pub type Unit = <Machine as nvmem::Model>::Unit;

/// The bytes of the medium.
pub const BYTES: usize = 4096;

/// The medium, at an address that the compiler does not know.
#[cfg(target_os = "none")]
#[inline(never)]
pub fn region() -> Option<nvmem::Region<'static, Machine>> {
    let start = core::hint::black_box(0x4000_usize) as *mut u8;
    // SAFETY: never run; for a linked program the range is memory of a board.
    unsafe { nvmem::Region::from_raw(start, start.wrapping_add(BYTES)) }.ok()
}

/// The same medium, under another model of the same unit.
#[cfg(target_os = "none")]
#[inline(never)]
pub fn region_as<M: nvmem::Model>() -> Option<nvmem::Region<'static, M>> {
    let start = core::hint::black_box(0x4000_usize) as *mut u8;
    // SAFETY: as above.
    unsafe { nvmem::Region::from_raw(start, start.wrapping_add(BYTES)) }.ok()
}

/// The section of a program whose interrupts nobody sees: a call that the compiler keeps.
pub enum Masked {}
// SAFETY: never run.
unsafe impl pmem_tx::Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        mask();
        let r = f();
        mask();
        r
    }
}

#[inline(never)]
fn mask() {
    core::hint::black_box(());
}

/// The model of a machine with threads.
pub type Threaded = pmem_tx::Preempted<Machine, Masked>;

/// A medium behind calls, as a serial FRAM is: reading and writing are functions of their own, byte
/// by byte, and they may fail.
pub struct Bytes(*mut u8);

/// Where [`Bytes`] has its bytes, at an address that the compiler does not know.
#[inline(never)]
pub fn bytes() -> Bytes {
    Bytes(core::hint::black_box(0x4000_usize) as *mut u8)
}

/// A buffer of 256 bytes, at an address that the compiler does not know.
#[inline(never)]
pub fn ram() -> &'static mut [u8] {
    let start = core::hint::black_box(0x2000_usize) as *mut u8;
    // SAFETY: never run; for a linked program the range is memory of a board.
    unsafe { core::slice::from_raw_parts_mut(start, 256) }
}

/// Statics, heap and stack of a program, at addresses that the compiler does not know.
#[inline(never)]
pub fn segments() -> [(*mut u8, *mut u8); 3] {
    let at = |addr: usize| core::hint::black_box(addr) as *mut u8;
    [
        (at(0x2000), at(0x2100)),
        (at(0x2100), at(0x2300)),
        (at(0x2300), at(0x2400)),
    ]
}

impl Bytes {
    fn at(&self, at: u32, len: usize) -> Result<*mut u8, Misuse> {
        let inside = at as usize <= BYTES && len <= BYTES - at as usize;
        inside
            .then(|| self.0.wrapping_add(at as usize))
            .ok_or(Misuse::OutOfRange)
    }
}

// SAFETY: never run; for a linked program the range is memory of a board.
unsafe impl nvmem::Faithful for Bytes {}

impl Medium for Bytes {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "bytes",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };

    fn capacity(&self) -> u32 {
        BYTES as u32
    }

    #[inline(never)]
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        let from = self.at(at, buf.len())?;
        for (i, b) in buf.iter_mut().enumerate() {
            // SAFETY: never run; for a linked program the range is memory of a board.
            *b = unsafe { from.wrapping_add(i).read_volatile() };
        }
        Ok(())
    }

    #[inline(never)]
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        let to = self.at(at, bytes.len())?;
        for (i, b) in bytes.iter().enumerate() {
            // SAFETY: as in `read`.
            unsafe { to.wrapping_add(i).write_volatile(*b) };
        }
        Ok(())
    }

    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

/// A NOR flash behind calls, as [`Bytes`] is.
pub struct Flash(Bytes);

/// Where [`Flash`] has its bytes.
pub fn flash() -> Flash {
    Flash(bytes())
}

impl Medium for Flash {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "flash",
        write_size: 4,
        unit: 4,
        torn: Torn::Arbitrary,
        erase: Some(EraseUnit {
            size: 512,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
        ..Bytes::CONTRACT
    };

    fn capacity(&self) -> u32 {
        BYTES as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.read(at, buf)
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.0.write(at, bytes)
    }

    #[inline(never)]
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        let start = self.0.at(from, to.wrapping_sub(from) as usize)?;
        // SAFETY: as in `read`.
        unsafe { start.write_volatile(0xFF) };
        Ok(())
    }
}

/// What the compiler calls on MSP430 where a function cannot return.
#[cfg(target_arch = "msp430")]
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    loop {}
}

/// A program without interrupts is one critical section; for cores without compare-and-swap.
#[cfg(target_os = "none")]
mod alone {
    struct Alone;
    critical_section::set_impl!(Alone);

    // SAFETY: a probe has one thread of execution.
    unsafe impl critical_section::Impl for Alone {
        unsafe fn acquire() {}
        unsafe fn release(_: ()) {}
    }
}
