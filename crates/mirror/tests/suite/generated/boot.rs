//! Runs a program from the operation where the last boot was cut.

use super::judge::{Judge, Seen, Setting};
use super::media::{Failed, Fault, Faulty, Meter};
use super::program::{How, Op, Program, nth, nth_boot};
use super::store::{Kind, MOST_WORDS, State, Store};
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use nv_mirror::{Config, Durability, Mirror, MirrorError, asynch};
use nvmem::device::Medium;
use nvmem::{InOrder32, Region};
use powerfail::World;

/// One boot of a program.
pub fn boot<S: Kind, D: Medium>(
    nv: D,
    world: &World<'_, Seen>,
    setting: &Setting,
    program: &Program,
) {
    let next = |at: u32| program.ops.get(at as usize).copied();
    run::<S, D>(
        nv,
        world,
        setting,
        (program.waits, program.durability),
        next,
    );
}

/// One boot of a life that does not end, with operations from a seed.
pub fn forever<S: Kind, D: Medium>(nv: D, world: &World<'_, Seen>, setting: &Setting, seed: u64) {
    let form = nth_boot(seed, world.get().at);
    run::<S, D>(nv, world, setting, form, |at| Some(nth(seed, at)));
}

/// Either form of the mirror.
enum Any<'m, 'a, D> {
    Blocking(Mirror<'m, Faulty<'a, D>>),
    Waiting(asynch::Mirror<'m, Faulty<'a, D>>),
}

/// `None`: the future was dropped.
type Ended<T> = Option<Result<T, MirrorError<Failed>>>;

fn polled<T>(future: impl Future<Output = T>, fault: Fault) -> Option<T> {
    let most = match fault {
        Fault::Dropped(n) => n.into(),
        _ => 1_000_000,
    };
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..most {
        if let Poll::Ready(t) = future.as_mut().poll(&mut context) {
            return Some(t);
        }
    }
    assert!(
        matches!(fault, Fault::Dropped(_)),
        "a future that does not end"
    );
    None
}

/// How a mirror is opened, and what the medium meets then.
#[derive(Clone, Copy)]
enum Open {
    Found(Fault),
    Formatted(Fault),
}

