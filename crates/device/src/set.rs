//! The devices of a program whose contexts commit with its steps.
//!
//! ```text
//! step_with(&set, …)   body: calls stage nothing yet; changed contexts wait in RAM
//!                        |                          |
//!                        | Ok                       | error, unwinds
//!                        v                          v
//!                      join                       undone
//!                       1 stage each changed       forget the changes; a driver that has acted
//!                         context with n, and      is taken out
//!                         compare how many
//!                       2 commit.store()   <-- commits the step, its data and all contexts
//!                       3 settle each, and the device follows its context
//!
//! cut before 2: the next open reverts what is staged; the devices are restored from before
//! cut after 2:  the next open settles it; the devices are restored to what is committed
//! ```
//!
//! The list of devices has a static type, so the compiler makes one function of all of this. A loop
//! through `dyn` took 147 instructions more in a step that changes a context of a byte. If a driver
//! unwinds while it follows, the other contexts are settled, and their devices follow when they are
//! used next.
//!
//! A device belongs to the first set that has listed it, from then on. Its key is the address of a
//! context of the set's, on the medium, which no other set has. So a step cannot change a device
//! that its commit would not find.

use crate::error::Code;
use core::cell::Cell;
use core::ops::Deref;
use nv_replay::nvmem::{Model, NumberOwner, planted};
use nv_replay::{Commit, Committed, Error, Token};

/// The devices of a program: names each of them once.
///
/// ```
/// use nv_device::{Devices, Events, Members, Restore, StagedDevice};
/// # use nv_device::nvmem::Model;
/// struct Node<'m, T: Restore, M> {
///     thermometer: StagedDevice<'m, T, M>,
///     buttons: Events<'m, 8, M>,
/// }
/// impl<T: Restore, M: Model> Devices for Node<'_, T, M> {
///     fn list(&self) -> impl Members {
///         (&self.thermometer, &self.buttons)
///     }
/// }
/// ```
pub trait Devices {
    /// The devices, the same ones each time: a reference to one [`StagedDevice`], to [`Events`], or
    /// a tuple of up to 8 of these, or of tuples. They follow their contexts in this order, and
    /// after an undone step those that have acted are built again in this order: a supply comes
    /// before what it feeds.
    ///
    /// A step that uses one that is left out here fails with [`Code::Forgotten`]. If a device that
    /// a step has used is left out when the step commits or fails, that step fails like this. So do
    /// all later steps with the set, until the next boot.
    ///
    /// [`StagedDevice`]: crate::StagedDevice
    /// [`Events`]: crate::Events
    fn list(&self) -> impl Members;
}

/// A part of a step's commit: a device, or events.
pub trait Joined {
    /// Enters a set.
    #[doc(hidden)]
    fn enter(&self, entry: &mut Entry);
    /// Bit flags: waits, has acted, changed. 0: the step did not use the device.
    #[doc(hidden)]
    fn used(&self) -> u8;
    /// Stages what has changed. `false` if an earlier call has done so. Only for a used device.
    #[doc(hidden)]
    fn stage(&self, number: u32) -> bool;
    /// Undoes what `stage` has stored. Whether it had.
    #[doc(hidden)]
    fn revert(&self) -> bool;
    /// The step has committed: settles what is staged. Then brings the device to it, if that has
    /// changed. Whether it was staged.
    #[doc(hidden)]
    fn finish(&self) -> bool;
    /// The step has committed: settles the context, unless `finish` has. The device does not follow
    /// now.
    #[doc(hidden)]
    fn fall_behind(&self);
    /// For a planted bug: brings the device to the context that is not committed yet.
    #[doc(hidden)]
    fn show(&self);
    /// Forgets what has changed, unless it is staged. Whether the step had used the device.
    #[doc(hidden)]
    fn undone(&self) -> bool;
}

