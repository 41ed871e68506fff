//! What single calls do: the traffic on a bus, drivers that wait, stores.

use core::cell::Cell;
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::instrument::{Observer, observe};
use nv_device::nvmem::{InOrder16, InOrder32, Model, Persist, Region};
use nv_device::{
    Apply, AsyncDevice, AsyncRestore, CallError, Committed, Device, Devices, Events, Members, Own,
    Posted, Restore, Ring, Set, Staged, StagedDevice, open,
};

type Memory = [MaybeUninit<u64>; 64];
const BLANK: Memory = [const { MaybeUninit::new(0) }; 64];

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Limits {
    high: i16,
    low: i16,
}

struct Thermometer(tmp1x2::Tmp1x2<Mock, tmp1x2::marker::mode::Continuous>);
impl Restore for Thermometer {
    type Context = Limits;
    type Parts = Mock;
    type Error = tmp1x2::Error<embedded_hal::i2c::ErrorKind>;
    fn restore(bus: &mut Mock, limits: &Limits) -> Result<Self, Self::Error> {
        let mut tmp = tmp1x2::Tmp1x2::new(bus.clone(), tmp1x2::SlaveAddr::default());
        tmp.set_conversion_rate(tmp1x2::ConversionRate::_1Hz)?;
        tmp.set_high_temperature_threshold(limits.high.into())?;
        tmp.set_low_temperature_threshold(limits.low.into())?;
        Ok(Thermometer(tmp))
    }
}

/// All that is on the bus when a thermometer is restored, twice: at a boot, and after an error.
#[test]
fn the_transcript_of_a_restore() {
    let restore = [
        Transaction::write(0x48, vec![1, 0x60, 0x60]),
        Transaction::write(0x48, vec![3, 0x50, 0x00]),
        Transaction::write(0x48, vec![2, 0x4B, 0x00]),
    ];
    let read = Transaction::write_read(0x48, vec![0], vec![0x19, 0x00]);
    let failed = read.clone().with_error(embedded_hal::i2c::ErrorKind::Bus);
    let mut all = restore.to_vec();
    all.push(failed);
    all.extend(restore.to_vec());
    all.push(read);
    let mut bus = Mock::new(&all);

    let mut memory = BLANK;
    let first = Limits { high: 80, low: 75 };
    let region = Region::<InOrder32>::new(&mut memory);
    let (limits,) = open::<(Own<Limits>,), _>(region, Committed::NOTHING, (first,)).unwrap();
    let mut tmp = Device::<Thermometer, _>::new(limits, bus.clone());
    let mut read = || tmp.at_least_once((), |tmp, ()| tmp.driver().0.read_temperature());
    assert!(matches!(read(), Err(CallError::Driver(_))));
    assert!(matches!(read(), Ok(25.0)));
    drop(tmp);
    bus.done();
}

/// A lamp that waits before it is lit.
struct Slow<'p>(&'p Cell<u8>);
impl<'p> AsyncRestore for Slow<'p> {
    type Context = u8;
    type Parts = &'p Cell<u8>;
    type Error = ();
    async fn restore(port: &mut &'p Cell<u8>, lit: &u8) -> Result<Self, ()> {
        port.set(*lit);
        Ok(Slow(port))
    }
}
impl Slow<'_> {
    async fn show(&mut self, lit: u8) -> Result<(), ()> {
        self.0.set(lit);
        let mut waited = false;
        core::future::poll_fn(move |_| {
            if core::mem::replace(&mut waited, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        Ok(())
    }
}

fn poll_all<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(o) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return o;
        }
    }
}

/// A future that is dropped in the middle of a call is a power cut of that device.
#[test]
fn a_dropped_future() {
    let mut memory = BLANK;
    let port = Cell::new(0);
    let region = Region::<InOrder32>::new(&mut memory);
    let (lit,) = open::<(Own<u8>,), _>(region, Committed::NOTHING, (1,)).unwrap();
    let mut lamp = AsyncDevice::<Slow<'_>, _>::new(lit, &port);
    {
        let call = lamp.at_least_once(5, async |call, lit: u8| {
            *call.context_mut() = lit;
            call.driver().show(lit).await
        });
        let mut call = pin!(call);
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        assert_eq!(port.get(), 5);
    }
    assert_eq!(*lamp.context(), 1);
    poll_all(lamp.build()).unwrap();
    assert_eq!(port.get(), 1, "the device is as its context says");
    let done = poll_all(lamp.at_least_once(6, async |call, lit: u8| {
        *call.context_mut() = lit;
        call.driver().show(lit).await
    }));
    assert_eq!((done, *lamp.context(), port.get()), (Ok(()), 6, 6));
    poll_all(lamp.change(2, |lit, to| *lit = to)).unwrap();
    assert_eq!((*lamp.context(), port.get()), (2, 2));
}

