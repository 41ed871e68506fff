//! The same as `vnv_heap` with the default policy, which predicts when an object is used next.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use size_probes::Bytes;
    use vnv_heap::{Config, Heap, Own, brand};

    type Root<'h> = Option<Own<'h, [u32; 2]>>;
    type Kept<'h> = Heap<'h, Root<'h>, Bytes>;

    brand!(b);
    let (fram, ram) = (size_probes::bytes(), size_probes::ram());
    // Where it is: a heap that is moved is copied.
    let mut opened = Kept::open(b, fram, ram, Config::DEFAULT, |_| Ok(None));
    if let Ok(heap) = &mut opened {
        if let Ok(pair) = heap.alloc([1, 2]) {
            let read = heap.get(&pair).map_or(0, |p| p[0]);
            if let Ok(mut pair) = heap.get_mut(&pair) {
                pair[1] += read;
            }
            if let Ok(mut root) = heap.root_mut() {
                *root = Some(pair);
            }
        }
        let saved = heap.persist();
        let back = heap.restore();
        core::hint::black_box((saved.is_ok(), back.is_ok()));
    }
});