// INVARIANT "All that changed": a step commits with all devices that it has changed, or fails. A
// device is in one set, whose key is the address of a context, and takes steps of that set only.
// The set counts the devices that have marks. The lists are the user's code, and may leave a device
// out, name it twice, or differ from call to call. So a device is staged once, and the join
// compares how many were staged. If one is not found when the step is undone, its marks would get
// into the next step: then the set takes no more steps. If one that is staged is not found again,
// its stamp would stay: then the program stops, and the next boot settles it.
// Noticed by: `a_forgotten_device` and `a_panic_while_devices_follow` in
// tests/suite/crash/errors.rs, `lists_that_differ` in tests/suite/generated/lists.rs; planted
// `join-unchecked`, `undone-unchecked`, `staged-twice`.

/// Which set a device is in.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(usize);

/// What the devices of a set have in common, while they enter it.
#[doc(hidden)]
pub struct Entry {
    key: Key,
    owner: NumberOwner,
}

impl Entry {
    const NONE: Entry = Entry {
        key: Key::EMPTY,
        owner: NumberOwner::PROGRAM,
    };

    /// Enters a device into the set, whose first one may make the key of its address. The devices
    /// of a set take steps of one owner: if their contexts were opened with the numbers of several,
    /// of none.
    pub(crate) fn add(&mut self, of: &Cell<Key>, address: usize, owner: NumberOwner) {
        if of.get() != Key::FREE {
            return;
        }
        if self.key == Key::EMPTY {
            *self = Entry {
                key: Key(address),
                owner,
            };
        } else if owner != self.owner && !planted!("nv-device/owner-of-the-first") {
            self.owner = NumberOwner::PROGRAM;
        }
        of.set(self.key)
    }
}

impl Key {
    /// Of a device that is in no set. Addresses on the medium are multiples of 8.
    pub(crate) const FREE: Key = Key(0);
    /// Of a set that has no device.
    const EMPTY: Key = Key(2);
    /// Of a set that takes no more steps.
    const BROKEN: Key = Key(4);

    /// A call of the device runs: then it is in no set.
    #[inline(always)]
    pub(crate) fn in_call(self) -> Key {
        Key(self.0 | 1)
    }

    #[inline(always)]
    pub(crate) fn is_in_call(self) -> bool {
        self.0 & 1 != 0
    }
}

/// A list of devices. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of devices",
    label = "not a list of devices",
    note = "a list is a reference to a `StagedDevice` or to `Events`, or a tuple of up to 8 of them"
)]
pub trait Members: sealed::Sealed {
    /// What the step has done with each; it is in registers.
    #[doc(hidden)]
    type Used: Copy;
    /// It lends the same devices each time.
    #[doc(hidden)]
    const CONSTANT: bool;
    #[doc(hidden)]
    fn enter(&self, entry: &mut Entry);
    #[doc(hidden)]
    fn used(&self) -> Self::Used;
    /// Stages what was used. How many devices.
    #[doc(hidden)]
    fn stage(&self, used: Self::Used, number: u32) -> usize;
    /// Undoes what is staged. How many devices.
    #[doc(hidden)]
    fn revert(&self, used: Self::Used) -> usize;
    /// Settles what was used, and has the devices follow. How many devices.
    #[doc(hidden)]
    fn finish(&self, used: Self::Used) -> usize;
    /// Settles what is not settled yet, and has no device follow.
    #[doc(hidden)]
    fn fall_behind(&self);
    /// For a planted bug: has the devices follow.
    #[doc(hidden)]
    fn show(&self);
    /// Forgets what is not staged. How many devices the step had used.
    #[doc(hidden)]
    fn undone(&self) -> usize;
}

/// Lends a device.
trait Lend {
    type Device: Joined;
    /// It lends the same device each time.
    const CONSTANT: bool;
    fn lend<O>(&self, f: impl FnOnce(&Self::Device) -> O) -> Option<O>;
}

impl<J: Joined> Lend for &J {
    type Device = J;
    const CONSTANT: bool = true;
    #[inline(always)]
    fn lend<O>(&self, f: impl FnOnce(&J) -> O) -> Option<O> {
        Some(f(self))
    }
}

