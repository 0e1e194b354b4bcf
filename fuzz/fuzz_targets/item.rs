//! A line of items is foreign: whatever it says, reading it must not panic, and what was read must read
//! back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pannier_core::ContextItem;
use pannier_core::item::UncountedItem;

fuzz_target!(|line: &[u8]| {
    let Ok(item) = serde_json::from_slice::<UncountedItem>(line) else {
        return;
    };
    let item = UncountedItem::count(vec![item], &pannier_tokens::BytesOverFour).remove(0);
    let written = serde_json::to_string(&item).unwrap();
    assert_eq!(serde_json::from_str::<ContextItem>(&written).unwrap(), item);
});
