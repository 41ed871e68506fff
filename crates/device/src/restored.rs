//! After a checkpoint was restored: devices follow the program, which is back where it was.
//!
//! ```text
//!  program (RAM)          medium            device
//!    lit 1                lit 1             1
//!    checkpoint           image: lit 1
//!    change: lit 2        lit 2             2
//!    ~~~~ power lost, RAM <- image ~~~~
//!    lit 1                lit 2             (reset)
//!    restored()           lit 1             1        the context of the checkpoint counts again
//!    change: lit 2        lit 2             2        as before
//! ```
//!
//! A checkpoint saves the RAM, and with it what a device in RAM believes of its medium: its
//! context, and which of two versions counts. Both may be older than the medium. If the older
//! belief were used to write, it could write over the version that counts. So the medium says which
//! one counts, and the context of the checkpoint is committed as the next one. The program will
//! make the later changes again: a context that stayed ahead of it would get them twice.
//!
//! | cut | the medium | the next boot |
//! |---|---|---|
//! | before `restored` ends | the later context or the checkpoint's | restores and calls it again |
//! | after that | the checkpoint's | the same |

use crate::context::OwnContext;
use crate::device::Device;
use crate::error::CallError;
use crate::restore::Restore;
use nv_replay::nvmem::{Model, planted};

impl<'m, D: Restore, M: Model> Device<'m, D, M> {
    // INVARIANT "Back with the program": after a checkpoint was restored a context is that of the
    // checkpoint, on the medium, too. Which version counts is what the medium says. No driver of an
    // image is used. Also in `OwnContext::rewind` (context.rs).
    // Noticed by: planted `context-ahead-of-a-restore`, `version-of-a-restore-believed`,
    // `driver-outlives-a-restore`; `device-calls/restored` in the rig.

    /// The program was restored from a checkpoint: commits the context that the device had then,
    /// and takes out the driver, which believes what was true then. It is built again from the
    /// context: at once if the device is eager, else by its next use.
    ///
    /// For programs whose RAM is saved and restored by `checkpoint`, with the device in it. Called
    /// for each device, in the order in which they depend on each other, where `checkpoint` has
    /// returned `Outcome::Restored`, before the program goes on. A device on which others are built
    /// ([`Device::up`]) is borrowed by them: there the program drops them, takes all apart with
    /// [`Device::into_parts`], and makes new ones.
    ///
    /// A program takes its first checkpoint before it changes a context. If nothing can be
    /// restored, the program begins again, and finds the contexts of its earlier run.
    ///
    /// What the outside has seen since the checkpoint, it sees again: the program makes the same
    /// changes once more. A program with steps needs none of this, and has no checkpoints.
    ///
    /// ```
    /// use nv_device::{Device, Restore};
    /// # use nv_device::nvmem::Model;
    /// # enum Outcome { Taken, Restored(()) }
    /// # fn again<L: Restore, R: Restore, M: Model>(
    /// #     outcome: Outcome,
    /// #     lamps: &mut Device<'_, L, M>,
    /// #     radio: &mut Device<'_, R, M>,
    /// # ) -> Result<(), &'static str> {
    /// // match unsafe { ck.checkpoint() }? {
    /// match outcome {
    ///     Outcome::Taken => {}
    ///     Outcome::Restored(_) => {
    ///         lamps.restored().map_err(|_| "the lamps")?;
    ///         radio.restored().map_err(|_| "the radio")?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// **Power loss**: the next boot restores the same checkpoint, and calls this again. **Cost**:
    /// that of [`Device::change`]. **Errors**: [`CallError::Restore`]; the context is committed
    /// then, and the next use builds the driver.
    pub fn restored(&mut self) -> Result<(), CallError<D::Error>> {
        self.context.rewind();
        if planted!("nv-device/driver-outlives-a-restore") {
            return Ok(());
        }
        self.slot.take_out(D::release);
        if self.slot.eager {
            self.slot.build(self.context.value())?;
        }
        Ok(())
    }

    /// The context, for tests that restore an image of it.
    #[cfg(feature = "instrument")]
    #[doc(hidden)]
    pub fn own_context(&mut self) -> &mut OwnContext<'m, D::Context, M> {
        &mut self.context
    }

    /// Takes a device apart: its context, to make another device of it, and its parts. The driver
    /// gives back what it owns of them.
    ///
    /// After a checkpoint was restored the context is that of the checkpoint from now on: see
    /// [`Device::restored`].
    ///
    /// **Power loss** and **Cost**: as there.
    pub fn into_parts(mut self) -> (OwnContext<'m, D::Context, M>, D::Parts) {
        self.context.rewind();
        self.slot.take_out(D::release);
        (self.context, self.slot.parts)
    }
}
