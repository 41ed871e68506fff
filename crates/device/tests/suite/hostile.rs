//! Images that no power cut leaves: `open` returns an error or sound contexts.

mod in_order_32 {
    type M = nv_device::nvmem::InOrder32;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}
mod in_order_16 {
    type M = nv_device::nvmem::InOrder16;
    include!("hostile/image.rs");
    include!("hostile/campaign.rs");
}

/// What `open` refuses, by name.
mod refused {
    use core::mem::MaybeUninit;
    use nv_device::nv_replay::Config;
    use nv_device::nvmem::{InOrder16, InOrder32, Region};
    use nv_device::{Committed, OpenError, Own, Staged, open};

    const NONE: Committed = Committed::NOTHING;

    #[test]
    fn by_name() {
        let mut words = [const { MaybeUninit::new(0u64) }; 32];
        let small = open::<(Own<u8>,), _>(Region::<InOrder32>::new(&mut words[..4]), NONE, (1,));
        assert_eq!(small.err(), Some(OpenError::TooSmall { needed: 136 }));
        let first = open::<(Own<u8>,), _>(Region::<InOrder32>::new(&mut words), NONE, (1,));
        assert!(first.is_ok());
        drop(first);
        let other = open::<(Own<u16>,), _>(Region::<InOrder32>::new(&mut words), NONE, (1,));
        assert!(matches!(other.err(), Some(OpenError::Layout(_))));
        let staged = open::<(Staged<u8>,), _>(Region::<InOrder32>::new(&mut words), NONE, (1,));
        assert!(matches!(staged.err(), Some(OpenError::Layout(_))));
        let narrow = open::<(Own<u8>,), _>(Region::<InOrder16>::new(&mut words), NONE, (1,));
        assert_eq!(narrow.err(), Some(OpenError::Parameters));
        let numbers = Committed::of(0.into(), &Config::SMALL);
        let wider = open::<(Own<u8>,), _>(Region::<InOrder32>::new(&mut words), numbers, (1,));
        assert_eq!(wider.err(), Some(OpenError::Parameters));
        words.fill(MaybeUninit::new(0x1234_5678_9abc_def0));
        let foreign = open::<(Own<u8>,), _>(Region::<InOrder32>::new(&mut words), NONE, (1,));
        assert_eq!(foreign.err(), Some(OpenError::Foreign));
    }
}
