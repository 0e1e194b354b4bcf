//! The settings of a packet. Receipts record them.

use pannier_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::policy::PacketPolicy;
use crate::render::PacketFormat;
use crate::{Config, Sources};

/// The settings of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PacketOptions {
    /// The maximum number of tokens.
    pub budget: usize,
    /// The maximum number of characters; unlimited if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_characters: Option<usize>,
    /// The output format.
    pub format: PacketFormat,
    /// The policy that selects the entries.
    #[serde(
        default = "PacketPolicy::of_old_receipts",
        skip_serializing_if = "PacketPolicy::is_seed"
    )]
    pub policy: PacketPolicy,
    /// The share of tasks, in percent: a guarantee of what the rules leave, and in the specification's packets a maximum.
    pub task_percent: f64,
    /// The share of conventions, as that of tasks.
    pub convention_percent: f64,
    /// The guaranteed share of decisions; the specification has none.
    #[serde(default = "scored_percent", skip_serializing_if = "is_scored_percent")]
    pub decision_percent: f64,
    /// The guaranteed share of learnings; the specification has none.
    #[serde(default = "scored_percent", skip_serializing_if = "is_scored_percent")]
    pub learning_percent: f64,
    /// The work at hand: entries that match it score higher. In the specification's packets, decisions and learnings only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The files that the work concerns. Rules with matching patterns are in the packet, and others only named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The files that the memory was read from.
    #[serde(default, skip_serializing_if = "Sources::is_folder")]
    pub sources: Sources,
    /// The current time, against which the age of entries is measured.
    pub now: Timestamp,
    /// Whether a JSON packet contains the current time. Receipts hash the key `tells_time`.
    #[serde(rename = "tells_time")]
    pub include_timestamp: bool,
}

fn scored_percent() -> f64 {
    PacketOptions::SCORED_PERCENT
}

fn is_scored_percent(percent: &f64) -> bool {
    *percent == PacketOptions::SCORED_PERCENT
}

impl PacketOptions {
    /// The default budget in tokens.
    pub const BUDGET: usize = 8_000;
    /// The default of [`task_percent`](Self::task_percent).
    pub const TASK_PERCENT: f64 = 40.0;
    /// The default of [`convention_percent`](Self::convention_percent).
    pub const CONVENTION_PERCENT: f64 = 20.0;
    /// The default of [`decision_percent`](Self::decision_percent) and [`learning_percent`](Self::learning_percent).
    pub const SCORED_PERCENT: f64 = 20.0;

    /// Applies the values that a configuration sets.
    ///
    /// ```
    /// use pannier_memory::{Config, PacketOptions};
    ///
    /// let config = Config::parse(".ctxrc".as_ref(), "token_budget: 600\ntask_budget_pct: 0.29\n")?;
    /// let options = PacketOptions::new("2026-03-01T12:00:00Z".parse()?);
    /// let options = options.with_config(&config).with_query(["fix the roof", "src/roof.rs"]);
    /// assert_eq!((options.budget, options.task_percent), (600, 29.0));
    /// assert_eq!(options.convention_percent, PacketOptions::CONVENTION_PERCENT);
    /// assert_eq!(options.query.as_deref(), Some("fix the roof src/roof.rs"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_config(mut self, config: &Config) -> Self {
        let percent = |share: Option<f64>, default: f64| {
            // Rounded: 0.29 * 100.0 is not 29.0.
            share.map_or(default, |share| (share * 1e11).round() / 1e9)
        };
        self.budget = config.token_budget.unwrap_or(self.budget);
        self.task_percent = percent(config.task_budget_pct, self.task_percent);
        self.convention_percent = percent(config.convention_budget_pct, self.convention_percent);
        self.decision_percent = percent(config.decision_budget_pct, self.decision_percent);
        self.learning_percent = percent(config.learning_budget_pct, self.learning_percent);
        self
    }

    /// Sets the query to these texts, such as the request and the paths it concerns. Blank texts set none.
    #[must_use]
    pub fn with_query<'t>(mut self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let query = texts.into_iter().collect::<Vec<_>>().join(" ");
        self.query = Some(query).filter(|query| !query.trim().is_empty());
        self
    }

    /// Returns the defaults: 8,000 tokens of Markdown.
    pub fn new(now: Timestamp) -> Self {
        Self {
            budget: Self::BUDGET,
            max_characters: None,
            format: PacketFormat::default(),
            task_percent: Self::TASK_PERCENT,
            convention_percent: Self::CONVENTION_PERCENT,
            policy: PacketPolicy::default(),
            decision_percent: Self::SCORED_PERCENT,
            learning_percent: Self::SCORED_PERCENT,
            query: None,
            files: Vec::new(),
            sources: Sources::default(),
            now,
            include_timestamp: false,
        }
    }
}
