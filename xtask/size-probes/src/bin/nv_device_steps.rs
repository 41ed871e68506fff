//! A lamp by itself, a device and a button with steps: what `nv-device` adds to them.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod program {
    use core::hint::black_box;
    use nv_device::{Apply, Devices, Events, Members, Restore, StagedDevice};
    use size_probes::Machine;

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

    pub struct Devs<'m> {
        pub port: StagedDevice<'m, Port, Machine>,
        pub button: Events<'m, 8, Machine>,
    }
    impl Devices for Devs<'_> {
        fn list(&self) -> impl Members {
            (&self.port, &self.button)
        }
    }
}

size_probes::probe!({
    use core::hint::black_box;
    use core::mem::MaybeUninit;
    use nv_device::nv_replay::{Config, Options, Replay, last_committed};
    use nv_device::{Committed, Device, Own, Ring, Set, Staged, StagedDevice, open};
    use program::{Devs, Port};
    use size_probes::Machine;
    if let Some(memory) = size_probes::region()
        && let Ok((contexts, rest)) = memory.split_at(512)
        && let Ok(number) = last_committed(&rest)
        && let Ok((lamp, port, button)) = open::<(Own<u8>, Staged<u8>, Ring<8>), _>(
            contexts,
            Committed::of(number, &Config::SMALL),
            (0, 0, ()),
        )
    {
        let mut lamp = Device::<Port, _>::new(lamp, ());
        let port = StagedDevice::new(port, ());
        let set = Set::new(Devs { port, button });
        let mut place = MaybeUninit::uninit();
        let opened =
            Replay::<u32, Machine>::open_in(&mut place, rest, Options::default(), |_| Ok(0));
        if let Ok(rt) = opened {
            black_box(lamp.change(1, |lit, lamp| *lit ^= lamp).is_ok());
            let _ = black_box(set.button.post(3));
            let done = rt.step_with(&set, (), |step, count, ()| {
                let devices = step.token();
                while let Some(event) = devices.button.take(step)? {
                    *count.get_mut(step)? += event.value;
                }
                Ok(devices.port.change(step, |value| *value += 1)?)
            });
            black_box(done.is_ok());
        }
    }
});
