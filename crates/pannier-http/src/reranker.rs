//! Scores by a server with a `/rerank` call.
//!
//! Jina, Cohere, vLLM and llama.cpp take `documents` and return `results` with a `relevance_score`. TEI takes `texts` and
//! returns an array with a `score`. The first form is sent; a server that asks for `texts` gets the second.

use pannier_docs::{EmbedderError, Reranker};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::{Endpoint, HttpError, Limits};

const CALL: &str = "rerank";

/// The number of texts in a call to TEI, its default limit. Other servers get all in one call: hosted ones charge by call.
const TEI_BATCH_TEXTS: usize = 32;

/// Scores passages by calls to `/rerank`.
#[derive(Debug)]
pub struct HttpReranker {
    client: Client,
}

#[derive(Serialize)]
struct Request<'t> {
    model: &'t str,
    query: &'t str,
    documents: &'t [&'t str],
    top_n: usize,
}

#[derive(Serialize)]
struct TeiRequest<'t> {
    query: &'t str,
    texts: &'t [&'t str],
    truncate: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "neither an array of scores nor an object with `results`")]
enum Answer {
    Results { results: Vec<Score> },
    Scores(Vec<Score>),
}

#[derive(Deserialize)]
struct Score {
    index: usize,
    #[serde(alias = "relevance_score")]
    score: f64,
}

impl HttpReranker {
    /// Creates a reranker; the server is called with the first query.
    pub fn new(endpoint: Endpoint, limits: Limits) -> Self {
        Self { client: Client::new(endpoint, limits) }
    }

    fn scores(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, HttpError> {
        let model = self.client.endpoint().model();
        let request = Request { model, query, documents: texts, top_n: texts.len() };
        match self.client.post(CALL, &request) {
            Ok(answer) => self.read(answer, texts.len()),
            Err(HttpError::Status { status: 400 | 422, message, .. })
                if message.contains("`texts`") =>
            {
                let batches = texts.chunks(TEI_BATCH_TEXTS).map(|texts| {
                    let request = TeiRequest { query, texts, truncate: true };
                    self.read(self.client.post(CALL, &request)?, texts.len())
                });
                Ok(batches.collect::<Result<Vec<_>, _>>()?.concat())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the scores of an answer in the order of the texts.
    fn read(&self, answer: Answer, texts: usize) -> Result<Vec<f64>, HttpError> {
        let (Answer::Results { results: received } | Answer::Scores(received)) = answer;
        let invalid = |problem: String| self.client.invalid(CALL, problem);
        if received.len() != texts {
            let scores = received.len();
            return Err(invalid(format!("it has {scores} scores for {texts} texts")));
        }
        let mut scores = vec![None; texts];
        for Score { index, score } in received {
            let slot = scores.get_mut(index).filter(|slot| slot.is_none());
            let slot = slot.ok_or_else(|| {
                invalid(format!("the index {index} of a score is out of range or appears twice"))
            })?;
            if !score.is_finite() {
                return Err(invalid(format!("the score of text {index} is not finite")));
            }
            *slot = Some(score);
        }
        Ok(scores.into_iter().flatten().collect())
    }
}

impl Reranker for HttpReranker {
    fn model(&self) -> &str {
        self.client.endpoint().model()
    }

    fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, EmbedderError> {
        Ok(self.scores(query, texts)?)
    }
}
