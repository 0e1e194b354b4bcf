//! Replays recorded agent sessions and measures what policies send.

mod command;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pannier_chat::replay::{
    BlockReader, Everything, Figures, FitSession, OldestFirst, Prices, RecordedSession,
    ReplayPolicy, Summary, TrimEachRequest, replay,
};
use pannier_policy::{Policy, SessionOptions};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::command::ForeignCommand;
use super::values::list;
use super::{Answer, Control, Count, PolicyName, Request, Tokens, pool::DEFAULT_TOKENIZER};
use crate::{Failure, Shelf};

/// The policies if a request names none.
const DEFAULT_POLICIES: [&str; 2] = ["oldest-first", "balanced"];

/// The policy for single requests.
const ONCE: &str = "once";
const ONCE_POLICY: &str = "transcript";

const DEFAULT_TIMEOUT_SECONDS: usize = 60;
const DEFAULT_MIN_REQUESTS: usize = 8;
const DEFAULT_MIN_RATIO: f64 = 1.25;

request! {
    /// Replay recorded agent sessions and measure what policies send.
    pub struct EvalSessionsRequest {
        /// Recorded sessions, each with a name and its text
        #[arg(skip)]
        #[serde(default, deserialize_with = "list")]
        pub sessions: Vec<SessionText>,

        /// Budgets: tokens, or a share of each session below 1 [default: 0.5]
        #[arg(long, short, value_name = "N,N|SHARE", value_delimiter = ',')]
        #[serde(default, deserialize_with = "list")]
        #[schema(with = "Vec<String>")]
        pub budget: Vec<ReplayBudget>,

        /// Policies: everything, just-enough, oldest-first, balanced, once:NAME
        #[arg(long, short, value_name = "NAME,NAME", value_delimiter = ',')]
        #[serde(default, deserialize_with = "list")]
        pub policy: Vec<String>,

        /// Foreign command NAME=COMMAND: request on stdin, request on stdout
        ///
        /// Repeatable. The shell runs it once for each request. Its standard input is a request of Anthropic's Messages API,
        /// `{"messages":[…]}`, and its output must be one, too. `{budget}` is the budget, `{state}` a file for the
        /// command's own use that lives as long as the session, `{prev}` a file with its previous output. A non-zero exit
        /// code is a refusal, and standard error its reason.
        #[arg(long, value_name = "NAME=COMMAND")]
        #[serde(default, deserialize_with = "list")]
        pub command: Vec<String>,

        /// Seconds that a command may take for a request [default: 60]
        #[arg(long, value_name = "SECONDS", help_heading = "Advanced", hide_short_help = true)]
        pub timeout: Option<Count>,

        /// Price of a cached token, relative to plain input [default: 0.1]
        #[arg(long, value_name = "PRICE", help_heading = "Advanced", hide_short_help = true)]
        #[schema(with = "f64")]
        pub read_price: Option<f64>,

        /// Price of any other token, relative to plain input [default: 1.25]
        #[arg(long, value_name = "PRICE", help_heading = "Advanced", hide_short_help = true)]
        #[schema(with = "f64")]
        pub write_price: Option<f64>,

        /// Smallest number of requests of a session [default: 8]
        #[arg(long, value_name = "COUNT", help_heading = "Advanced", hide_short_help = true)]
        pub min_requests: Option<Count>,

        /// Smallest session, as a multiple of a budget in tokens [default: 1.25]
        #[arg(long, value_name = "RATIO", help_heading = "Advanced", hide_short_help = true)]
        #[schema(with = "f64")]
        pub min_ratio: Option<f64>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, value_name = "NAME")]
        pub tokenizer: Option<String>,
    }
}

/// A recorded session.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionText {
    /// The name, such as that of the file.
    pub name: String,
    /// The messages, or a request that contains them, as JSON.
    pub text: String,
}

/// A budget for all sessions, or a share of each session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReplayBudget {
    /// Tokens.
    Tokens(i64),
    /// A share of the tokens of each session, between 0 and 1.
    Share(f64),
}

impl ReplayBudget {
    fn tokens(self, session: &RecordedSession) -> i64 {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Share(share) => (share * session.tokens() as f64) as i64,
        }
    }

    fn is_below(self, session: &RecordedSession, ratio: f64) -> bool {
        match self {
            Self::Tokens(tokens) => session.tokens() as f64 > ratio * tokens as f64,
            Self::Share(_) => true,
        }
    }
}

