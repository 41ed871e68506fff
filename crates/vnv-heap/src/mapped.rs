//! Reading objects in place, on media that are memory-mapped.

use crate::Heap;
use crate::error::{Error, Fail};
use crate::object::Marked;
use crate::own::{HandleRange, Kind, Own};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::store::Check;
use nvmem::device::Misuse;
use nvmem::{Medium, Model, Persist, Region, mapped};

impl<'h, R, M: Model, P: Promise, Pol: Policy, B> Heap<'h, R, Region<'_, M>, P, Pol, B>
where
    Self: 'h,
{
    /// The object in place: in RAM if it is resident, else on the medium, without paging it in.
    ///
    /// The heap cannot be used while the reference lives, so that the object stays where it is.
    /// **Power loss**: nothing changes. **Cost**: the check over its bytes. **Errors**:
    /// [`Error::Damaged`]; [`Error::Busy`] when a leaked guard pins it for writing;
    /// [`Error::Suspended`].
    pub fn get_in_place<T: Persist + Marked<B>>(
        &mut self,
        own: &Own<'h, T, B>,
    ) -> Result<&T, Error<Misuse>> {
        let (id, kind) = (own.id(), Kind::of::<T>());
        let at = self.core.with_medium_error(self.core.section(|st| {
            if let Some(frame) = st.cache.lookup(id) {
                return if st.cache.is_exclusive(frame) {
                    Err(Fail::BUSY)
                } else {
                    Ok(st.cache.content(frame).as_ptr())
                };
            }
            let damaged = || Fail::damaged(id);
            let place = st.store.locate(id)?;
            if place.len != kind.len {
                return Err(damaged());
            }
            let mut known = HandleRange {
                objects: st.store.objects(),
            };
            let address = st.store.address(&place);
            let region = st.store.medium();
            if address + u32::from(place.len) > region.capacity() {
                return Err(damaged());
            }
            // SAFETY: inside of the region; aligned to 8, as the region and all blocks are.
            let at = unsafe { region.base().add(address as usize) };
            mapped::will_read(at, usize::from(place.len));
            let mut check = Check::new(id, place.len);
            // SAFETY: a medium is initialised, and no reference into it is live.
            check.add(unsafe { core::slice::from_raw_parts(at, usize::from(place.len)) });
            if check.finish() != place.check {
                return Err(damaged());
            }
            // SAFETY: as many bytes as a `T` has.
            unsafe { (kind.check)(at, &mut known) }.map_err(|_| damaged())?;
            Ok(at)
        }))?;
        // SAFETY: a checked `T`. The heap is borrowed mutably: no operation moves or changes it. A
        // persist writes only objects that are dirty in RAM.
        Ok(unsafe { &*at.cast::<T>() })
    }
}
