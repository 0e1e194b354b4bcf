//! The server as clients see it: the real program, driven by raw messages over its pipes and over HTTP, in both eras of the
//! protocol. Real clients drive it in `.ci/mcp`.

mod answers;
mod hostile;
mod http;
mod registration;
mod resources;
mod server;
mod work;