type Opened<'m, 'a, D> = (Any<'m, 'a, D>, Region<'m, InOrder32>);

impl Open {
    fn fault(self) -> Fault {
        let (Open::Found(fault) | Open::Formatted(fault)) = self;
        fault
    }

    fn run<'m, 'a, D: Medium>(
        self,
        medium: Faulty<'a, D>,
        waits: bool,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> Ended<Opened<'m, 'a, D>> {
        let all = 0..Medium::capacity(&medium);
        medium.meter.begin(self.fault());
        match (self, waits) {
            (Open::Found(fault), true) => {
                let open = polled(asynch::Mirror::open(medium, all, config, memory), fault);
                open.map(|o| o.map(|(mirror, region)| (Any::Waiting(mirror), region)))
            }
            (Open::Formatted(fault), true) => {
                let format = polled(asynch::Mirror::format(medium, all, config, memory), fault);
                format.map(|o| o.map(|(mirror, region)| (Any::Waiting(mirror), region)))
            }
            (Open::Found(_), false) => {
                Some(Mirror::open(medium, all, config, memory).map(|(m, r)| (Any::Blocking(m), r)))
            }
            (Open::Formatted(_), false) => Some(
                Mirror::format(medium, all, config, memory).map(|(m, r)| (Any::Blocking(m), r)),
            ),
        }
    }
}

impl<D: Medium> Any<'_, '_, D> {
    fn room(&self) -> u32 {
        match self {
            Any::Blocking(m) => m.room(),
            Any::Waiting(m) => m.room(),
        }
    }

    fn save<'s, S: Store<'s>>(&mut self, how: How, fault: Fault, store: &mut S) -> Ended<()> {
        match (self, how) {
            (Any::Blocking(m), How::Durable) => Some(m.durable(store)),
            (Any::Blocking(m), How::Committed) => Some(m.committed(store)),
            (Any::Blocking(m), How::MakeRoom) => Some(m.make_room(store)),
            (Any::Waiting(m), How::Durable) => polled(m.durable(store), fault),
            (Any::Waiting(m), How::Committed) => polled(m.committed(store), fault),
            (Any::Waiting(m), How::MakeRoom) => polled(m.make_room(store), fault),
        }
    }
}

fn run<S: Kind, D: Medium>(
    mut nv: D,
    world: &World<'_, Seen>,
    setting: &Setting,
    (waits, durability): (bool, Durability),
    mut next: impl FnMut(u32) -> Option<Op>,
) {
    let config = Config {
        segments: setting.segments,
        durability,
    };
    let words = S::At::WORDS;
    let worst = Config::worst_save(8 * words as u32, &D::CONTRACT);
    let meter = Meter::default();
    let mut open = Open::Found(Fault::Never);
    loop {
        let mut judge = Judge::new(world, setting, &D::CONTRACT, worst, durability);
        let formats = matches!(open, Open::Formatted(_));
        if formats {
            judge.begins_format();
        }
        let mut memory = [MaybeUninit::new(0); 2 * MOST_WORDS];
        let medium = Faulty {
            medium: &mut nv,
            meter: &meter,
        };
        let opened = open.run(medium, waits, &config, &mut memory[..2 * words]);
        assert!(formats || !meter.has_written(), "an open has written");
        let (mirror, region) = match opened {
            Some(Ok(opened)) => opened,
            None | Some(Err(MirrorError::Medium(Failed))) => {
                assert!(open.fault() != Fault::Never, "a failure of its own");
                judge.failed();
                open = Open::Found(Fault::Never);
                continue;
            }
            Some(Err(error)) => {
                assert!(!formats, "format: {error:?}");
                if !judge.refused(&error) {
                    return;
                }
                open = Open::Formatted(Fault::Never);
                continue;
            }
        };
        if formats {
            judge.formatted();
        }
        let mut store = S::At::open(region);
        judge.changed(S::At::HAS_OBJECTS);
        let state = store.read();
        if !judge.found(&state) {
            return;
        }
        match life(
            mirror, &mut store, state, &mut judge, world, &meter, &mut next,
        ) {
            Some(then) => open = then,
            None => return,
        }
    }
}

/// The operations until the mirror is opened again. Returns how; `None` at the end.
fn life<'m, D: Medium, S: Store<'m>>(
    mut mirror: Any<'_, '_, D>,
    store: &mut S,
    mut state: State,
    judge: &mut Judge<'_, '_>,
    world: &World<'_, Seen>,
    meter: &Meter,
    next: &mut impl FnMut(u32) -> Option<Op>,
) -> Option<Open> {
    loop {
        let at = world.get().at;
        let value = (at + 1).wrapping_mul(0x9E37_79B1);
        let mut to = state.clone();
        match next(at)? {
            Op::Words {
                from,
                n,
                stride,
                zero,
            } => {
                let places = (usize::from(from)..).step_by(stride.into());
                for i in places.take(n.into()) {
                    if let Some(w) = to.words.get_mut(i) {
                        *w = if zero {
                            0
                        } else {
                            value.wrapping_add(i as u32)
                        };
                    }
                }
            }
            Op::Object { slot, free } => {
                if S::HAS_OBJECTS {
                    to.objects[usize::from(slot)] = (!free).then_some(value);
                }
            }
            Op::Reopen(fault) => {
                world.update(|w| w.at += 1);
                return Some(Open::Found(fault));
            }
            Op::Format(fault) => {
                world.update(|w| w.at += 1);
                return Some(Open::Formatted(fault));
            }
            Op::Save(how, fault) => {
                let due = judge.begins_save(how, &state);
                meter.begin(fault);
                let ended = mirror.save(how, fault, store);
                if let Some(Err(e)) = &ended {
                    assert_eq!(*e, MirrorError::Medium(Failed));
                    assert!(matches!(fault, Fault::Fails(..)), "a failure of its own");
                }
                let room = mirror.room();
                judge.ended((how, due), &state, ended.as_ref(), meter, room);
                continue;
            }
        }
        store.change(&state, &to);
        state = to;
        judge.changed(S::HAS_OBJECTS);
        world.update(|w| w.at += 1);
    }
}
