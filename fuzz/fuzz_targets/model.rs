//! The files of a model are foreign: reading them must not panic, whatever their bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pannier_embed::fuzz(data));
