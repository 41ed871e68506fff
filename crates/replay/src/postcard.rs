//! Results and inputs that have no stable layout, by postcard.

use nvmem::Invalid;
use nvmem::cross::{Ret, UNKNOWN};
use nvmem::persist::Visit;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that a step returns, or an input, recorded by [postcard](https://docs.rs/postcard) instead of by its bits:
/// `Ok(Postcard(v))`, `rt.record(Postcard(v))?.0`.
///
/// **Cost**: the bytes that postcard makes of it, in units, and one unit. What does not fit gives [`Error::TableFull`](crate::Error::TableFull)
/// after the step's body has run, and the step is undone. What postcard refuses to write is found when it is read back: as a
/// divergence. A value that tells other bytes when it is asked twice gives [`Error::Other`](crate::Error::Other).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postcard<T>(pub T);

/// Hands on what is written.
struct ForwardBytes<'f>(&'f mut dyn FnMut(&[u8]));
impl Flavor for ForwardBytes<'_> {
    type Output = ();
    fn try_push(&mut self, b: u8) -> postcard::Result<()> {
        (self.0)(&[b]);
        Ok(())
    }
    fn try_extend(&mut self, b: &[u8]) -> postcard::Result<()> {
        (self.0)(b);
        Ok(())
    }
    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

// SAFETY: invariant "Held once": no handle. What `encode` writes, `decode` reads or refuses; its length is `UNKNOWN`, so nothing
// relies on it (invariant "LoopGuard the table").
unsafe impl<T: Serialize + DeserializeOwned> Ret for Postcard<T> {
    type In<'p> = Self;
    const BYTES: usize = UNKNOWN;
    const HANDLES: usize = 0;
    unsafe fn leave(inside: Self, _: u32) -> Self {
        inside
    }
    fn encode(&self, f: &mut dyn FnMut(&[u8])) {
        let _ = postcard::serialize_with_flavor(&self.0, ForwardBytes(f));
    }
    unsafe fn decode(bytes: &[u8], _: u32, _: &mut dyn Visit) -> Result<Self, Invalid> {
        match postcard::take_from_bytes(bytes) {
            Ok((v, _)) => Ok(Postcard(v)),
            Err(_) => Err(Invalid::Bits(core::any::type_name::<T>())),
        }
    }
}
