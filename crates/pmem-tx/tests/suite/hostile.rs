//! Images that no power cut leaves: `open` returns an error or a sound pool.

mod in_order_32 {
    type M = nvmem::InOrder32;
    type W = u32;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
mod buffered_32 {
    type M = nvmem::Buffered32;
    type W = u32;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
mod in_order_16 {
    type M = nvmem::InOrder16;
    type W = u16;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