/// Stores and fences.
#[derive(Default)]
struct Count(Cell<usize>, Cell<usize>);
impl Observer for Count {
    fn store(&self, _: *mut u8, _: &[u8]) {
        self.0.set(self.0.get() + 1)
    }
    fn fence(&self, _: &'static str) {
        self.1.set(self.1.get() + 1)
    }
}

fn stores(f: impl FnOnce()) -> usize {
    let count = Count::default();
    observe(&count, f);
    count.0.get()
}

/// A device that is its context, and follows a change.
struct Shown<C>(C);
impl<C: nv_device::nvmem::Plain + Copy> Restore for Shown<C> {
    type Context = C;
    type Parts = ();
    type Error = ();
    fn restore(_: &mut (), context: &C) -> Result<Self, ()> {
        Ok(Shown(*context))
    }
    fn apply(&mut self, context: &C) -> Result<Apply, ()> {
        self.0 = *context;
        Ok(Apply::Done)
    }
}

struct Devs<'m, M> {
    small: StagedDevice<'m, Shown<u8>, M>,
    large: StagedDevice<'m, Shown<[u32; 2]>, M>,
    ring: Events<'m, 4, M>,
}
impl<M: Model> Devices for Devs<'_, M> {
    fn list(&self) -> impl Members {
        (&self.small, &self.large, &self.ring)
    }
}

/// The stores of each operation: own contexts of one unit, of 8 bytes and of none; staged ones of a
/// byte and of 8, beside the step's own; a top half, and an event that is handled. The bytes of
/// two-version cells are lent, and not counted.
fn costs<M: Model<Unit: nv_device::nv_replay::pmem_tx::Width>>() -> [usize; 8] {
    let (mut memory, mut program) = (BLANK, BLANK);
    let rest = Region::new(&mut program);
    let number = last_committed(&rest).expect("a blank region");
    let committed = Committed::of(number, &Config::SMALL);
    let (one, two, none, small, large, ring) = open::<
        (
            Own<u16>,
            Own<[u32; 2]>,
            Own<()>,
            Staged<u8>,
            Staged<[u32; 2]>,
            Ring<4>,
        ),
        M,
    >(
        Region::new(&mut memory),
        committed,
        (0, [0; 2], (), 0, [0; 2], ()),
    )
    .unwrap();
    let mut one = Device::<Shown<u16>, _>::new(one, ());
    let mut two = Device::<Shown<[u32; 2]>, _>::new(two, ());
    let mut none = Device::<Shown<()>, _>::new(none, ());
    let set = Set::new(Devs {
        small: StagedDevice::eager(small, ()).unwrap(),
        large: StagedDevice::new(large, ()),
        ring,
    });
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .map_err(|r| r.error)
        .unwrap();
    let own = [
        stores(|| one.change((), |c, ()| *c += 1).unwrap()),
        stores(|| two.change((), |c, ()| c[0] += 1).unwrap()),
        stores(|| none.change((), |_, ()| ()).unwrap()),
    ];
    let bare = stores(|| {
        rt.step_with(&set, (), |_, _, ()| Ok(()))
            .map_err(|e| e.error)
            .unwrap()
    });
    let staged = stores(|| {
        let done = rt.step_with(&set, (), |step, _, ()| {
            Ok(step.token().small.change(step, |c| *c += 1)?)
        });
        done.map_err(|e| e.error).unwrap()
    });
    let large = stores(|| {
        let done = rt.step_with(&set, (), |step, _, ()| {
            Ok(step.token().large.change(step, |c| c[1] += 1)?)
        });
        done.map_err(|e| e.error).unwrap()
    });
    let post = stores(|| assert_eq!(set.ring.post(7), Posted::Stored));
    let handled = stores(|| {
        let done = rt.step_with(&set, (), |step, _, ()| {
            step.token().ring.take(step)?;
            Ok(())
        });
        done.map_err(|e| e.error).unwrap()
    });
    assert_eq!(set.ring.waiting(), 0);
    [
        own[0],
        own[1],
        own[2],
        staged - bare,
        large - bare,
        post,
        handled - bare,
        bare,
    ]
}

#[test]
fn documented_costs() {
    assert_eq!(costs::<InOrder32>(), [1, 1, 0, 2, 2, 1, 2, 1]);
    assert_eq!(costs::<InOrder16>(), [1, 1, 0, 2, 2, 1, 2, 1]);
}

/// A host runs calls on the stack of the program: a panic in one reaches who has made it.
#[test]
fn a_panic_on_a_call_stack() {
    let mut bytes = nv_device::StackBytes::<512>::NEW;
    let mut calls = nv_device::CallStack::new(&mut bytes);
    let stops = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        calls.run(|| panic!("the sensor is gone"))
    }));
    assert!(stops.is_err());
    assert_eq!(calls.run(|| 7), 7);
}
