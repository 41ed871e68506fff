//! What a driver implements, and what its calls get.

use nv_replay::nvmem::Plain;

/// A driver that is built from its persistent device context and its parts.
///
/// No driver exists before it is built, so a program cannot use a device that was not restored. The
/// context is what the application wanted last, not the traffic on a bus: drivers keep state of
/// their own, and only their own functions keep it true.
///
/// Hints about drivers:
///
/// - A driver may believe what it is set to: `rfm69::mode` writes nothing if the mode is the one it
///   believes. So `restore` begins with a new driver, and never with one from before a cut.
/// - A new driver believes its chip's state after power-up. If the chip has its own supply, write
///   its registers directly first.
/// - A driver whose mode is a type (`into_one_shot`) needs an `enum` around it.
/// - Not all drivers restore. `mcp9808` 0.4.0 sends one byte less of each register that it writes,
///   so its limits do not arrive.
///
/// ```
/// use nv_device::Restore;
/// use nv_device::nvmem::Persist;
/// # use core::convert::Infallible;
/// # struct Pin(bool);
/// # impl Pin { fn set(&mut self, on: bool) -> Result<(), Infallible> { self.0 = on; Ok(()) } }
///
/// #[derive(Persist, Clone, Copy)]
/// #[repr(C)]
/// struct LedContext {
///     on: bool,
/// }
///
/// struct Led(Pin);
///
/// impl Restore for Led {
///     type Context = LedContext;
///     type Parts = Option<Pin>;
///     type Error = Infallible;
///
///     fn restore(parts: &mut Option<Pin>, context: &LedContext) -> Result<Self, Infallible> {
///         let mut pin = parts.take().unwrap_or(Pin(false));
///         pin.set(context.on)?;
///         Ok(Led(pin))
///     }
///     fn release(self, parts: &mut Option<Pin>) {
///         *parts = Some(self.0);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be restored after a power cut",
    label = "does not implement `nv_device::Restore`",
    note = "implement `Restore` for a type around the driver: name what the application wants of the device (`Context`), what the driver is built from (`Parts`), and build it in `restore`"
)]
pub trait Restore: Sized {
    /// What the application wanted last: modes, limits, what an output shows. Plain data. A
    /// context of one unit of the medium is stored with one store.
    type Context: Plain + Copy;
    /// What the driver is built from: a bus, pins, a delay. A driver is built again after an error,
    /// so a part that it owns comes back in [`Restore::release`]; one that it borrows is copied.
    type Parts;
    /// The error of its calls.
    type Error;

    /// Builds the driver, and brings the device to its context, whatever it did before: after a
    /// power cut, or after an error in the middle of a call.
    ///
    /// A part that is moved out of `parts` is put back before an error is returned. **Errors**:
    /// those of the driver; the call that wanted it fails with it.
    fn restore(parts: &mut Self::Parts, context: &Self::Context) -> Result<Self, Self::Error>;

    /// Gives back the parts that the driver owns.
    fn release(self, parts: &mut Self::Parts) {
        let _ = parts;
    }

    /// Brings a device that works to a new context that has just been committed. The default asks
    /// for a new driver. **Errors**: those of the driver, which is then taken out.
    fn apply(&mut self, context: &Self::Context) -> Result<Apply, Self::Error> {
        let _ = context;
        Ok(Apply::Rebuild)
    }
}

/// What [`Restore::apply`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apply {
    /// The device follows its new context.
    Done,
    /// Take the driver out, and build it again.
    Rebuild,
}

/// A device that can say which call it has carried out last: by a number that it keeps, or by a
/// state that can be read back. Only with such a device a call happens exactly once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say which call it has carried out last, so no call happens exactly once",
    label = "does not implement `nv_device::Keyed`",
    note = "use `at_least_once`: after a power cut the call is made again as a whole",
    note = "if the device keeps a number through power cuts, or its state can be read, implement `Keyed`"
)]
pub trait Keyed: Restore {
    /// What distinguishes two calls.
    type Key: Copy + PartialEq;
    /// The key of the next call, from the committed context. It is the same until that commits.
    fn next(context: &Self::Context) -> Self::Key;
    /// The key of the last call that the device has carried out: it is read from the device.
    /// **Errors**: those of the driver; the call fails with it, and has done nothing.
    fn last(&mut self) -> Result<Self::Key, Self::Error>;
    /// Notes in the context that the call of this key was carried out.
    fn advance(context: &mut Self::Context, key: Self::Key);
}

/// The result of a call that happens exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once<O> {
    /// It was made now.
    Done(O),
    /// It was made before a power cut, and its result is lost.
    DoneBefore,
}

/// A running call: the driver, and the context that is saved when the call returns.
///
/// A function of the program that takes a `&mut Call` is a nested call: the context is saved once,
/// by the outermost.
pub struct Call<'c, D, C> {
    driver: &'c mut D,
    context: &'c mut C,
    changed: bool,
}

impl<'c, D, C> Call<'c, D, C> {
    pub(crate) fn new(driver: &'c mut D, context: &'c mut C) -> Self {
        Call {
            driver,
            context,
            changed: false,
        }
    }

    pub(crate) fn changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn parts(&mut self) -> (&mut D, &mut C) {
        (self.driver, self.context)
    }

    /// The driver.
    #[inline(always)]
    pub fn driver(&mut self) -> &mut D {
        self.driver
    }

    /// The context.
    #[inline(always)]
    pub fn context(&self) -> &C {
        self.context
    }

    /// The context, to change it: it is saved if the call succeeds. If the call changes what the
    /// device does, it changes the context too, or a power cut takes it back.
    #[inline(always)]
    pub fn context_mut(&mut self) -> &mut C {
        self.changed = true;
        self.context
    }
}

/// An argument of a call, by value. A call that was cut is made again with the same arguments, and
/// one that is bypassed is not made at all, so nothing can be handed out through a reference: not
/// through a `&mut`, and not through a `&Cell`, which `Send` excludes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a device's call",
    label = "arguments are passed by value",
    note = "a call that is bypassed after a power cut would leave a `&mut` or a `&Cell` unwritten: return the value instead, an array for a buffer"
)]
pub trait ByValue: Copy + Send + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Copy + Send + 'static> ByValue for T {}
