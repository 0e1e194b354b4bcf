//! Replays recorded agent sessions and measures what policies send.

mod command;
mod fit;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pannier_chat::replay::{
    BlockReader, Everything, Figures, FitSession, OldestFirst, Prices, RecordedSession,
    ReplayPolicy, Summary, TrimEachRequest, replay,
};
use pannier_core::TokenCounter;
use pannier_policy::{Policy, SessionOptions, SessionWeights};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::command::ForeignCommand;
use self::fit::Score;
use super::values::list;
use super::{Answer, Control, Count, PolicyName, Request, Tokens, pool::DEFAULT_TOKENIZER};
use crate::{Failure, Shelf};

/// The policies if a request names none.
const DEFAULT_POLICIES: [&str; 4] = ["oldest-first", "careful", "balanced", "thrifty"];

/// The policy for sessions if a request names none.
const DEFAULT_SESSION: &str = "balanced";

/// The order of the next uses, which only a replay knows.
const CLAIRVOYANT: &str = "clairvoyant";

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

        /// Policies [default: oldest-first, careful, balanced, thrifty]
        ///
        /// `everything` sends the whole history. `just-enough` and `oldest-first` replace the oldest results, the latter down
        /// to half of the budget. `careful`, `balanced`, `thrifty` and policy files fit requests as `pannier chat` does.
        /// `clairvoyant:NAME` does so in the order of the next uses, which no policy can know. `once:NAME` trims each
        /// request for itself.
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

        /// Find weights for these sessions; print the policy with them
        ///
        /// Starts from the first policy, or `balanced`. Every other session decides, and the others check the result: if it is
        /// worse for them, the policy is printed as it was.
        #[arg(long)]
        #[serde(default)]
        pub fit: bool,

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
    /// Returns the budget of a session in tokens.
    pub fn tokens(self, session: &RecordedSession) -> i64 {
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
    /// The policy with fitted weights, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<FittedPolicy>,
}

/// A policy whose weights were fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FittedPolicy {
    /// The policy. Its weights are those of the start if fitted ones are worse for the checking sessions.
    pub policy: Policy,
    /// Whether the weights changed.
    pub is_changed: bool,
    /// The sessions that decided.
    pub fitting: FitCheck,
    /// The sessions that checked the result.
    pub checking: FitCheck,
}

/// The cost with recalls of some sessions, before and after weights were fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FitCheck {
    /// The sessions.
    pub sessions: usize,
    /// With the weights of the start.
    pub before: f64,
    /// With the fitted weights.
    pub after: f64,
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
        match &self.fitted {
            Some(fitted) => fitted.text().into(),
            None => table::text(self).into(),
        }
    }
}

impl FittedPolicy {
    /// Returns a policy file, which says where it comes from.
    fn text(&self) -> String {
        let line = |name, check: FitCheck| {
            let FitCheck { sessions, before, after } = check;
            format!(
                "# {name} {sessions} sessions: cost with recalls {before:.3} before, {after:.3} after\n"
            )
        };
        let outcome = match self.is_changed {
            true => "",
            false => "# the fitted weights are not better for both, so these are the former ones\n",
        };
        // A policy always serializes.
        let policy = toml::to_string(&self.policy).unwrap_or_default();
        line("fitted on", self.fitting) + &line("checked on", self.checking) + outcome + &policy
    }
}

/// A policy that a request names.
enum Contestant {
    Everything,
    OldestFirst { low_water: f64 },
    Session(SessionOptions),
    Clairvoyant(SessionOptions),
    Once(Box<Policy>),
    Command(String),
}

impl Contestant {
    fn read(name: &str, shelf: &Shelf, control: &Control<'_>) -> Result<Self, Failure> {
        let session = |name| -> Result<SessionOptions, Failure> {
            Ok(session_policy(name, shelf, control)?.session().cloned().unwrap_or_default())
        };
        let once = |name: Option<&str>| -> Result<Self, Failure> {
            let policy = name.map(|name| PolicyName::Name(name.to_owned()));
            Ok(Self::Once(Box::new(shelf.policy(policy.as_ref(), ONCE_POLICY, control)?)))
        };
        Ok(match (name, name.split_once(':')) {
            ("everything", _) => Self::Everything,
            ("just-enough", _) => Self::OldestFirst { low_water: 1.0 },
            ("oldest-first", _) => Self::OldestFirst { low_water: 0.5 },
            (CLAIRVOYANT, _) => Self::Clairvoyant(session(DEFAULT_SESSION)?),
            (_, Some((CLAIRVOYANT, name))) => Self::Clairvoyant(session(name)?),
            (ONCE, _) => once(None)?,
            (_, Some((ONCE, name))) => once(Some(name))?,
            _ => Self::Session(session(name)?),
        })
    }