impl FromStr for ReplayBudget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "write tokens, as in 16k, or a share of each session, as in 0.5";
        if let Ok(Tokens(tokens)) = text.parse() {
            return if tokens > 0 { Ok(Self::Tokens(tokens)) } else { Err(form) };
        }
        let share = text.trim().parse::<f64>().map_err(|_| form)?;
        if share > 0.0 && share < 1.0 { Ok(Self::Share(share)) } else { Err(form) }
    }
}

impl fmt::Display for ReplayBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Share(share) => write!(f, "{share} of each session"),
        }
    }
}

impl<'de> Deserialize<'de> for ReplayBudget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            value => value.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for ReplayBudget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tokens(tokens) => serializer.serialize_i64(*tokens),
            Self::Share(share) => serializer.serialize_f64(*share),
        }
    }
}

/// The figures of all policies at all budgets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EvalSessionsAnswer {
    /// The tokenizer.
    pub tokenizer: String,
    /// The prices.
    pub prices: Prices,
    /// The figures at each budget.
    pub budgets: Vec<ReplayedBudget>,
}

/// The figures at one budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayedBudget {
    /// The budget.
    pub budget: ReplayBudget,
    /// The sessions that are long enough.
    pub sessions: usize,
    /// Their tokens.
    pub tokens: i64,
    /// Their requests.
    pub requests: usize,
    /// The figures of each policy.
    pub policies: Vec<PolicyFigures>,
}

/// The figures of one policy at one budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PolicyFigures {
    /// The name of the policy or command.
    pub policy: String,
    /// The ratios over all sessions.
    pub summary: Summary,
    /// The counts of each session.
    pub sessions: Vec<SessionFigures>,
}

/// The figures of one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SessionFigures {
    /// The name of the session.
    pub session: String,
    /// The budget in tokens.
    pub budget: i64,
    /// The counts.
    pub figures: Figures,
}

impl Answer for EvalSessionsAnswer {
    fn text(&self) -> Cow<'_, str> {
        table::text(self).into()
    }
}

/// A policy that a request names.
enum Contestant {
    Everything,
    OldestFirst { low_water: f64 },
    Session(SessionOptions),
    Once(Box<Policy>),
    Command(String),
}

impl Contestant {
    fn read(name: &str, shelf: &Shelf, control: &Control<'_>) -> Result<Self, Failure> {
        Ok(match name {
            "everything" => Self::Everything,
            "just-enough" => Self::OldestFirst { low_water: 1.0 },
            "oldest-first" => Self::OldestFirst { low_water: 0.5 },
            ONCE => Self::Once(Box::new(shelf.policy(None, ONCE_POLICY, control)?)),
            _ => match name.strip_prefix(ONCE).and_then(|rest| rest.strip_prefix(':')) {
                Some(policy) => {
                    let policy = PolicyName::Name(policy.to_owned());
                    Self::Once(Box::new(shelf.policy(Some(&policy), ONCE_POLICY, control)?))
                }
                None => {
                    let policy = PolicyName::Name(name.to_owned());
                    let policy = shelf.policy(Some(&policy), ONCE_POLICY, control)?;
                    let session = policy.session().ok_or_else(|| {
                        let problem = format!(
                            "policy '{name}' is not for sessions; choose everything, just-enough, oldest-first, careful, \
                             balanced, thrifty or once:{name}"
                        );
                        Failure::Request { path: "policy".to_owned(), problem }
                    })?;
                    Self::Session(session.clone())
                }
            },
        })
    }

    /// Returns the policy for one session.
    fn start<'c>(
        &'c self,
        budget: i64,
        timeout: Duration,
        shelf: &'c Shelf,
        control: &'c Control<'c>,
    ) -> Result<Box<dyn ReplayPolicy + 'c>, Failure> {
        Ok(match self {
            Self::Everything => Box::new(Everything),
            Self::OldestFirst { low_water } => Box::new(OldestFirst::new(budget, *low_water)),
            Self::Session(policy) => Box::new(FitSession::new(policy.clone(), budget)?),
            Self::Once(policy) => Box::new(TrimEachRequest::new(shelf.registry(), policy, budget)?),
            Self::Command(template) => {
                Box::new(ForeignCommand::new(template, budget, timeout, control)?)
            }
        })
    }
}

