//! A lamp whose context commits by itself: restored, and switched.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod program {
    use core::hint::black_box;
    use nv_device::{Apply, Restore};

    /// A register.
    pub struct Port;
    impl Restore for Port {
        type Context = u8;
        type Parts = ();
        type Error = ();
        fn restore(_: &mut (), value: &u8) -> Result<Self, ()> {
            black_box(*value);
            Ok(Port)
        }
        fn apply(&mut self, value: &u8) -> Result<Apply, ()> {
            black_box(*value);
            Ok(Apply::Done)
        }
    }
}

size_probes::probe!({
    use nv_device::{Committed, Device, Own, open};
    if let Some(memory) = size_probes::region()
        && let Ok((lit,)) = open::<(Own<u8>,), _>(memory, Committed::NOTHING, (0,))
        && let Ok(mut lamp) = Device::<program::Port, _>::eager(lit, ())
    {
        core::hint::black_box(lamp.change(1, |lit, lamp| *lit ^= lamp).is_ok());
    }
});
