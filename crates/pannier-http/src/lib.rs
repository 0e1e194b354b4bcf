//! Embedding models and rerankers behind HTTP: Ollama, TEI, vLLM, llama.cpp, OpenAI, Jina, Cohere.
//!
//! [`HttpEmbedder`] and [`HttpReranker`] implement the interfaces of `pannier-docs` for an [`Endpoint`]. Everything that a
//! server sends is checked: the size of an answer, the number and order of its vectors, their dimensions and their numbers.
//! A failed call returns an error and no part of an answer. Retries are bounded by [`Limits`]; redirects are not followed.
//!
//! A key never leaves this crate except in the header of a request: it is not stored, and errors show neither the key nor
//! the name of its variable.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod client;
mod embedder;
mod endpoint;
mod error;
mod reranker;

pub use client::Limits;
pub use embedder::HttpEmbedder;
pub use endpoint::Endpoint;
pub use error::HttpError;
pub use reranker::HttpReranker;
