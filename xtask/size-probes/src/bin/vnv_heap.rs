//! A heap of the just-in-time promise that is opened or formatted; an object is allocated, read and
//! changed, all is persisted and restored.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::heap_probe!(vnv_heap::Lru);
