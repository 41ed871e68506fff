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
use nvmem::at_rest::AtRest;
use nvmem::device::Medium;
use nvmem::{InOrder32, Ram, Region};
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

type Opened<'m, 'a, D> = (Any<'m, 'a, D>, Region<'m, Ram>);

impl Open {
    fn fault(self) -> Fault {
        let (Open::Found(fault) | Open::Formatted(fault)) = self;
        fault
    }

    fn run<'m, 'a, D: Medium>(
        self,
        medium: Faulty<'a, D>,
        waits: bool,
        or_format: bool,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> Ended<Opened<'m, 'a, D>> {
        let all = 0..Medium::capacity(&medium);
        medium.meter.begin(self.fault());
        match (self, waits) {
            (Open::Found(fault), true) if or_format => {
                let open = asynch::Mirror::open_or_format(medium, all, config, memory);
                polled(open, fault).map(|o| o.map(|(m, r)| (Any::Waiting(m), r)))
            }
            (Open::Found(_), false) if or_format => {
                let open = Mirror::open_or_format(medium, all, config, memory);
                Some(open.map(|(m, r)| (Any::Blocking(m), r)))
            }
            (Open::Found(fault), true) => {
                let open = asynch::Mirror::open(medium, all, config, memory);
                polled(open, fault).map(|o| o.map(|(m, r)| (Any::Waiting(m), r)))
            }
            (Open::Formatted(fault), true) => {
                let format = asynch::Mirror::format(medium, all, config, memory);
                polled(format, fault).map(|o| o.map(|(m, r)| (Any::Waiting(m), r)))
            }
            (Open::Found(_), false) => {
                let open = Mirror::open(medium, all, config, memory);
                Some(open.map(|(m, r)| (Any::Blocking(m), r)))
            }
            (Open::Formatted(_), false) => {
                let format = Mirror::format(medium, all, config, memory);
                Some(format.map(|(m, r)| (Any::Blocking(m), r)))
            }
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

    fn save<S: AtRest>(&mut self, how: How, fault: Fault, store: &mut S) -> Ended<()> {
        match (self, how) {
            (Any::Blocking(m), How::Durable) => Some(m.durable(store)),
            (Any::Blocking(m), How::Committed) => Some(m.committed(store)),
            (Any::Blocking(m), How::IfDue) => Some(m.durable_if_due(store)),
            (Any::Blocking(m), How::MakeRoom) => Some(m.make_room(store)),
            (Any::Waiting(m), How::Durable) => polled(m.durable(store), fault),
            (Any::Waiting(m), How::Committed) => polled(m.committed(store), fault),
            (Any::Waiting(m), How::IfDue) => polled(m.durable_if_due(store), fault),
            (Any::Waiting(m), How::MakeRoom) => polled(m.make_room(store), fault),
        }
    }
}

impl<D: Medium> Any<'_, '_, D> {
    /// Makes the content durable. `change` runs after so many polls of the async form, or at the
    /// end.
    fn save_while<'s, S: Store<'s>>(
        &mut self,
        store: &mut S,
        polls: u8,
        change: impl FnOnce(&mut S),
    ) {
        let (Any::Waiting(mirror), Some(mut shared)) = (&mut *self, store.shared()) else {
            let saved = self.save(How::Durable, Fault::Never, store);
            assert_eq!(saved, Some(Ok(())));
            return change(store);
        };
        let mut save = pin!(mirror.durable(&mut shared));
        let mut context = Context::from_waker(Waker::noop());
        let mut early = Poll::Pending;
        for _ in 0..polls {
            if early.is_pending() {
                early = save.as_mut().poll(&mut context);
            }
        }
        change(store);
        let saved = match early {
            Poll::Ready(saved) => Some(saved),
            Poll::Pending => polled(save, Fault::Never),
        };
        assert_eq!(saved, Some(Ok(())));
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
    refuses_too_few_segments(&mut nv);
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
        let memory = &mut memory[..2 * words];
        let opened = open.run(medium, waits, setting.or_format, &config, memory);
        assert!(
            formats || judge.may_write() || !meter.has_written(),
            "an open has written"
        );
        let (mut mirror, region) = match opened {
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
        let mut other = [MaybeUninit::new(0); 4];
        let mut stranger = Region::<Ram>::new(&mut other);
        let refused = mirror.save(How::Durable, Fault::Never, &mut stranger);
        assert_eq!(refused, Some(Err(MirrorError::OtherRegion)));
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

fn refuses_too_few_segments<D: Medium>(nv: &mut D) {
    let least = if D::CONTRACT.erase.is_some() { 3 } else { 2 };
    let config = Config {
        segments: least - 1,
        ..Config::DEFAULT
    };
    let (all, mut memory) = (0..nv.capacity(), [MaybeUninit::new(0); 4]);
    let opened = Mirror::open::<InOrder32>(nv, all, &config, &mut memory);
    assert!(
        matches!(opened, Err(MirrorError::BadSegments)),
        "too few segments"
    );
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
            Op::SaveWhile { from, polls } => {
                for i in usize::from(from)..usize::from(from) + 2 {
                    if let Some(w) = to.words.get_mut(i) {
                        *w = value;
                    }
                }
                judge.begins_save_while(&state, &to);
                meter.begin(Fault::Never);
                mirror.save_while(store, polls, |store| store.change(&state, &to));
                judge.ended_while(&state, &to);
                judge.changed(S::HAS_OBJECTS);
                state = to;
                continue;
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
                if let Some(Err(MirrorError::OtherMirror)) = &ended {
                    judge.looks_like_two();
                    world.update(|w| w.at += 1);
                    return Some(Open::Found(Fault::Never));
                }
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