/// A device that is shared with an interrupt: see [`within`].
pub struct Within<J, F> {
    lend: F,
    _device: core::marker::PhantomData<fn(&J)>,
}

/// A member of a list that an interrupt uses, too: events in a `Mutex`. `lend` calls what it gets
/// with the device, once, in a critical section.
///
/// **Panics**: a commit has begun with the device, and `lend` does not lend it again. The next boot
/// finds what is committed. If the commit has failed, the panic cannot be caught.
///
/// ```
/// # use core::cell::RefCell;
/// use nv_device::{Devices, Events, Members, within};
/// # use nv_device::nvmem::Model;
/// # struct Mutex<T>(RefCell<T>);
/// # impl<T> Mutex<T> { fn lock<O>(&self, f: impl FnOnce(&T) -> O) -> O { f(&self.0.borrow()) } }
/// struct Node<'m, M> {
///     buttons: Mutex<Events<'m, 8, M>>,
/// }
/// impl<M: Model> Devices for Node<'_, M> {
///     fn list(&self) -> impl Members {
///         within(|f| self.buttons.lock(f))
///     }
/// }
/// ```
pub fn within<J: Joined, F: Fn(&mut dyn FnMut(&J))>(lend: F) -> Within<J, F> {
    Within {
        lend,
        _device: core::marker::PhantomData,
    }
}

impl<J: Joined, F: Fn(&mut dyn FnMut(&J))> Lend for Within<J, F> {
    type Device = J;
    const CONSTANT: bool = false;
    fn lend<O>(&self, f: impl FnOnce(&J) -> O) -> Option<O> {
        let (mut f, mut o) = (Some(f), None);
        (self.lend)(&mut |device| {
            if let Some(f) = f.take() {
                o = Some(f(device))
            }
        });
        o
    }
}

mod sealed {
    pub trait Sealed {}
}

/// 1 for a device that was lent and has done what it was asked for.
#[inline(always)]
fn found(done: Option<bool>) -> usize {
    done.unwrap_or(false).into()
}

macro_rules! one_member {
    ($t:ty where $($generic:tt)*) => {
        impl<$($generic)*> sealed::Sealed for $t {}
        impl<$($generic)*> Members for $t {
            type Used = u8;
            const CONSTANT: bool = <Self as Lend>::CONSTANT;
            fn enter(&self, entry: &mut Entry) {
                self.lend(|device| device.enter(entry));
            }
            #[inline(always)]
            fn used(&self) -> u8 {
                self.lend(|device| device.used()).unwrap_or(0)
            }
            #[inline(always)]
            fn stage(&self, used: u8, number: u32) -> usize {
                if used == 0 {
                    return 0;
                }
                found(self.lend(|device| {
                    (<Self as Lend>::CONSTANT || device.used() != 0) && device.stage(number)
                }))
            }
            fn revert(&self, used: u8) -> usize {
                if used == 0 {
                    return 0;
                }
                found(self.lend(|device| device.revert()))
            }
            #[inline(always)]
            fn finish(&self, used: u8) -> usize {
                if used == 0 {
                    return 0;
                }
                found(self.lend(|device| device.finish()))
            }
            fn fall_behind(&self) {
                self.lend(|device| device.fall_behind());
            }
            fn show(&self) {
                self.lend(|device| device.show());
            }
            fn undone(&self) -> usize {
                found(self.lend(|device| device.undone()))
            }
        }
    };
}
one_member!(&J where J: Joined);
one_member!(Within<J, F> where J: Joined, F: Fn(&mut dyn FnMut(&J)));

// INVARIANT "In the order of the list": devices follow a commit, and those that have acted in an
// undone step are built again, in the order of `Devices::list`.
// Noticed by: planted `followed-from-the-last`, `restored-from-the-last`.

