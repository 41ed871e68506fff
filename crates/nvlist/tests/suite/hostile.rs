//! Images that no power cut leaves: `open` returns an error or a sound pool.

mod in_order_32 {
    type M = nvmem::InOrder32;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
mod in_order_16 {
    type M = nvmem::InOrder16;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
