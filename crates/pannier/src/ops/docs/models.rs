//! Models by their names: folders of this machine, and servers.

use pannier_docs::{Embedder, Model, Reranker};

use crate::Failure;

/// Opens an embedding model: `none`, `static:FOLDER`, `minilm:FOLDER` or `http://HOST/v1#MODEL`.
///
/// `key_env` names the environment variable with the key of a server. `index_model` is the model of an index that the
/// vectors are for: a server's model takes its identity if both are compatible.
///
/// # Errors
///
/// [`Failure::Request`] if there is no such model, or this build does not support it; an error of the model or the server.
pub fn open_embedder(
    name: &str,
    key_env: Option<&str>,
    index_model: Option<&Model>,
) -> Result<Option<Box<dyn Embedder>>, Failure> {
    if is_address(name) {
        return remote::embedder(name, key_env, index_model).map(Some);
    }
    if key_env.is_some() {
        return refused("embedder_key_env", "only a server has a key; remove it");
    }
    local(name)
}

/// Opens a reranker: `none` or `http://HOST/v1#MODEL`.
///
/// # Errors
///
/// [`Failure::Request`] if it is not an address, or this build cannot call servers; an error of the address or the key.
pub fn open_reranker(
    name: &str,
    key_env: Option<&str>,
) -> Result<Option<Box<dyn Reranker>>, Failure> {
    match name {
        "none" => Ok(None),
        name if is_address(name) => remote::reranker(name, key_env).map(Some),
        _ => refused("reranker", "it is not an address; write http://HOST/v1#MODEL or none"),
    }
}

fn is_address(name: &str) -> bool {
    let begins_with = |scheme: &str| {
        name.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    begins_with("http://") || begins_with("https://")
}

fn refused<T>(path: &str, problem: &str) -> Result<T, Failure> {
    Err(Failure::Request { path: path.to_owned(), problem: problem.to_owned() })
}

#[cfg(feature = "embed")]
fn local(name: &str) -> Result<Option<Box<dyn Embedder>>, Failure> {
    match pannier_embed::open_embedder(name) {
        Err(pannier_embed::EmbedError::UnknownName { name }) => {
            let known = "none, static:FOLDER, minilm:FOLDER or http://HOST/v1#MODEL";
            refused("embedder", &format!("there is no embedder '{name}'; use {known}"))
        }
        opened => Ok(opened?),
    }
}

#[cfg(not(feature = "embed"))]
fn local(name: &str) -> Result<Option<Box<dyn Embedder>>, Failure> {
    match name {
        "none" => Ok(None),
        _ => refused("embedder", "this build has no embedding models; enable the feature `embed`"),
    }
}

#[cfg(feature = "http")]
mod remote {
    use pannier_docs::{Embedder, Model, Reranker};
    use pannier_http::{Endpoint, HttpEmbedder, HttpReranker, Limits};

    use crate::Failure;

    fn endpoint(address: &str, key_env: Option<&str>) -> Result<Endpoint, Failure> {
        let endpoint = Endpoint::parse(address)?;
        Ok(match key_env {
            Some(variable) => endpoint.with_key_from(variable)?,
            None => endpoint,
        })
    }

    pub(super) fn embedder(
        address: &str,
        key_env: Option<&str>,
        index_model: Option<&Model>,
    ) -> Result<Box<dyn Embedder>, Failure> {
        let embedder = HttpEmbedder::open(endpoint(address, key_env)?, Limits::default())?;
        Ok(Box::new(match index_model {
            Some(model) => embedder.with_model_of_index(model),
            None => embedder,
        }))
    }

    pub(super) fn reranker(
        address: &str,
        key_env: Option<&str>,
    ) -> Result<Box<dyn Reranker>, Failure> {
        Ok(Box::new(HttpReranker::new(endpoint(address, key_env)?, Limits::default())))
    }
}

#[cfg(not(feature = "http"))]
mod remote {
    use pannier_docs::{Embedder, Model, Reranker};

    use super::refused;
    use crate::Failure;

    const PROBLEM: &str = "this build cannot call servers; enable the feature `http`";

    pub(super) fn embedder(
        _: &str,
        _: Option<&str>,
        _: Option<&Model>,
    ) -> Result<Box<dyn Embedder>, Failure> {
        refused("embedder", PROBLEM)
    }

    pub(super) fn reranker(_: &str, _: Option<&str>) -> Result<Box<dyn Reranker>, Failure> {
        refused("reranker", PROBLEM)
    }
}