/// Implements [`Members`] for a tuple. The second list is the first one from its end: for planted
/// bugs.
macro_rules! members {
    ($($t:ident $v:ident $u:ident),+; $($last:ident $of_last:ident),+) => {
        impl<$($t: Members),+> sealed::Sealed for ($($t,)+) {}
        impl<$($t: Members),+> Members for ($($t,)+) {
            type Used = ($($t::Used,)+);
            const CONSTANT: bool = true $(&& $t::CONSTANT)+;
            fn enter(&self, entry: &mut Entry) {
                let ($($v,)+) = self;
                $($v.enter(entry);)+
            }
            #[inline(always)]
            fn used(&self) -> Self::Used {
                let ($($v,)+) = self;
                ($($v.used(),)+)
            }
            #[inline(always)]
            fn stage(&self, ($($u,)+): Self::Used, number: u32) -> usize {
                let ($($v,)+) = self;
                0 $(+ $v.stage($u, number))+
            }
            fn revert(&self, ($($u,)+): Self::Used) -> usize {
                let ($($v,)+) = self;
                0 $(+ $v.revert($u))+
            }
            #[inline(always)]
            fn finish(&self, ($($u,)+): Self::Used) -> usize {
                let ($($v,)+) = self;
                if planted!("nv-device/followed-from-the-last") {
                    return 0 $(+ $last.finish($of_last))+;
                }
                0 $(+ $v.finish($u))+
            }
            fn fall_behind(&self) {
                let ($($v,)+) = self;
                $($v.fall_behind();)+
            }
            fn show(&self) {
                let ($($v,)+) = self;
                $($v.show();)+
            }
            fn undone(&self) -> usize {
                let ($($v,)+) = self;
                if planted!("nv-device/restored-from-the-last") {
                    return 0 $(+ $last.undone())+;
                }
                0 $(+ $v.undone())+
            }
        }
    };
}
members!(A a ua; a ua);
members!(A a ua, B b ub; b ub, a ua);
members!(A a ua, B b ub, C c uc; c uc, b ub, a ua);
members!(A a ua, B b ub, C c uc, D d ud; d ud, c uc, b ub, a ua);
members!(A a ua, B b ub, C c uc, D d ud, E e ue; e ue, d ud, c uc, b ub, a ua);
members!(A a ua, B b ub, C c uc, D d ud, E e ue, F f uf; f uf, e ue, d ud, c uc, b ub, a ua);
members!(
    A a ua, B b ub, C c uc, D d ud, E e ue, F f uf, G g ug;
    g ug, f uf, e ue, d ud, c uc, b ub, a ua
);
members!(
    A a ua, B b ub, C c uc, D d ud, E e ue, F f uf, G g ug, H h uh;
    h uh, g ug, f uf, e ue, d ud, c uc, b ub, a ua
);

/// A commit of devices that has begun. If this is dropped, it has failed, or a driver has unwound.
struct Joining<'a, T, L: Members> {
    set: &'a Set<T>,
    list: L,
    used: L::Used,
    /// How many devices are staged, if that is known.
    staged: Option<usize>,
    stored: bool,
}

impl<T, L: Members> Drop for Joining<'_, T, L> {
    fn drop(&mut self) {
        if self.stored {
            self.list.fall_behind();
            return self.set.used.set(0);
        }
        // The record of an error commits the same number.
        if !planted!("nv-device/join-does-not-abandon") {
            let reverted = self.list.revert(self.used);
            if !L::CONSTANT && self.staged.is_some_and(|staged| reverted < staged) {
                stop()
            }
        }
        self.set.step_undone(&self.list)
    }
}

impl<T, L: Members> Joining<'_, T, L> {
    /// The step has committed.
    #[inline(always)]
    fn finish(mut self, staged: usize) {
        self.stored = true;
        let (set, finished) = (self.set, self.list.finish(self.used));
        core::mem::forget(self);
        set.used.set(0);
        if !L::CONSTANT && finished < staged {
            set.key.set(Key::BROKEN);
            panic!("`within` does not lend a device that has committed")
        }
    }
}

/// A device that was staged is not lent to be reverted. The record of the error, or any later one,
/// would commit it, so nobody may catch this: a panic out of a foreign function aborts.
#[cold]
extern "C" fn stop() -> ! {
    panic!("`within` does not lend a device whose commit has failed")
}

