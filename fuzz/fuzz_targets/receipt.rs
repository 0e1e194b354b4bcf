//! A receipt is foreign: whatever it says, reading, replaying and comparing it must not panic, and what was
//! read must read back the same.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pannier_core::{ContextItem, TokenCounter};
use pannier_policy::{PolicyRegistry, Receipt};
use pannier_tokens::BytesOverFour;

fuzz_target!(|text: &[u8]| {
    let Ok(receipt) = serde_json::from_slice::<Receipt>(text) else {
        return;
    };
    let written = serde_json::to_string(&receipt).unwrap();
    assert_eq!(serde_json::from_str::<Receipt>(&written).unwrap(), receipt);
    let diff = receipt.diff(&receipt);
    assert!(diff.included.is_empty() && diff.excluded.is_empty() && diff.moved.is_empty());
    let items: Vec<_> = ["one", "two"].map(|text| ContextItem::new(text, 10).unwrap()).into();
    let counter: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
    let _ = receipt.replay(&items, &PolicyRegistry::default(), &counter);
});
