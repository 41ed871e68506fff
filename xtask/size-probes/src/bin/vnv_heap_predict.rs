//! The same as `vnv_heap` with the default policy, which predicts when an object is used next.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::heap_probe!(vnv_heap::Predict);
