//! Programs with an environment: drivers that inputs, loops and outputs get, and steps do not.

use embedded_hal::digital::{self, OutputPin};
use embedded_hal::i2c::{self, I2c, Operation};
use nv_replay::nvmem::{InOrder16, InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{AnyOutlet, Error, Message, NotNow, Options, Outlet, Port, Replay};
use powerfail::{Mapped, World, explore};
use std::cell::Cell;
use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A driver for a thermometer, as a crate for `embedded-hal` has it.
struct Thermometer<B> {
    bus: B,
    /// Drivers keep state of their own: the register that the device's pointer is at.
    pointer: Option<u8>,
}
impl<B: I2c> Thermometer<B> {
    const ADDRESS: u8 = 0x48;
    fn new(bus: B) -> Self {
        let pointer = None;
        Thermometer { bus, pointer }
    }
    fn celsius(&mut self) -> Result<i16, B::Error> {
        let mut raw = [0; 2];
        if self.pointer != Some(0) {
            self.bus.write(Self::ADDRESS, &[0])?;
            self.pointer = Some(0);
        }
        self.bus.read(Self::ADDRESS, &mut raw)?;
        Ok(i16::from_be_bytes(raw) >> 4)
    }
}

/// The outside world: it survives power cuts.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Outside {
    conversions: u16,
    received: Vec<i16>,
    done: bool,
}

/// A bus with the thermometer, which forgets its pointer without power.
struct Bus<'a, 'r> {
    world: &'a World<'r, Outside>,
    pointer: u8,
}
impl i2c::ErrorType for Bus<'_, '_> {
    type Error = Infallible;
}
impl I2c for Bus<'_, '_> {
    fn transaction(&mut self, _: u8, operations: &mut [Operation<'_>]) -> Result<(), Infallible> {
        for operation in operations {
            match operation {
                Operation::Write(bytes) => self.pointer = bytes[0],
                Operation::Read(bytes) => {
                    assert_eq!(self.pointer, 0, "the driver's state is that of its device");
                    self.world.update(|w| w.conversions += 1);
                    let n = self.world.with(|w| w.conversions);
                    bytes.copy_from_slice(&(n << 4).to_be_bytes());
                }
            }
        }
        Ok(())
    }
}

/// A lamp that is lit while a sample is taken.
#[derive(Default)]
struct Lamp {
    lit: bool,
    switched: u32,
}
impl digital::ErrorType for Lamp {
    type Error = Infallible;
}
impl OutputPin for Lamp {
    fn set_low(&mut self) -> Result<(), Infallible> {
        (self.lit, self.switched) = (false, self.switched + 1);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        (self.lit, self.switched) = (true, self.switched + 1);
        Ok(())
    }
}

/// What the program sets up at each boot.
struct Devices<'a, 'r> {
    thermometer: Thermometer<Bus<'a, 'r>>,
    lamp: Lamp,
    world: &'a World<'r, Outside>,
    /// For a program that keeps state where it must not.
    volatile: i16,
}
impl<'a, 'r> Devices<'a, 'r> {
    fn new(world: &'a World<'r, Outside>) -> Self {
        let bus = Bus { world, pointer: 9 };
        Devices {
            thermometer: Thermometer::new(bus),
            lamp: Lamp::default(),
            world,
            volatile: 0,
        }
    }
}
static RADIO: Port<i16> = Port::new(1);
impl Outlet for Devices<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        assert!(!self.lamp.lit, "an output has the other drivers too");
        let v = m.get(&RADIO).expect("the port").expect("a value");
        self.world
            .update(|w| match w.received.get(m.number as usize) {
                Some(known) => assert_eq!(*known, v),
                None => w.received.push(v),
            });
        Ok(())
    }
}

#[derive(Persist, Default)]
#[repr(C)]
struct Log {
    samples: u32,
    sum: i32,
}
type Station<'m, 'a, 'r, M> = Replay<'m, Log, M, Devices<'a, 'r>>;