impl EvalSessionsRequest {
    fn contestants(
        &self,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<Vec<(String, Contestant)>, Failure> {
        let invalid = |problem: &str| Failure::Request {
            path: "command".to_owned(),
            problem: problem.to_owned(),
        };
        let mut names: Vec<&str> = self.policy.iter().map(String::as_str).collect();
        if names.is_empty() && self.command.is_empty() {
            names.extend(DEFAULT_POLICIES);
        }
        let mut contestants = Vec::new();
        for name in names {
            contestants.push((name.to_owned(), Contestant::read(name, shelf, control)?));
        }
        for command in &self.command {
            if !shelf.is_local() {
                return Err(invalid("a server runs no commands; leave it out"));
            }
            let (name, template) = command.split_once('=').ok_or_else(|| {
                invalid("write a name and a command, as in mine='./fit {budget}'")
            })?;
            contestants.push((name.to_owned(), Contestant::Command(template.to_owned())));
        }
        Ok(contestants)
    }

    /// Reads the sessions. Those that cannot be read are warnings.
    fn read_sessions(
        &self,
        reader: &mut BlockReader<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<RecordedSession>, Failure> {
        let min_requests = self.min_requests.map_or(DEFAULT_MIN_REQUESTS, |Count(count)| count);
        let mut sessions = Vec::new();
        for SessionText { name, text } in &self.sessions {
            control.step("reading sessions")?;
            let read = match RecordedSession::read(name, text, reader) {
                Ok(read) => read,
                Err(error) => {
                    control.warn(format!("{name}: skipped, {error}"));
                    continue;
                }
            };
            for session in read {
                match session.requests.len() >= min_requests {
                    true => sessions.push(session),
                    false => control.warn(format!(
                        "{}: skipped, fewer than {min_requests} requests",
                        session.name
                    )),
                }
            }
        }
        if sessions.is_empty() {
            let problem = "there is no session to replay; give recorded sessions".to_owned();
            return Err(Failure::Request { path: "sessions".to_owned(), problem });
        }
        Ok(sessions)
    }

    fn prices(&self) -> Result<Prices, Failure> {
        let default = Prices::default();
        let (read, write) =
            (self.read_price.unwrap_or(default.read), self.write_price.unwrap_or(default.write));
        for (path, price) in [("read_price", read), ("write_price", write)] {
            if !(0.0..=1e6).contains(&price) {
                let problem = format!("it is {price}; it must be from 0 to 1000000");
                return Err(Failure::Request { path: path.to_owned(), problem });
            }
        }
        Ok(Prices::new(read, write))
    }
}

impl Request for EvalSessionsRequest {
    const INPUTS: &'static [&'static str] = &["sessions"];
    type Answer = EvalSessionsAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<EvalSessionsAnswer, Failure> {
        let prices = self.prices()?;
        let contestants = self.contestants(shelf, control)?;
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        let mut reader = BlockReader::new(&*counter);
        let sessions = self.read_sessions(&mut reader, control)?;
        let seconds = self.timeout.map_or(DEFAULT_TIMEOUT_SECONDS, |Count(seconds)| seconds);
        let timeout = Duration::from_secs(seconds as u64);
        let ratio = self.min_ratio.unwrap_or(DEFAULT_MIN_RATIO);
        let budgets = match self.budget.is_empty() {
            true => vec![ReplayBudget::Share(0.5)],
            false => self.budget.clone(),
        };
        let long_enough = |budget: ReplayBudget| {
            sessions.iter().filter(move |session| budget.is_below(session, ratio))
        };
        let requests =
            |budget| -> usize { long_enough(budget).map(|session| session.requests.len()).sum() };
        let total =
            budgets.iter().map(|budget| requests(*budget)).sum::<usize>() * contestants.len();
        let mut done = 0;
        let mut replayed = Vec::new();
        for budget in budgets {
            let mut policies = Vec::new();
            for (name, contestant) in &contestants {
                let mut figures = Vec::new();
                for session in long_enough(budget) {
                    let tokens = budget.tokens(session);
                    let mut policy = contestant.start(tokens, timeout, shelf, control)?;
                    let step = || {
                        control.count(done, total);
                        done += 1;
                        control.step("replaying sessions")
                    };
                    let session_figures = replay(session, tokens, &mut *policy, &mut reader, step)?;
                    figures.push(SessionFigures {
                        session: session.name.clone(),
                        budget: tokens,
                        figures: session_figures,
                    });
                }
                let summary = Summary::new(figures.iter().map(|session| &session.figures), prices);
                policies.push(PolicyFigures { policy: name.clone(), summary, sessions: figures });
            }
            replayed.push(ReplayedBudget {
                budget,
                sessions: long_enough(budget).count(),
                tokens: long_enough(budget).map(RecordedSession::tokens).sum(),
                requests: requests(budget),
                policies,
            });
        }
        Ok(EvalSessionsAnswer { tokenizer: counter.name().to_owned(), prices, budgets: replayed })
    }
}
