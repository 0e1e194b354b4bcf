//! The server by raw requests over TCP.

mod api;
mod guard;
mod operations;
mod privacy;
mod server;
