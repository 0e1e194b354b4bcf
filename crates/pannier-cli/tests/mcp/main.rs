//! Tests of the server program by raw messages over pipes and HTTP, in both versions of the protocol. `.ci/mcp` tests it with
//! real clients.

mod budgets;
mod equality;
mod executor;
mod hostile;
mod http;
mod names;
mod outputs;
mod privacy;
mod registration;
mod resources;
mod server;
#[path = "../support/mod.rs"]
mod support;