    /// Returns the policy for one session.
    fn start<'c>(
        &'c self,
        session: &RecordedSession,
        budget: i64,
        arena: &'c Arena<'c>,
    ) -> Result<Box<dyn ReplayPolicy + 'c>, Failure> {
        let Arena { counter, timeout, shelf, control, .. } = arena;
        Ok(match self {
            Self::Everything => Box::new(Everything),
            Self::OldestFirst { low_water } => Box::new(OldestFirst::new(budget, *low_water)),
            Self::Session(options) => Box::new(FitSession::new(options.clone(), *counter, budget)?),
            Self::Clairvoyant(options) => {
                let policy = FitSession::new(options.clone(), *counter, budget)?;
                Box::new(policy.with_clairvoyance(session))
            }
            Self::Once(policy) => Box::new(TrimEachRequest::new(shelf.registry(), policy, budget)?),
            Self::Command(template) => {
                Box::new(ForeignCommand::new(template, budget, *timeout, control)?)
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

/// The sessions and settings of a run.
struct Arena<'r> {
    sessions: Vec<RecordedSession>,
    budgets: Vec<ReplayBudget>,
    min_ratio: f64,
    prices: Prices,
    timeout: Duration,
    counter: &'r dyn TokenCounter,
    shelf: &'r Shelf,
    control: &'r Control<'r>,
}

impl Arena<'_> {
    /// Returns the sessions that are long enough for a budget.
    fn sessions(&self, budget: ReplayBudget) -> impl Iterator<Item = &RecordedSession> {
        self.sessions.iter().filter(move |session| budget.is_below(session, self.min_ratio))
    }

    fn requests(&self, budget: ReplayBudget) -> usize {
        self.sessions(budget).map(|session| session.requests.len()).sum()
    }

    /// Replays some of the sessions at a budget. `step` is called before each request.
    fn replay<'s>(
        &'s self,
        contestant: &Contestant,
        budget: ReplayBudget,
        sessions: impl Iterator<Item = &'s RecordedSession>,
        reader: &mut BlockReader<'_>,
        mut step: impl FnMut(),
    ) -> Result<Vec<SessionFigures>, Failure> {
        let mut figures = Vec::new();
        for session in sessions {
            let tokens = budget.tokens(session);
            let mut policy = contestant.start(session, tokens, self)?;
            let step = || {
                step();
                self.control.step("replaying sessions")
            };
            figures.push(SessionFigures {
                session: session.name.clone(),
                budget: tokens,
                figures: replay(session, tokens, &mut *policy, reader, step)?,
            });
        }
        Ok(figures)
    }

    fn summary(&self, figures: &[SessionFigures]) -> Summary {
        Summary::new(figures.iter().map(|session| &session.figures), self.prices)
    }

    /// Replays all sessions with all policies.
    fn replay_all(
        &self,
        contestants: &[(String, Contestant)],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayedBudget>, Failure> {
        let requests = self.budgets.iter().map(|budget| self.requests(*budget));
        let total = requests.sum::<usize>() * contestants.len();
        let (mut done, mut replayed) = (0, Vec::new());
        for &budget in &self.budgets {
            let mut policies = Vec::new();
            for (name, contestant) in contestants {
                let step = || {
                    self.control.count(done, total);
                    done += 1;
                };
                let sessions = self.sessions(budget);
                let sessions = self.replay(contestant, budget, sessions, reader, step)?;
                let summary = self.summary(&sessions);
                policies.push(PolicyFigures { policy: name.clone(), summary, sessions });
            }
            replayed.push(ReplayedBudget {
                budget,
                sessions: self.sessions(budget).count(),
                tokens: self.sessions(budget).map(RecordedSession::tokens).sum(),
                requests: self.requests(budget),
                policies,
            });
        }
        Ok(replayed)
    }

    /// Finds weights on every other session, and checks them on the others.
    fn fit(&self, policy: &Policy, reader: &mut BlockReader<'_>) -> Result<FittedPolicy, Failure> {
        let start = policy.session().cloned().unwrap_or_default();
        let mut replays = 0;
        let mut score = |weights: &SessionWeights, remainder: usize| {
            let contestant =
                Contestant::Session(SessionOptions { weights: weights.clone(), ..start.clone() });
            let mut score = Score { cost_with_recalls: 0.0, lost_hard_needles: 0 };
            for &budget in &self.budgets {
                let sessions = self.sessions(budget).enumerate();
                let sessions = sessions.filter(|(index, _)| index % 2 == remainder);
                let sessions = sessions.map(|(_, session)| session);
                let figures = self.replay(&contestant, budget, sessions, reader, || {})?;
                let lost = figures.iter().map(|session| session.figures.lost_hard_needles);
                score.lost_hard_needles += lost.sum::<u64>();
                score.cost_with_recalls +=
                    self.summary(&figures).cost_with_recalls / self.budgets.len() as f64;
            }
            replays += 1;
            self.control.count(replays, fit::MAX_REPLAYS);
            Ok(score)
        };
        let before = [score(&start.weights, 0)?, score(&start.weights, 1)?];
        let (weights, fitted) = fit::fit(start.weights.clone(), |weights| score(weights, 0))?;
        let checked = score(&weights, 1)?;
        let is_changed = weights != start.weights && !before[1].is_below(&checked);
        let count = |remainder: usize| {
            let longest = self.budgets.iter().map(|budget| self.sessions(*budget).count()).max();
            (longest.unwrap_or(0) + 1 - remainder) / 2
        };
        let check = |remainder: usize, after: Score| FitCheck {
            sessions: count(remainder),
            before: before[remainder].cost_with_recalls,
            after: after.cost_with_recalls,
        };
        let options = match is_changed {
            true => SessionOptions { weights, ..start },
            false => start,
        };
        Ok(FittedPolicy {
            policy: policy.clone().with_session(options),
            is_changed,
            fitting: check(0, fitted),
            checking: check(1, checked),
        })
    }
}

impl Request for EvalSessionsRequest {
    const INPUTS: &'static [&'static str] = &["sessions"];
    type Answer = EvalSessionsAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<EvalSessionsAnswer, Failure> {
        let prices = self.prices()?;
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        let mut reader = BlockReader::new(&*counter);
        let seconds = self.timeout.map_or(DEFAULT_TIMEOUT_SECONDS, |Count(seconds)| seconds);
        let arena = Arena {
            sessions: self.read_sessions(&mut reader, control)?,
            budgets: match self.budget.is_empty() {
                true => vec![ReplayBudget::Share(0.5)],
                false => self.budget.clone(),
            },
            min_ratio: self.min_ratio.unwrap_or(DEFAULT_MIN_RATIO),
            prices,
            timeout: Duration::from_secs(seconds as u64),
            counter: &*counter,
            shelf,
            control,
        };
        let (mut budgets, mut fitted) = (Vec::new(), None);
        if self.fit {
            let name = self.policy.first().map_or(DEFAULT_SESSION, String::as_str);
            let policy = session_policy(name, shelf, control)?;
            fitted = Some(arena.fit(&policy, &mut reader)?);
        } else {
            budgets = arena.replay_all(&self.contestants(shelf, control)?, &mut reader)?;
        }
        Ok(EvalSessionsAnswer { tokenizer: counter.name().to_owned(), prices, budgets, fitted })
    }
}

/// Returns a policy for sessions by its name or file.
fn session_policy(name: &str, shelf: &Shelf, control: &Control<'_>) -> Result<Policy, Failure> {
    let requested = PolicyName::Name(name.to_owned());
    let policy = shelf.policy(Some(&requested), ONCE_POLICY, control)?;
    match policy.session() {
        Some(_) => Ok(policy),
        None => {
            let problem = format!(
                "policy '{name}' is not for sessions; choose everything, just-enough, oldest-first, careful, balanced, \
                 thrifty, clairvoyant or once:{name}"
            );
            Err(Failure::Request { path: "policy".to_owned(), problem })
        }
    }
}
