//! `Postcard`: results and inputs without a stable layout, encoded by postcard.

use nvmem::Invalid;
use nvmem::cross::{Ret, UNKNOWN_LENGTH};
use nvmem::persist::Visit;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A result or an input that [postcard](https://docs.rs/postcard) encodes, for types without a
/// stable layout: `Ok(Postcard(v))`, `rt.record(Postcard(v))?.0`.
///
/// A replay compares the type's name with its path, as the compiler prints it: a type that moves to
/// another module is another type, and a new compiler may print it otherwise.
///
/// **Cost**: the encoded bytes in units, and one unit. **Errors**: if the bytes do not fit,
/// [`Error::TableFull`](crate::Error::TableFull) after the step's body has run; the step is undone.
/// A value whose second encoding differs in length from its first gives
/// [`Error::Other`](crate::Error::Other). A value that postcard refuses to encode is a divergence
/// when it is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postcard<T>(pub T);

/// Forwards the encoded bytes.
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

// SAFETY: invariant "Held once": the value holds no handle. `decode` checks the bytes, and no code
// relies on their length, because it is `UNKNOWN_LENGTH` (invariant "Inside the table").
unsafe impl<T: Serialize + DeserializeOwned> Ret for Postcard<T> {
    type In<'p> = Self;
    const TYPE: u64 = 0;
    fn type_name() -> Option<&'static str> {
        Some(core::any::type_name::<T>())
    }
    const BYTES: usize = UNKNOWN_LENGTH;
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
