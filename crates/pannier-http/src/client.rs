//! Calls of a server, with retries and limits.

use std::io::Read;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;

use crate::{Endpoint, HttpError};

/// Bounds on time and size of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The time for a connection. Default: 10 seconds.
    pub connect: Duration,
    /// The time for an answer, including the connection. Default: 120 seconds.
    pub answer: Duration,
    /// The wait before the first retry; it doubles each time. Default: 0.25 seconds.
    pub first_wait: Duration,
    /// The sum of the waits of a call. Default: 60 seconds.
    pub total_wait: Duration,
    /// The number of retries after status 429 or 5xx. Default: 6.
    pub status_retries: u32,
    /// The number of retries after a failed connection. Default: 3.
    pub connection_retries: u32,
    /// The length of an answer in bytes. Default: 64 MiB.
    pub answer_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(120),
            first_wait: Duration::from_millis(250),
            total_wait: Duration::from_secs(60),
            status_retries: 6,
            connection_retries: 3,
            answer_bytes: 64 << 20,
        }
    }
}

/// An endpoint and its connections.
#[derive(Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    limits: Limits,
    agent: Agent,
}

/// The result of one attempt that may be retried.
enum Attempt {
    Done(Vec<u8>),
    /// A failure, with the wait that the server asks for.
    Retry(HttpError, Option<Duration>),
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint, limits: Limits) -> Self {
        let tls = ureq::tls::TlsConfig::builder()
            .root_certs(ureq::tls::RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(limits.connect))
            .timeout_global(Some(limits.answer))
            .user_agent(concat!("pannier/", env!("CARGO_PKG_VERSION")))
            .accept("application/json");
        Self { endpoint, limits, agent: config.build().into() }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the error of an answer that cannot be used.
    pub(crate) fn invalid(&self, call: &str, problem: impl Into<String>) -> HttpError {
        HttpError::Answer { url: self.endpoint.url(call), problem: problem.into() }
    }

    /// Sends a request and parses the answer.
    pub(crate) fn post<A: DeserializeOwned>(
        &self,
        call: &str,
        request: &impl Serialize,
    ) -> Result<A, HttpError> {
        // Plain data always serializes.
        let request = serde_json::to_vec(request).unwrap_or_default();
        let answer = self.send(call, &request)?;
        serde_json::from_slice(&answer).map_err(|error| {
            // The message may quote the answer.
            let problem = self.endpoint.quote(&error.to_string());
            self.invalid(
                call,
                format!("{problem}; check that the address is that of a model server"),
            )
        })
    }

    /// Sends a request until it succeeds, fails for good, or the limits are reached.
    fn send(&self, call: &str, request: &[u8]) -> Result<Vec<u8>, HttpError> {
        let limits = &self.limits;
        let (mut wait, mut waited) = (limits.first_wait, Duration::ZERO);
        let mut retry = 0;
        loop {
            let (error, requested) = match self.attempt(call, request)? {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Retry(error, requested) => (error, requested),
            };
            let max_retries = match &error {
                HttpError::Connection { .. } => limits.connection_retries,
                _ => limits.status_retries,
            };
            if retry >= max_retries {
                return Err(error);
            }
            let next = wait.max(requested.unwrap_or_default());
            if waited.saturating_add(next) > limits.total_wait {
                return Err(match (error, requested) {
                    (HttpError::Status { url, status, .. }, Some(requested)) => {
                        HttpError::Wait { url, status, seconds: requested.as_secs() }
                    }
                    (error, _) => error,
                });
            }
            std::thread::sleep(next);
            waited += next;
            wait = wait.saturating_mul(2);
            retry += 1;
        }
    }

    fn attempt(&self, call: &str, request: &[u8]) -> Result<Attempt, HttpError> {
        let url = self.endpoint.url(call);
        let mut post = self.agent.post(&url).content_type("application/json");
        if let Some(authorization) = self.endpoint.authorization() {
            post = post.header("Authorization", authorization);
        }
        let response = match post.send(request) {
            Ok(response) => response,
            Err(error) => return self.failed(&url, &error),
        };
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        // Seconds only: a date would need a clock that agrees with the server's.
        let requested = header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        let location = header("location");
        if let 300..400 = status {
            let location = self.endpoint.quote(&location.unwrap_or_default());
            return Err(HttpError::Redirect { url, location });
        }
        let answer = match self.read(response) {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                return Err(HttpError::TooLarge { url, max_bytes: self.limits.answer_bytes });
            }
            Err(error) => return self.failed(&url, &ureq::Error::from(error)),
        };
        if status == 200 {
            return Ok(Attempt::Done(answer));
        }
        let message = self.endpoint.quote(&message(&answer));
        let error = HttpError::Status { url, status, message };
        match status {
            408 | 429 | 500 | 502..600 => {
                Ok(Attempt::Retry(error, requested.map(Duration::from_secs)))
            }
            _ => Err(error),
        }
    }

    /// Reads the body of an answer; `None` if it is too long.
    fn read(&self, response: Response<ureq::Body>) -> std::io::Result<Option<Vec<u8>>> {
        let max_bytes = self.limits.answer_bytes;
        let mut answer = Vec::new();
        let reader = response.into_body().into_reader();
        let read = reader.take(max_bytes + 1).read_to_end(&mut answer)?;
        Ok((read as u64 <= max_bytes).then_some(answer))
    }

    /// Returns a retry for errors of the connection, and an error otherwise.
    fn failed(&self, url: &str, error: &ureq::Error) -> Result<Attempt, HttpError> {
        let url = url.to_owned();
        let problem = match error {
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        let problem = self.endpoint.quote(&problem);
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                Err(HttpError::Timeout { url, seconds: self.limits.connect.as_secs() })
            }
            ureq::Error::Timeout(_) => {
                Err(HttpError::Timeout { url, seconds: self.limits.answer.as_secs() })
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                Err(HttpError::Address { problem: "it is not a URL" })
            }
            ureq::Error::Io(_) | ureq::Error::Protocol(_) | ureq::Error::ConnectionFailed => {
                Ok(Attempt::Retry(HttpError::Connection { url, problem }, None))
            }
            _ => Err(HttpError::Connection { url, problem }),
        }
    }
}

/// Returns the message of an answer that reports an error: OpenAI, FastAPI, TEI and Cohere have different fields.
fn message(answer: &[u8]) -> String {
    let Ok(json) = serde_json::from_slice::<Value>(answer) else {
        return String::from_utf8_lossy(answer).into_owned();
    };
    let fields = ["/error/message", "/message", "/detail", "/error"];
    let text = fields.iter().find_map(|field| json.pointer(field));
    match text.unwrap_or(&json) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
