//! The steps of `rtos`, in threads without a kernel.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod program {
    use core::hint::black_box;
    use nv_replay::pmem_tx::{Contexts, Sharing};
    use nv_replay::{Config, Error, Options, Place, Threads};
    use size_probes::Threaded;

    type Two = Sharing<(u8,), Contexts<(u32, u32)>>;

    fn first(place: Place<'_, u32, Threaded>) -> Result<(), Error> {
        let Ok(mut rt) = place.open_with(Options::default(), ()) else {
            return Err(Error::Other);
        };
        rt.each_step(0..10, (), |tx, count, _, ()| {
            *count.get_mut(tx)? += 1;
            Ok(())
        })?;
        rt.step((), |_, _, ()| Ok(()))?;
        rt.record_with(|| black_box(10_u64)).map(drop)
    }

    fn second(place: Place<'_, u32, Threaded>) -> Result<(), Error> {
        let Ok(mut rt) = place.open_with(Options::default(), ()) else {
            return Err(Error::Other);
        };
        rt.each_step(0..10, (), |tx, sum, i, ()| {
            *sum.get_mut(tx)? += i;
            Ok(())
        })?;
        rt.step((), |_, _, ()| Ok(()))?;
        rt.record_with(|| black_box(10_u64)).map(drop)
    }

    pub fn run() {
        let config = Config {
            bytes: 64,
            outbox_bytes: 0,
            seq_bits: 8,
        };
        if let Some(r) = size_probes::region_as()
            && let Ok(mut threads) =
                Threads::<Two, Threaded>::open(r, config, None, |_| Ok(((0,), (0, 0))))
            && let Ok((places, _)) = threads.share()
        {
            let _ = black_box((first(places.0), second(places.1)));
        }
    }
}

size_probes::probe!({ program::run() });
