//! Events that interrupts have posted, until a step handles them.
//!
//! ```text
//!  top half (interrupt)                        bottom half (a step)
//!    ring full?  no: slot[n mod N] = n, value    take(): the event at the position, in RAM
//!                yes: lost = lost + 1            join: position + 1, staged with the step
//!    one store, and a fence behind it            commit, settle
//!
//!  | valid, number, value | x N slots     | lost |   | position | told |
//!    one unit each, settled                            tagged, committed by steps
//! ```
//!
//! A slot's number distinguishes a new event from one of an earlier round, so no word says where
//! the ring ends. At open, the events are those from the committed position on whose numbers follow
//! each other. Numbers have 7 bits and there are at most 64 slots, so an old number is never the
//! next.
//!
//! A position that is staged does not free its slots: the top half looks at the committed one, in
//! RAM. So a step that is undone finds its events again. Only interrupts store `lost`, and only
//! steps store `told`: the losses that a step has seen. Their difference is what no step knows yet.
//! No word has two writers, so nothing masks interrupts for longer than a store.

use crate::context::{Resolver, StagedContext, wide};
use crate::error::CallError;
use crate::open::{Described, Item, Numbers, sealed};
use crate::set::{Entry, Joined, Key, OfSet, Set};
use core::cell::Cell;
use core::convert::Infallible;
use core::marker::PhantomData;
use nv_replay::Step;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::{Model, Region, Unit, Units, planted};

/// A ring for `N` events of one source, a power of two up to 64: an item of
/// [`open`](crate::open()).
pub struct Ring<const N: usize>(PhantomData<[(); N]>);

/// An event that a step handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What the interrupt has posted.
    pub value: u32,
    /// A number that is the same if the event is handled again after a power cut. It comes round
    /// after 128 events.
    pub number: u8,
}

/// What `post` has done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an event that is not stored is lost"]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Posted {
    /// It is stored, and survives.
    Stored,
    /// The ring is full. It is counted: [`Events::lost`].
    Counted,
    /// The value is too large: more than 24 bits, or 8 bits with units of 16 bits.
    Refused,
}

/// The events of one source: an interrupt posts them, and steps handle them, in order.
///
/// An interrupt and a thread share it in critical sections, for example as a
/// `critical_section::Mutex<Events<…>>`. Then [`Devices::list`](crate::Devices::list) has it by
/// [`within`](crate::within).
///
/// ```
/// use nv_device::nvmem::{InOrder32, Region};
/// use nv_device::nv_replay::{Config, Error, Options, Replay, last_committed};
/// use nv_device::{Committed, Devices, Events, Members, Posted, Ring, Set, open};
///
/// struct Node<'m> { buttons: Events<'m, 8, InOrder32> }  // shared: in a Mutex, listed by `within`
/// impl Devices for Node<'_> {
///     fn list(&self) -> impl Members { &self.buttons }
/// }
///
/// fn boot(fram: Region<'_, InOrder32>) -> Result<u32, Box<dyn std::error::Error>> {
///     let (contexts, rest) = fram.split_at(256).map_err(|(e, _)| e)?;
///     let number = last_committed(&rest)?;
///     let committed = Committed::of(number, &Config::DEFAULT);
///     let (buttons,) = open::<(Ring<8>,), _>(contexts, committed, ((),))?;
///     let node = Set::new(Node { buttons });
///     let mut rt = Replay::<u32>::open(rest, Options::default(), |_| Ok(0)).map_err(|r| r.error)?;
///     assert_eq!(node.buttons.post(3), Posted::Stored); // the interrupt: it survives from now on
///     let presses = rt.step_with(&node, (), |step, presses, ()| {
///         while let Some(event) = step.token().buttons.take(step)? {
///             *presses.get_mut(step)? += event.value;
///         }
///         if step.token().buttons.lost(step)? > 0 { /* the ring was full */ }
///         Ok(*presses.get(step))
///     });
///     Ok(presses.map_err(Error::from)?)
/// }
/// # let mut fram = [const { core::mem::MaybeUninit::new(0u64) }; 256];
/// # assert_eq!(boot(Region::new(&mut fram))?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events<'m, const N: usize, M> {
    slots: Units<'m, M, N>,
    /// How many were lost, modulo 256.
    losses: Units<'m, M, 1>,
    /// The number of the next event, and the losses: those that interrupts change.
    head: Cell<u8>,
    lost: Cell<u8>,
    /// What steps have committed, as interrupts see it.
    position: Cell<u8>,
    told: Cell<u8>,
    /// The same on the medium.
    handled: StagedContext<'m, Handled, M>,
    /// What the running step makes of it. The same as the committed one where no step runs.
    staged: Cell<Handled>,
    /// What the running step has done with it.
    mark: Cell<Mark>,
    key: Cell<Key>,
}

