//! The gateway between a raw client and a fake provider.

mod faults;
mod forward;
mod sessions;
mod support;
