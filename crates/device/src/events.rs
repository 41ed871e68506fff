//! Events: what interrupts have told, until a step handles it.
//!
//! ```text
//!  top half (interrupt)                        bottom half (a step)
//!    ring full?  no: slot[n mod N] = n, value    take(): the event at the position, in RAM
//!                yes: lost = lost + 1            join: position + 1, staged with the step
//!    one store, and a fence behind it            commit, settle
//!
//!  | valid, number, value | x N slots | lost |       | position | told |
//!    one unit each, settled                            tagged, committed by steps
//! ```
//!
//! A slot's number tells a new event from one of an earlier round, so nobody stores where the ring
//! ends. At open, the events are those from the committed position on whose numbers follow each
//! other. Numbers have 7 bits and there are at most 64 slots, so an old number is never the next.
//!
//! A position that is staged does not free its slots: the top half looks at the committed one, in
//! RAM. So a step that is undone finds its events again. `lost` is stored by interrupts only, and
//! `told` by steps only; their difference is what no step knows yet.

use crate::context::{Resolver, StagedContext, wide};
use crate::error::Code;
use crate::open::{Item, Numbers, sealed};
use crate::set::{Attempt, Joined, Set};
use core::cell::RefCell;
use core::marker::PhantomData;
use nv_replay::Step;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::{Model, Region, Unit, mapped, planted};

/// A ring for `N` events of one source, a power of two up to 64: an item of
/// [`open`](crate::open()).
pub struct Ring<const N: usize>(PhantomData<[(); N]>);

/// An event that a step handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What the interrupt has told.
    pub value: u32,
    /// A number that is the same if the event is handled again after a power cut. It comes round
    /// after 128 events.
    pub number: u8,
}

/// What has become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an event that is not stored is lost"]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Posted {
    /// It is stored, and survives.
    Stored,
    /// The ring is full. It is counted: [`Events::lost`].
    Counted,
    /// The value is too large: more than 24 bits, or 8 bits with units of 16 bits. Or the ring is
    /// in use: the caller is not in a critical section.
    Refused,
}

/// The events of one source: an interrupt posts them, and steps handle them, in order.
///
/// An interrupt and a thread share it in critical sections, for example as a
/// `critical_section::Mutex<Events<…>>`. Then
/// [`Devices::each`](crate::Devices::each) enters a section to call its `f` with it.
pub struct Events<'m, const N: usize, M> {
    inner: RefCell<Inner<'m, N, M>>,
}

/// What steps have committed.
type Handled = [u8; 2];
const POSITION: usize = 0;
const TOLD: usize = 1;

struct Inner<'m, const N: usize, M> {
    slots: Region<'m, M>,
    /// The committed position and count of losses that were told.
    handled: StagedContext<'m, Handled, M>,
    staged: Handled,
    attempt: Attempt,
    /// The number of the next event.
    head: u8,
    /// How many were lost, modulo 256.
    lost: u8,
}

/// Numbers have 7 bits.
const NUMBERS: u8 = 0x7F;

impl<const N: usize, M: Model> Inner<'_, N, M> {
    const VALUE_BITS: u32 = if wide::<M>() { 24 } else { 8 };

    const CHECK: () = assert!(
        N.is_power_of_two() && N <= 64,
        "a ring has 1, 2, 4, 8, 16, 32 or 64 slots"
    );

    /// The slots and the count of losses.
    const SLOTS_BYTES: usize = ((N + 1) * M::Unit::BYTES).next_multiple_of(8);

    fn at(number: u8) -> usize {
        (number as usize & (N - 1)) * M::Unit::BYTES
    }

    fn word(number: u8, value: u32) -> u32 {
        (0x80 | u32::from(number)) << Self::VALUE_BITS | value
    }

    #[inline(always)]
    fn store(&mut self, at: usize, word: u32) -> bool {
        let stored = if wide::<M>() {
            self.slots.write_value(at, &word)
        } else {
            self.slots.write_value(at, &(word as u16))
        };
        mapped::fence::<M>();
        stored.is_ok()
    }

    fn load(&self, at: usize) -> u32 {
        if wide::<M>() {
            self.slots.read_value::<u32>(at).unwrap_or(0)
        } else {
            self.slots.read_value::<u16>(at).unwrap_or(0).into()
        }
    }

    /// The value of the event of this number, if there is one.
    fn event(&self, number: u8) -> Option<u32> {
        let word = self.load(Self::at(number));
        let mut same = word >> Self::VALUE_BITS == u32::from(0x80 | number);
        if planted!("nv-device/old-events-count") {
            same = word >> Self::VALUE_BITS & 0x80 != 0;
        }
        same.then_some(word & ((1 << Self::VALUE_BITS) - 1))
    }

    /// What the attempt sees as handled.
    fn current(&self, attempt: Attempt) -> Handled {
        if self.attempt == attempt {
            self.staged
        } else {
            *self.handled.value()
        }
    }

    fn set<T>(&mut self, set: &Set<T>, handled: Handled) {
        if self.attempt != set.attempt() {
            self.attempt = set.attempt();
            set.one_changed();
        }
        self.staged = handled;
    }
}

