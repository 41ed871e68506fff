//! Restores the program's memory, and takes a checkpoint of it, in a log on flash whose
//! half-written words read differently each time.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nvmem::device::{Contract, EraseUnit, Medium, Torn};
    use size_probes::Bytes;

    /// Mapped bytes as flash would be.
    struct Flash(Bytes);

    impl Medium for Flash {
        type Error = <Bytes as Medium>::Error;
        const CONTRACT: Contract = Contract {
            name: "probe",
            write_size: 4,
            torn: Torn::Unstable,
            erase: Some(EraseUnit {
                size: 256,
                erased: 0xFF,
                write_once: true,
                endurance: 0,
            }),
            ..Bytes::CONTRACT
        };
        fn capacity(&self) -> u32 {
            self.0.capacity()
        }
        fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
            self.0.read(at, buf)
        }
        fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
            self.0.write(at, bytes)
        }
        fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
            self.0.erase(from, to)
        }
    }

    use checkpoint::{Cost, Log, Memory, Store};
    // Where it is: what is moved is copied.
    let mut opened = Log::<_, 16, 32>::open(Flash(size_probes::bytes()), 0..4096, 1)
        .map(|log| log.with_cost(&Cost::STM32F0));
    if let Ok(log) = &mut opened {
        let [statics, heap, stack] = size_probes::segments();
        // SAFETY: never run; for a linked program the ranges are memory of a board.
        let mut memory = unsafe { Memory::from_addresses(statics, heap, stack) };
        let context = log.load(&mut memory).map_or(0, |r| r.context);
        let kept = log.save(&memory, context);
        core::hint::black_box(kept.is_ok());
    }
});
