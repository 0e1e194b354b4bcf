//! The files of a cache are foreign: whatever their bytes, reading them must not panic. And any text is cut into chunks that
//! cover it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|data: &[u8]| {
    pannier_docs::fuzz(data);
    // With a checksum that is right, what it protects is looked at.
    let checked = [data, &xxh3_64(data).to_le_bytes()].concat();
    pannier_docs::fuzz(&checked);
});