impl<const N: usize, M: Model> Events<'_, N, M> {
    /// Posts an event: the top half of an interrupt.
    ///
    /// **Power loss**: before the store the event never happened; after it, it is handled.
    /// **Cost**: one store and a fence, a bounded number of instructions. If the ring is full, the
    /// store counts the loss, up to 255 that were not told.
    #[inline(always)]
    pub fn post(&self, value: u32) -> Posted {
        let Ok(mut inner) = self.inner.try_borrow_mut() else {
            return Posted::Refused;
        };
        let inner = &mut *inner;
        if value >> Inner::<N, M>::VALUE_BITS != 0 {
            return Posted::Refused;
        }
        let handled = inner.handled.value();
        let waiting = inner.head.wrapping_sub(handled[POSITION]) & NUMBERS;
        let full = usize::from(waiting) >= N && !planted!("nv-device/unhandled-overwritten");
        if full {
            let more = inner.lost.wrapping_sub(handled[TOLD]) < u8::MAX;
            if more && !planted!("nv-device/overflow-not-counted") {
                inner.lost = inner.lost.wrapping_add(1);
                inner.store(N * M::Unit::BYTES, inner.lost.into());
            }
            return Posted::Counted;
        }
        let number = inner.head;
        let stored = inner.store(
            Inner::<N, M>::at(number),
            Inner::<N, M>::word(number, value),
        );
        inner.head = (number + 1) & NUMBERS;
        if stored {
            Posted::Stored
        } else {
            Posted::Refused
        }
    }

    /// How many events wait, apart from what the running step has taken.
    pub fn waiting(&self) -> usize {
        let Ok(inner) = self.inner.try_borrow() else {
            return 0;
        };
        let position = inner.handled.value()[POSITION];
        (inner.head.wrapping_sub(position) & NUMBERS).into()
    }

    /// The next event. It is handled if and only if the step commits; else the next attempt takes
    /// the same one.
    ///
    /// **Power loss**: happens with the step or not at all. **Cost**: when the step commits, two or
    /// three stores for all events and losses that it has taken.
    pub fn take<T>(&self, step: &Step<'_, '_, M, Set<T>>) -> Option<Event> {
        let set = step.token();
        let mut inner = self.inner.try_borrow_mut().ok()?;
        let mut handled = inner.current(set.attempt());
        let number = handled[POSITION];
        if number == inner.head {
            return None;
        }
        let value = inner.event(number)?;
        handled[POSITION] = (number + 1) & NUMBERS;
        inner.set(set, handled);
        if planted!("nv-device/position-apart") {
            let _ = inner.handled.put_settled(handled);
        }
        Some(Event { value, number })
    }

    /// How many events were lost since a step has asked, because the ring was full. They came after
    /// those that were in the ring then.
    ///
    /// **Power loss**, **Cost**: as for [`Events::take`]; no store if there were none.
    pub fn lost<T>(&self, step: &Step<'_, '_, M, Set<T>>) -> u8 {
        let set = step.token();
        let Ok(mut inner) = self.inner.try_borrow_mut() else {
            return 0;
        };
        let mut handled = inner.current(set.attempt());
        let lost = inner.lost.wrapping_sub(handled[TOLD]);
        if lost > 0 {
            handled[TOLD] = inner.lost;
            inner.set(set, handled);
        }
        lost
    }
}

impl<const N: usize, M: Model> Joined for Events<'_, N, M> {
    fn stage(&self, attempt: Attempt, number: u32) -> Result<bool, Code> {
        let mut inner = self.inner.try_borrow_mut().map_err(|_| Code::Busy)?;
        if inner.attempt != attempt {
            return Ok(false);
        }
        let staged = inner.staged;
        let done = inner.handled.stage(number, staged);
        done.map(|()| true).map_err(|_| Code::Damaged)
    }

    fn revert(&self, attempt: Attempt, number: u32) {
        if let Ok(mut inner) = self.inner.try_borrow_mut()
            && inner.attempt == attempt
        {
            inner.handled.revert(number)
        }
    }

    fn settle(&self, attempt: Attempt) {
        if let Ok(mut inner) = self.inner.try_borrow_mut()
            && inner.attempt == attempt
        {
            let staged = inner.staged;
            inner.handled.settle(staged)
        }
    }

    fn follow(&self, _: Attempt) {}

    fn undone(&self, _: Attempt) {}
}

impl<const N: usize> sealed::Sealed for Ring<N> {}
impl<const N: usize, M: Model> Item<M> for Ring<N> {
    type Initial = ();
    type Open<'m> = Events<'m, N, M>;
    const BYTES: usize = Inner::<N, M>::SLOTS_BYTES + StagedContext::<Handled, M>::BYTES;
    const TYPE: u64 = type_hash::<Handled>("device events").rotate_left(N as u32);

    fn format<'m>(region: Region<'m, M>, (): ()) -> Option<Events<'m, N, M>> {
        let () = Inner::<N, M>::CHECK;
        let (mut slots, handled) = region.split_at(Inner::<N, M>::SLOTS_BYTES).ok()?;
        slots.clear();
        let handled = StagedContext::format(handled, [0; 2])?;
        Some(of(slots, handled))
    }

    fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Option<Events<'m, N, M>> {
        let () = Inner::<N, M>::CHECK;
        let (slots, handled) = region.split_at(Inner::<N, M>::SLOTS_BYTES).ok()?;
        let by: Resolver = by.0;
        let handled = StagedContext::<Handled, M>::recover(handled, by)?;
        if handled.value()[POSITION] > NUMBERS {
            return None;
        }
        let mut events = of::<N, M>(slots, handled);
        let inner = events.inner.get_mut();
        inner.lost = u8::try_from(inner.load(N * M::Unit::BYTES)).ok()?;
        for _ in 0..N {
            if inner.event(inner.head).is_none() {
                break;
            }
            inner.head = (inner.head + 1) & NUMBERS;
        }
        Some(events)
    }
}

fn of<'m, const N: usize, M: Model>(
    slots: Region<'m, M>,
    handled: StagedContext<'m, Handled, M>,
) -> Events<'m, N, M> {
    let inner = Inner {
        slots,
        staged: *handled.value(),
        head: handled.value()[POSITION],
        handled,
        attempt: Attempt::NONE,
        lost: 0,
    };
    Events {
        inner: RefCell::new(inner),
    }
}
