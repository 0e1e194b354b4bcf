//! The parameters of chat sessions.

use crate::component::records;
use crate::tree::ReadError;

/// The range of weights. Their sum fits an integer of 1/256 steps.
const MAX_WEIGHT: f64 = 1_000.0;

/// The maximum of token counts and prices.
const MAX_TOKENS: f64 = 1e12;

records! {
    /// How a session cuts the blocks of its requests.
    ///
    /// Shares refer to the tokens that the budget leaves for messages, after system prompt and tools.
    #[serde(default)]
    pub struct SessionOptions {
        /// The share up to which a request is sent as it is; default: 0.5.
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub pressure: f64,
        /// The share to which a batch of cuts reduces a request; default: 0.6.
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub low_water: f64,
        /// The share that a new result of a read may take under pressure; default: 0.1.
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub read_cap: f64,
        /// The share that another new result may take under pressure; default: 0.05.
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub result_cap: f64,
        /// The tokens below which no new result is cut; default: 1000.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub min_cap_tokens: i64,
        /// The share of a result's tokens that its list of names may take; default: 0.15.
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub names_share: f64,
        /// The maximum tokens of a list of names; default: 48.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub max_names_tokens: i64,
        /// The newest results that a batch leaves whole; default: 2.
        pub keep_results: usize,
        /// The newest edits that are cut last; default: 3.
        pub keep_edits: usize,
        /// The weights by which results are cut first.
        pub weights: SessionWeights,
        /// The prices of input tokens, for the cost of a session.
        pub prices: SessionPrices,
    }

    /// The weights of a result's value. It is the exponential of their sum, and a batch cuts the lowest value per token first.
    #[serde(default)]
    pub struct SessionWeights {
        /// The result of a read; default: 0.
        pub read: f64,
        /// The result of a search; default: -0.75.
        pub search: f64,
        /// The output of a command; default: -1.25.
        pub command: f64,
        /// The result of an edit; default: -1.5.
        pub edit: f64,
        /// The acknowledgement of a write or a plan; default: -3.
        pub acknowledgement: f64,
        /// Any other result; default: -1.
        pub other: f64,
        /// The natural logarithm of its tokens; default: 0.45.
        pub size: f64,
        /// The natural logarithm of 1 plus the number of results after it; default: -0.3.
        pub age: f64,
        /// The natural logarithm of 1 plus the number of its rare names that occur in later messages; default: 0.25.
        pub named: f64,
        /// No such name; default: -0.35.
        pub unnamed: f64,
        /// The same call was repeated, or the file was read again as a whole; default: -1.75.
        pub superseded: f64,
        /// The file of a read was edited later; default: -0.75.
        pub edited: f64,
        /// The share of the query's terms that it contains; default: 2.
        pub query: f64,
    }

    /// The prices of input tokens, relative to tokens without a cache.
    #[serde(default)]
    pub struct SessionPrices {
        /// A token that the provider caches; default: 1.25.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub write: f64,
        /// A token in the cache; default: 0.1.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub read: f64,
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            pressure: 0.5,
            low_water: 0.6,
            read_cap: 0.1,
            result_cap: 0.05,
            min_cap_tokens: 1000,
            names_share: 0.15,
            max_names_tokens: 48,
            keep_results: 2,
            keep_edits: 3,
            weights: SessionWeights::default(),
            prices: SessionPrices::default(),
        }
    }
}

impl Default for SessionWeights {
    fn default() -> Self {
        Self {
            read: 0.0,
            search: -0.75,
            command: -1.25,
            edit: -1.5,
            acknowledgement: -3.0,
            other: -1.0,
            size: 0.45,
            age: -0.3,
            named: 0.25,
            unnamed: -0.35,
            superseded: -1.75,
            edited: -0.75,
            query: 2.0,
        }
    }
}

impl Default for SessionPrices {
    fn default() -> Self {
        Self { write: 1.25, read: 0.1 }
    }
}

impl SessionOptions {
    /// Checks the ranges of all numbers.
    pub(crate) fn check(&self) -> Result<(), ReadError> {
        let Self { weights, prices, .. } = self;
        let shares = [
            ("pressure", self.pressure),
            ("low_water", self.low_water),
            ("read_cap", self.read_cap),
            ("result_cap", self.result_cap),
            ("names_share", self.names_share),
        ];
        let weights = [
            ("weights.read", weights.read),
            ("weights.search", weights.search),
            ("weights.command", weights.command),
            ("weights.edit", weights.edit),
            ("weights.acknowledgement", weights.acknowledgement),
            ("weights.other", weights.other),
            ("weights.size", weights.size),
            ("weights.age", weights.age),
            ("weights.named", weights.named),
            ("weights.unnamed", weights.unnamed),
            ("weights.superseded", weights.superseded),
            ("weights.edited", weights.edited),
            ("weights.query", weights.query),
        ];
        let tokens = [
            ("min_cap_tokens", self.min_cap_tokens as f64),
            ("max_names_tokens", self.max_names_tokens as f64),
            ("prices.write", prices.write),
            ("prices.read", prices.read),
        ];
        let ranges = [
            (&shares[..], 0.0..=1.0),
            (&weights[..], -MAX_WEIGHT..=MAX_WEIGHT),
            (&tokens[..], 0.0..=MAX_TOKENS),
        ];
        for (numbers, range) in ranges {
            for (name, found) in numbers {
                if !range.contains(found) {
                    let (min, max) = (range.start(), range.end());
                    let problem = format!("expected a number from {min} to {max}, found {found}");
                    return Err(ReadError::new(*name, problem));
                }
            }
        }
        Ok(())
    }
}