fn boot<'m, 'a, 'r, M: Model>(
    nv: Region<'m, M>,
    world: &'a World<'r, Outside>,
) -> Station<'m, 'a, 'r, M>
where
    M::Unit: Width,
{
    let options = Options {
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    Replay::open_with(nv, options, Devices::new(world), |_| Ok(Log::default())).expect("opens")
}

/// A sample in each iteration; the drivers come from the environment.
fn program<M: Model>(rt: &mut Station<'_, '_, '_, M>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.each(0..3, |rt, i| {
        let Ok(()) = rt.env().lamp.set_high();
        let celsius = rt.input(|devices| {
            let Ok(celsius) = devices.thermometer.celsius();
            celsius
        })?;
        let Ok(()) = rt.env().lamp.set_low();
        rt.step((i, celsius), |tx, log, (_, celsius)| {
            let mut log = log.fields(tx);
            *log.samples.get_mut()? += 1;
            *log.sum.get_mut()? += i32::from(celsius);
            tx.send(&RADIO, celsius)
        })?;
        Ok(())
    })
}

fn life<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>)
where
    M::Unit: Width,
{
    let mut rt = boot::<M>(nv, world);
    program(&mut rt).expect("runs");
    let (samples, sum) = rt
        .step((), |tx, log, ()| {
            let log = log.get(tx);
            Ok((log.samples, log.sum))
        })
        .expect("reads");
    let received = world.with(|w| w.received.clone());
    let sent: i32 = received.iter().map(|v| i32::from(*v)).sum();
    assert_eq!((samples, sum, received.len()), (3, sent, 3));
    assert!(received.is_sorted_by(|a, b| a < b), "{received:?}");
    world.update(|w| w.done = true);
}

#[test]
fn drivers_under_cuts() {
    fn run<M: Model>()
    where
        M::Unit: Width,
    {
        let s = explore(Mapped::<M>::new(2048), |nv, world| life::<M>(nv, world))
            .world(Outside::default())
            .depth(2)
            .run();
        assert!(s.partial || s.boots > 20, "{s}");
    }
    run::<InOrder16>();
    run::<InOrder32>();
}

/// A bypassed input is not read again.
#[test]
fn an_input_is_read_once() {
    struct Counter<'a>(&'a Cell<u32>);
    impl Outlet for Counter<'_> {}
    let reads = Cell::new(0);
    let mut memory = vec![MaybeUninit::new(0u64); 256];
    for _ in 0..3 {
        let region = Region::<InOrder32>::new(&mut memory);
        let counter = Counter(&reads);
        let mut rt =
            Replay::<u32, _, _>::open_with(region, Options::default(), counter, |_| Ok(0u32))
                .unwrap();
        for k in 0..2 {
            let name = rt.named(k);
            let read = |c: &mut Counter<'_>| c.0.replace(c.0.get() + 1);
            assert_eq!(name.input(read), Ok(k));
        }
        assert!(rt.is_live());
    }
    assert_eq!(reads.get(), 2);
}

/// A program that carries a value from one iteration to the next in its environment. In a run
/// without cuts it works. After a cut the value is that of the boot.
fn keeps_state_in_a_driver(nv: Region<'_, InOrder32>, world: &World<'_, Outside>) {
    let mut rt = boot(nv, world);
    rt.each(0..3, |rt, _| {
        let celsius = rt.input(|_| 5i16)?;
        rt.env().volatile += celsius;
        let sum = rt.env().volatile;
        rt.step(sum, |tx, log, sum| {
            *log.fields(tx).sum.get_mut()? = i32::from(sum);
            Ok(())
        })?;
        Ok(())
    })
    .expect("runs");
    let sum = rt.step((), |tx, log, ()| Ok(log.get(tx).sum)).expect("sum");
    assert_eq!(sum, 15, "the program's result");
    world.update(|w| w.done = true);
}

#[test]
fn state_in_a_driver_is_found() {
    let failure = explore(Mapped::<InOrder32>::new(2048), |nv, world| {
        keeps_state_in_a_driver(nv, world)
    })
    .world(Outside::default())
    .try_run()
    .expect_err("the campaign notices");
    let report = failure.to_string();
    let diverged = report.contains("does not match its records") || report.contains("Diverged");
    assert!(
        diverged || report.contains("the program's result"),
        "{report}"
    );
}

