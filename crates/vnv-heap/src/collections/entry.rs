//! A key and its value.

use core::mem::offset_of;
use nvmem::describe::{Member, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Persist, Plain};

#[repr(C)]
#[allow(unreachable_pub)]
pub struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

impl<K, V> Entry<K, V> {
    const VALUE: usize = offset_of!(Self, value);
}

// SAFETY: the fields at their offsets are all there is; what lies between and behind them is
// cleared; keys have no handles.
unsafe impl<K: Plain, V: Persist> Persist for Entry<K, V> {
    type At<'p> = Entry<K, V::At<'p>>;
    const PADDED: bool =
        K::PADDED || V::PADDED || size_of::<K>() + size_of::<V>() != size_of::<Self>();
    const HANDLES: bool = V::HANDLES;
    type HandleTargets = V::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Entry",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        members: &[
            Member::Field {
                name: "key",
                offset: 0,
                of: K::LAYOUT,
            },
            Member::Field {
                name: "value",
                offset: Self::VALUE,
                of: V::LAYOUT,
            },
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: the fields of the entry that the caller vouches for.
        unsafe {
            K::check(p, v)?;
            V::check(p.add(Self::VALUE), v)
        }
    }
    unsafe fn clear_padding(p: *mut u8) {
        // SAFETY: the fields of the entry that the caller vouches for, and the bytes that belong to
        // neither.
        unsafe {
            K::clear_padding(p);
            V::clear_padding(p.add(Self::VALUE));
            let (key, end) = (size_of::<K>(), Self::VALUE + size_of::<V>());
            p.add(key).write_bytes(0, Self::VALUE - key);
            p.add(end).write_bytes(0, size_of::<Self>() - end);
        }
    }
}
