//! The server by raw requests over TCP.

mod api;
mod guard;
mod operations;
#[cfg(feature = "inspector")]
mod page;
mod privacy;
mod server;