/// An input or a loop's body that panics leaves the environment as it is, and the memory whole.
#[test]
fn an_input_unwinds() {
    struct Sensor {
        broken: bool,
        repairs: u32,
    }
    impl Outlet for Sensor {}
    fn read(s: &mut Sensor) -> u32 {
        assert!(!s.broken, "the sensor is broken");
        7
    }
    let mut memory = vec![MaybeUninit::new(0u64); 256];
    let region = Region::<InOrder32>::new(&mut memory);
    let mut sensor = Sensor {
        broken: true,
        repairs: 0,
    };
    let options = Options::default();
    let mut rt =
        Replay::<u32, _, _>::open_with(region, options, &mut sensor, |_| Ok(0u32)).unwrap();
    catch_unwind(AssertUnwindSafe(|| rt.input(|s| read(s)))).expect_err("unwinds");
    rt.env().broken = false;
    rt.env().repairs += 1;
    assert_eq!(rt.input(|s| read(s)), Ok(7));
    rt.env().broken = true;
    let looped = || rt.each(0..2, |rt, _| rt.input(|s| read(s)).map(|_| ()));
    catch_unwind(AssertUnwindSafe(looped)).expect_err("unwinds");
    // The loop was left, so the runtime has stopped; the environment has not.
    rt.env().broken = false;
    assert_eq!(rt.input(|s| read(s)), Err(Error::LoopInterrupted));
    let region = rt.close();
    assert_eq!((sensor.broken, sensor.repairs), (false, 1));
    let mut rt =
        Replay::<u32, _, _>::open_with(region, Options::default(), sensor, |_| Ok(0u32)).unwrap();
    assert_eq!(rt.input(|s| s.repairs), Ok(7), "recorded");
    let looped = rt.each(0..2, |rt, _| rt.input(read).map(|_| ()));
    assert_eq!(looped, Ok(()));
}

/// An environment of one thread: the runtime works in it, and stays there.
#[test]
fn an_environment_need_not_be_send() {
    struct Shared(Rc<Cell<u32>>);
    impl Outlet for Shared {}
    let count = Rc::new(Cell::new(3));
    let mut memory = vec![MaybeUninit::new(0u64); 256];
    let region = Region::<InOrder32>::new(&mut memory);
    let shared = Shared(count.clone());
    let mut rt =
        Replay::<u32, _, _>::open_with(region, Options::default(), shared, |_| Ok(0u32)).unwrap();
    assert_eq!(rt.input(|s| s.0.get()), Ok(3));
    drop(rt);
    assert_eq!(Rc::strong_count(&count), 1, "the environment is dropped");
}

/// An open that fails drops the environment, wherever it fails.
#[test]
fn a_failed_open_drops_the_environment() {
    struct Shared(#[expect(dead_code)] Rc<()>);
    impl Outlet for Shared {}
    let count = Rc::new(());
    let open = |memory: &mut [MaybeUninit<u64>], version, update| {
        let options = Options {
            version,
            update,
            ..Options::default()
        };
        let region = Region::<InOrder32>::new(memory);
        let shared = Shared(count.clone());
        let opened = Replay::<u32, _, _>::open_with(region, options, shared, |_| Ok(0u32));
        let opened = opened.map(|mut rt| rt.record(1u8).expect("room"));
        opened.map_err(|e| e.error)
    };
    let mut memory = vec![MaybeUninit::new(0u64); 256];
    open(&mut memory, 0, nv_replay::Update::Refuse).expect("opens");
    open(&mut memory, 1, nv_replay::Update::Refuse).expect_err("another version");
    open(&mut memory, 1, nv_replay::Update::Keep(9)).expect_err("too many");
    open(&mut [], 1, nv_replay::Update::Refuse).expect_err("no room");
    assert_eq!(Rc::strong_count(&count), 1);
}

/// A runtime goes to another thread if its environment may.
#[test]
fn a_runtime_is_send_if_its_environment_is() {
    const fn is_send<T: Send>() {}
    const {
        is_send::<Replay<'static, u32, InOrder32, ()>>();
        is_send::<Replay<'static, u32, InOrder16, &'static mut (dyn Outlet + Send)>>();
    }
    let mut memory = vec![MaybeUninit::new(0u64); 256];
    let region = Region::<InOrder32>::new(&mut memory);
    let mut rt =
        Replay::<u32, _, _>::open_with(region, Options::default(), (), |_| Ok(0u32)).unwrap();
    rt.record(5u8).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            rt.step(1, |tx, n, k| {
                *n.get_mut(tx)? += k;
                Ok(())
            })
            .unwrap()
        });
    });
    let n = rt.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap();
    assert_eq!(n, 1);
    // The size of a program without an environment: one pointer to its outlet.
    let outlet = size_of::<AnyOutlet<'static>>();
    let without = size_of::<Replay<'static, u32, InOrder32, ()>>();
    assert_eq!(size_of::<Replay<'static, u32>>(), without + outlet);
}