/// The token that takes a program's devices into its steps: `rt.step_with(&set, …)`.
///
/// It dereferences to the devices. In a step's body they are `step.token()`. A device belongs to
/// the first set that it is in.
pub struct Set<T> {
    devices: T,
    key: Cell<Key>,
    /// How many devices have marks.
    used: Cell<usize>,
    /// Whose steps it takes part in.
    owner: NumberOwner,
}

/// The token of a step that uses devices: a [`Set`], or that of a kernel's step with one. What
/// changes a device takes such a step.
#[diagnostic::on_unimplemented(
    message = "a step with the token `{Self}` uses no devices",
    label = "not a step with devices",
    note = "run the step with `step_with(&set, …)`, where `set` is the `Set` with the device"
)]
pub trait OfSet {
    /// The devices of the set.
    type Devices;
    #[doc(hidden)]
    fn set(&self) -> &Set<Self::Devices>;
}

impl<T> OfSet for Set<T> {
    type Devices = T;
    #[inline(always)]
    fn set(&self) -> &Set<T> {
        self
    }
}

impl<T: Devices> Set<T> {
    /// Devices as a token. It takes part in the steps of the runtime, or of the thread, with whose
    /// [`Committed`](crate::Committed) the contexts were opened. A step of another one fails with
    /// [`Error::WrongOwner`] before it begins.
    pub fn new(devices: T) -> Self {
        let mut entry = Entry::NONE;
        devices.list().enter(&mut entry);
        Set {
            devices,
            key: Cell::new(entry.key),
            used: Cell::new(0),
            owner: entry.owner,
        }
    }

    // INVARIANT "Follows what is committed": hardware that `change` changes follows only after the
    // commit store. Also in `Device::change` (device.rs).
    // Noticed by: planted `output-before-commit`, `own-output-before-commit`.

    /// Stages the devices of a step, commits it with `store`, and has them follow. **Errors**: as
    /// for [`Token::join`], and that of `store`; [`Code::Forgotten`].
    #[inline(always)]
    pub(crate) fn join_by<'c, M: Model>(
        &self,
        commit: Commit<'c, M>,
        store: impl FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<Committed<'c>, Error> {
        let list = self.devices.list();
        let used = list.used();
        if planted!("nv-device/output-before-commit") {
            list.show();
        }
        let number = commit.number().get();
        let mut joining = Joining {
            set: self,
            list,
            used,
            staged: None,
            stored: false,
        };
        let staged = joining.list.stage(used, number);
        joining.staged = Some(staged);
        if staged != self.used.get() && !planted!("nv-device/join-unchecked") {
            return Err(Error::Aborted(Code::Forgotten as u16));
        }
        let done = store(commit)?;
        joining.finish(staged);
        Ok(done)
    }
}

impl<T> Set<T> {
    /// The step is undone.
    pub(crate) fn step_undone(&self, list: &impl Members) {
        let found = list.undone();
        if found != self.used.take() && !planted!("nv-device/undone-unchecked") {
            self.key.set(Key::BROKEN)
        }
    }

    /// Whether a device of this key is in the set, and no call of it runs.
    #[inline(always)]
    pub(crate) fn has(&self, key: Key) -> bool {
        self.key.get() == key
    }

    /// The step uses a device for the first time.
    #[inline(always)]
    pub(crate) fn counts(&self) {
        self.used.set(self.used.get().wrapping_add(1))
    }
}

impl<T> Deref for Set<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.devices
    }
}

impl<T: Devices, M: Model> Token<M> for Set<T> {
    #[inline(always)]
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        self.join_by(commit, |commit| Ok(commit.store()))
    }

    fn undone(&self) {
        self.step_undone(&self.devices.list())
    }

    #[inline(always)]
    fn owner(&self) -> Option<NumberOwner> {
        (self.key.get() != Key::EMPTY).then_some(self.owner)
    }
}
