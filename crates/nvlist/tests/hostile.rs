//! Images that no power cut leaves: `open` gives a pool or an error, and what it gives is sound.

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