/// Position, and losses that a step has seen.
type Handled = [u8; 2];

/// What a step has done with events.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Unused,
    Changed,
    /// They are staged for a commit that has begun.
    Staged,
}

/// Numbers have 7 bits.
const NUMBERS: u8 = 0x7F;

impl<const N: usize, M: Model> Events<'_, N, M> {
    const VALUE_BITS: u32 = if wide::<M>() { 24 } else { 8 };

    const CHECK: () = assert!(
        N.is_power_of_two() && N <= 64,
        "a ring has 1, 2, 4, 8, 16, 32 or 64 slots"
    );

    /// The slots.
    const SLOTS_BYTES: usize = (N * M::Unit::BYTES).next_multiple_of(8);
    /// The count of losses.
    const LOSSES_BYTES: usize = 8;

    fn at(number: u8) -> usize {
        number as usize & (N - 1)
    }

    fn word(number: u8, value: u32) -> u32 {
        (0x80 | u32::from(number)) << Self::VALUE_BITS | value
    }

    /// The value of the event of this number, if there is one.
    fn event(&self, number: u8) -> Option<u32> {
        let word = self.slots.load(Self::at(number))?;
        let mut same = word >> Self::VALUE_BITS == u32::from(0x80 | number);
        if planted!("nv-device/old-events-count") {
            same = word >> Self::VALUE_BITS & 0x80 != 0;
        }
        same.then_some(word & ((1 << Self::VALUE_BITS) - 1))
    }

    fn set<T>(&self, set: &Set<T>, handled: Handled) {
        self.staged.set(handled);
        if self.mark.replace(Mark::Changed) == Mark::Unused {
            set.counts()
        }
    }

    /// These events are used by a step of this set.
    ///
    /// **Errors**: [`CallError::Forgotten`].
    fn enter_step<T>(&self, set: &Set<T>) -> Result<(), CallError<Infallible>> {
        if set.has(self.key.get()) {
            Ok(())
        } else {
            Err(CallError::Forgotten)
        }
    }
}

impl<const N: usize, M: Model> Events<'_, N, M> {
    // INVARIANT "A slot until it is handled": a slot is overwritten only when the position after it
    // has committed.
    // Noticed by: planted `unhandled-overwritten`, `position-apart`.

    /// Posts an event: the top half of an interrupt.
    ///
    /// **Power loss**: before the store the event never happened; after it, it is handled.
    /// **Cost**: one store and a fence, a bounded number of instructions. If the ring is full, the
    /// store counts the loss, up to 255 that no step has seen.
    #[inline(always)]
    pub fn post(&self, value: u32) -> Posted {
        if value >> Self::VALUE_BITS != 0 {
            return Posted::Refused;
        }
        let number = self.head.get();
        let waiting = number.wrapping_sub(self.position.get()) & NUMBERS;
        let full = usize::from(waiting) >= N && !planted!("nv-device/unhandled-overwritten");
        if full {
            let lost = self.lost.get();
            let mut more = lost.wrapping_sub(self.told.get()) < u8::MAX;
            if planted!("nv-device/losses-come-round") {
                more = true;
            }
            if more && !planted!("nv-device/overflow-not-counted") {
                self.lost.set(lost.wrapping_add(1));
                self.losses.store(0, self.lost.get().into());
            }
            return Posted::Counted;
        }
        self.slots
            .store(Self::at(number), Self::word(number, value));
        self.head.set((number + 1) & NUMBERS);
        Posted::Stored
    }

    /// How many events wait, apart from what the running step has taken.
    pub fn waiting(&self) -> usize {
        let waiting = self.head.get().wrapping_sub(self.position.get());
        (waiting & NUMBERS).into()
    }

    /// The next event. It is handled if and only if the step commits; else the next attempt takes
    /// the same one.
    ///
    /// **Power loss**: happens with the step or not at all. **Cost**: when the step commits, two or
    /// three stores for all events and losses that it has taken. **Errors**:
    /// [`CallError::Forgotten`].
    pub fn take<K: OfSet>(
        &self,
        step: &Step<'_, '_, M, K>,
    ) -> Result<Option<Event>, CallError<Infallible>> {
        self.enter_step(step.token().set())?;
        let mut handled = self.staged.get();
        let [number, _] = handled;
        if number == self.head.get() {
            return Ok(None);
        }
        let Some(value) = self.event(number) else {
            return Ok(None);
        };
        handled[0] = (number + 1) & NUMBERS;
        self.set(step.token().set(), handled);
        if planted!("nv-device/position-apart") {
            self.handled.put_settled(handled);
        }
        Ok(Some(Event { value, number }))
    }

    /// How many events were lost since a step has asked, because the ring was full. They came after
    /// those that were in the ring then.
    ///
    /// **Power loss**, **Cost**, **Errors**: as for [`Events::take`]; no store if there were none.
    pub fn lost<K: OfSet>(&self, step: &Step<'_, '_, M, K>) -> Result<u8, CallError<Infallible>> {
        self.enter_step(step.token().set())?;
        let [position, told] = self.staged.get();
        let now = self.lost.get();
        let lost = now.wrapping_sub(told);
        if lost > 0 {
            self.set(step.token().set(), [position, now]);
        }
        Ok(lost)
    }
}

