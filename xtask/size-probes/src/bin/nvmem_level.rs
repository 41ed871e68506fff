//! Flash as bytes that can be written in any order: opened, and a few bytes read and overwritten.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nvmem::Medium;
    use nvmem::level::WearLevelled;

    type Level<'b> = WearLevelled<'b, size_probes::Flash, 64>;

    let mut table = [0; Level::table_entries(size_probes::BYTES as u32)];
    if let Ok(mut bytes) = Level::open(size_probes::flash(), &mut table) {
        let mut n = [0; 4];
        if bytes.read(8, &mut n).is_ok() {
            n[0] = n[0].wrapping_add(1);
            core::hint::black_box(bytes.write(8, &n).is_ok());
        }
    }
});
