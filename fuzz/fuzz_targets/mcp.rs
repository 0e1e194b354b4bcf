//! What clients write is foreign: lines, names of resources, and the arguments of calls.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pannier_mcp::fuzz(data));
