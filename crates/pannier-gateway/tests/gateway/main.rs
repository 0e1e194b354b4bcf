//! The gateway between a raw client and a fake provider.

#[path = "../../../pannier-chat/tests/support/mod.rs"]
mod oracle;

mod bytes;
mod faults;
mod forward;
mod inspect;
mod ledger;
mod recall;
mod sessions;
mod support;
mod usage;
