//! Tests of the server program by raw messages over pipes and HTTP, in both versions of the protocol. `.ci/mcp` tests it with
//! real clients.

mod equality;
mod executor;
mod hostile;
mod http;
mod outputs;
mod registration;
mod resources;
mod server;
