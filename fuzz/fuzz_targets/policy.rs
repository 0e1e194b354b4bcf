//! A policy file is foreign: whatever it says, reading it must not panic, and what was read must read
//! back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pannier_policy::Policy;

fuzz_target!(|text: &[u8]| {
    if let Ok(policy) = serde_json::from_slice::<Policy>(text) {
        let written = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&written).unwrap(), policy);
    }
});
