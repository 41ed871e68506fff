// Contexts of all forms and events, one of each in doubt; and operations on an image that opened.
// For one model `M`.
//
// A fuzz target includes this file in a module that defines `M`. It calls `image` once and `attack`
// for each input. The file uses only the public interface.

use core::cell::Cell;
use core::mem::MaybeUninit;
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::{CommitNumber, Persist, Region};
use nv_device::{
    Committed, Device, Devices, Events, Members, OpenError, Own, OwnContext, Posted, Restore, Ring,
    Set, Staged, StagedContext, StagedDevice, open, within,
};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

pub type Words = Vec<MaybeUninit<u64>>;

/// A context that is not valid for all bytes.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Mode {
    level: u32,
    on: bool,
}

/// A device that is its context.
pub struct Shown<C>(C);
impl<C: nv_device::nvmem::Plain + Copy> Restore for Shown<C> {
    type Context = C;
    type Parts = ();
    type Error = ();
    fn restore(_: &mut (), context: &C) -> Result<Self, ()> {
        Ok(Shown(*context))
    }
}

type Items = (Own<u8>, Own<Mode>, Staged<bool>, Staged<Mode>, Ring<4>);
type Opened<'m> = (
    OwnContext<'m, u8, M>,
    OwnContext<'m, Mode, M>,
    StagedContext<'m, bool, M>,
    StagedContext<'m, Mode, M>,
    Events<'m, 4, M>,
);

const MODE: Mode = Mode { level: 7, on: true };

/// Opens an image of which the step `number` is committed.
pub fn contexts<'m, 'o>(
    words: &'m mut Words,
    number: impl Into<CommitNumber<'o>>,
) -> Result<Opened<'m>, OpenError> {
    let committed = Committed::of(number.into(), &Config::SMALL);
    open::<Items, M>(Region::new(words), committed, (9, MODE, true, MODE, ()))
}

struct Devs<'m> {
    one: StagedDevice<'m, Shown<bool>, M>,
    two: StagedDevice<'m, Shown<Mode>, M>,
    ring: Events<'m, 4, M>,
    /// How often a device was lent: to enter the set, to be asked and staged. It is not lent again,
    /// so the step stops when it has committed, and nothing is settled.
    lent: Cell<u32>,
}
impl Devs<'_> {
    fn lend<J>(&self, device: &J, f: &mut dyn FnMut(&J)) {
        if self.lent.replace(self.lent.get() + 1) < 9 {
            f(device)
        }
    }
}
impl Devices for Devs<'_> {
    fn list(&self) -> impl Members {
        (
            within(|f| self.lend(&self.one, f)),
            within(|f| self.lend(&self.two, f)),
            within(|f| self.lend(&self.ring, f)),
        )
    }
}

/// A sound image in which what the step 1 has staged is not settled.
pub fn image() -> Words {
    let mut words = vec![MaybeUninit::new(0); 48];
    let mut memory = [const { MaybeUninit::new(0u64) }; 64];
    {
        let rest = Region::new(&mut memory);
        let number = last_committed(&rest).expect("a blank region");
        let (level, mode, one, two, ring) = contexts(&mut words, number).expect("a blank region");
        let mut level = Device::<Shown<u8>, _>::new(level, ());
        level.change(3, |level, to| *level = to).expect("a change");
        let mut mode = Device::<Shown<Mode>, _>::new(mode, ());
        mode.change((), |mode, ()| mode.level = 8).expect("a change");
        let set = Set::new(Devs {
            one: StagedDevice::new(one, ()),
            two: StagedDevice::new(two, ()),
            ring,
            lent: Cell::new(0),
        });
        for value in [0x11, 0x22, 0x33, 0x44, 0x55] {
            let _ = set.ring.post(value);
        }
        let options = Options {
            table: Config::SMALL,
            ..Options::default()
        };
        let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
            .map_err(|r| r.error)
            .expect("a blank region");
        // A fuzzer's hook aborts.
        let hook = take_hook();
        set_hook(Box::new(|_| ()));
        let stops = catch_unwind(AssertUnwindSafe(|| {
            rt.step_with(&set, (), |step, _, ()| {
                let devices = step.token();
                devices.one.change(step, |on| *on = false)?;
                devices.two.change(step, |mode| mode.level = 9)?;
                devices.ring.take(step)?;
                devices.ring.lost(step)?;
                Ok(())
            })
            .map_err(|e| e.error)
        }));
        set_hook(hook);
        assert!(stops.is_err(), "devices are not lent again");
    }
    words
}

/// Opens an image, and uses what opened. Returns whether it did.
pub fn attack(words: &mut Words) -> bool {
    let Ok((level, mode, one, two, ring)) = contexts(words, 1) else {
        return false;
    };
    let mut level = Device::<Shown<u8>, _>::new(level, ());
    level.change((), |level, ()| *level = 77).expect("a change");
    let mut mode = Device::<Shown<Mode>, _>::new(mode, ());
    mode.change((), |mode, ()| mode.level ^= 1).expect("a change");
    let mode = *mode.context();
    let one = StagedDevice::<Shown<bool>, _>::new(one, ()).context();
    let two = StagedDevice::<Shown<Mode>, _>::new(two, ()).context();
    let waiting = ring.waiting();
    assert!(waiting <= 4, "{waiting} events in 4 slots");
    let posted = ring.post(5);
    assert_eq!(posted == Posted::Stored, waiting < 4);
    let expected = waiting + usize::from(waiting < 4);
    // The same again: recovery has settled everything.
    let again = contexts(words, 0).expect("it has opened before");
    assert_eq!(*Device::<Shown<u8>, _>::new(again.0, ()).context(), 77);
    assert_eq!(*Device::<Shown<Mode>, _>::new(again.1, ()).context(), mode);
    assert_eq!(StagedDevice::<Shown<bool>, _>::new(again.2, ()).context(), one);
    assert_eq!(StagedDevice::<Shown<Mode>, _>::new(again.3, ()).context(), two);
    // Damaged slots may follow the one that was posted.
    assert!((expected..=4).contains(&again.4.waiting()));
    true
}