impl<const N: usize, M: Model> Joined for Events<'_, N, M> {
    fn enter(&self, entry: &mut Entry) {
        entry.add(&self.key, self.handled.address(), self.handled.owner())
    }

    #[inline(always)]
    fn used(&self) -> u8 {
        (self.mark.get() != Mark::Unused).into()
    }

    #[inline(always)]
    fn stage(&self, number: u32) -> bool {
        if self.mark.get() != Mark::Changed {
            return false;
        }
        self.handled.stage(number, self.staged.get());
        self.mark.set(Mark::Staged);
        true
    }

    fn revert(&self) -> bool {
        let staged = self.mark.get() == Mark::Staged;
        if staged {
            self.handled.revert();
            self.mark.set(Mark::Changed);
        }
        staged
    }

    #[inline(always)]
    fn finish(&self) -> bool {
        if self.mark.get() != Mark::Staged {
            return false;
        }
        self.mark.set(Mark::Unused);
        let staged = self.staged.get();
        self.handled.settle(staged);
        let [position, told] = staged;
        self.position.set(position);
        self.told.set(told);
        true
    }

    fn fall_behind(&self) {
        self.finish();
    }

    fn show(&self) {}

    fn undone(&self) -> bool {
        if self.mark.get() != Mark::Changed {
            return false;
        }
        self.mark.set(Mark::Unused);
        self.staged.set(self.handled.value());
        true
    }
}

impl<const N: usize> sealed::Sealed for Ring<N> {}
impl<const N: usize, M: Model> Item<M> for Ring<N> {
    type Initial = ();
    type Open<'m> = Events<'m, N, M>;
    const BYTES: usize = Events::<N, M>::SLOTS_BYTES
        + Events::<N, M>::LOSSES_BYTES
        + StagedContext::<Handled, M>::BYTES;
    const TYPE: u64 = type_hash::<Handled>("device events").rotate_left(N as u32);
    const DESCRIBED: Described = Described::Ring(N);

    fn format<'m>(region: Region<'m, M>, (): (), by: Numbers) -> Option<Events<'m, N, M>> {
        let () = Events::<N, M>::CHECK;
        let (mut slots, rest) = region.split_at(Events::<N, M>::SLOTS_BYTES).ok()?;
        let (mut losses, handled) = rest.split_at(Events::<N, M>::LOSSES_BYTES).ok()?;
        slots.clear();
        losses.clear();
        let handled = StagedContext::format(handled, [0; 2], by.0)?;
        Some(of(Units::new(slots)?, Units::new(losses)?, handled))
    }

    // INVARIANT "Numbers follow each other": the events that count are those from the position on
    // with the next numbers. 64 slots at most, 128 numbers.
    // Noticed by: planted `old-events-count`.

    fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Option<Events<'m, N, M>> {
        let () = Events::<N, M>::CHECK;
        let (slots, rest) = region.split_at(Events::<N, M>::SLOTS_BYTES).ok()?;
        let (losses, handled) = rest.split_at(Events::<N, M>::LOSSES_BYTES).ok()?;
        let by: Resolver = by.0;
        let handled = StagedContext::<Handled, M>::recover(handled, by)?;
        if handled.value()[0] > NUMBERS {
            return None;
        }
        let events = of::<N, M>(Units::new(slots)?, Units::new(losses)?, handled);
        events.lost.set(u8::try_from(events.losses.load(0)?).ok()?);
        for _ in 0..N {
            let number = events.head.get();
            if events.event(number).is_none() {
                break;
            }
            events.head.set((number + 1) & NUMBERS);
        }
        Some(events)
    }
}

fn of<'m, const N: usize, M: Model>(
    slots: Units<'m, M, N>,
    losses: Units<'m, M, 1>,
    handled: StagedContext<'m, Handled, M>,
) -> Events<'m, N, M> {
    let staged = handled.value();
    let [position, told] = staged;
    Events {
        slots,
        losses,
        head: Cell::new(position),
        lost: Cell::new(0),
        position: Cell::new(position),
        told: Cell::new(told),
        handled,
        staged: Cell::new(staged),
        mark: Cell::new(Mark::Unused),
        key: Cell::new(Key::FREE),
    }
}
