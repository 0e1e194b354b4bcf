//! A conformance vector is foreign text: whatever it says, running it must not panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = pannier_conformance::run_vector(text);
});
