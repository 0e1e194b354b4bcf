//! From values to a policy, with the path to every mistake.

use std::cell::RefCell;

use super::build::Surroundings;
use pannier_layout::DocumentLayout;

use super::{CurvePolicy, Packing, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};
use pannier_core::{
    ContextKind, CountQuotaEntry, Deduplication, Error, Metadata, MetadataValue, OverflowStrategy,
    Quota, ReflexiveScorer, ScarcityBehavior, Tier, TieredSlice, Timestamp,
};

pub(super) const PLACERS: &[(&str, PlacerPolicy)] = &[
    ("chronological", PlacerPolicy::Chronological),
    ("u-shaped", PlacerPolicy::UShaped),
    ("rank", PlacerPolicy::Rank),
    ("stable", PlacerPolicy::Stable),
    ("document", PlacerPolicy::Document),
    ("taken", PlacerPolicy::Taken),
];

pub(super) const PACKINGS: &[(&str, Packing)] = &[
    ("greedy", Packing::Greedy),
    ("interleaved", Packing::Interleaved),
    ("score-weighted", Packing::ScoreWeighted),
];

pub(super) const STRATEGIES: &[(&str, OverflowStrategy)] = &[
    ("throw", OverflowStrategy::Throw),
    ("truncate", OverflowStrategy::Truncate),
    ("proceed", OverflowStrategy::Proceed),
];

pub(super) const SCARCITIES: &[(&str, ScarcityBehavior)] =
    &[("degrade", ScarcityBehavior::Degrade), ("throw", ScarcityBehavior::Throw)];

/// Parts are built to see whether they can be, with what they leave open filled in somehow.
const STAND_IN: Surroundings<'_> = Surroundings {
    now: Some(Timestamp::UNIX_EPOCH),
    previous: None,
    custom: &|_| Ok(Box::new(ReflexiveScorer)),
};

const SCORERS: &str = "recency, priority, kind, tag, frequency, reflexive, composite, product, \
                       sum, by_kind, scaled, metadata_trust, metadata_key, decay, keyword, lexical, \
                       stability, custom";
const SLICERS: &str =
    "greedy, rank, knapsack, quota, count_quota, count_constrained_knapsack, document, tiered";
const CURVES: &str = "exponential, window, step";

impl Policy {
    /// Reads a policy from a tree of values, as a TOML or JSON file holds it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] with the path to the first key that is unknown, missing, of the wrong
    /// type or of an impossible value, and what is allowed there.
    pub fn from_value(value: &MetadataValue) -> Result<Self, Error> {
        let table = Table::new(String::new(), value)?;
        let policy = Self {
            name: table.text("name")?.map(str::to_owned),
            description: table.text("description")?.map(str::to_owned),
            scorers: table.list("scorers", weighted_scorer)?,
            slicer: slicer(&table, "slicer", table.text("slicer")?.unwrap_or("greedy"))?,
            placer: table.choice("placer", PLACERS, PlacerPolicy::Chronological)?,
            deduplication: deduplication(&table)?,
            overflow_strategy: table.choice(
                "overflow_strategy",
                STRATEGIES,
                OverflowStrategy::Throw,
            )?,
            keep_groups_together: table.flag("keep_groups_together")?.unwrap_or(false),
        };
        table.finish()?;
        // Each part is sound by now; what is left to check is how the scorers go together.
        check("scorers", policy.build(&STAND_IN))?;
        Ok(policy)
    }
}

/// Whether equal contents are dropped, or from which share in thousandths on those that are nearly so.
fn deduplication(table: &Table<'_>) -> Result<Deduplication, Error> {
    match table.get("deduplication") {
        None => Ok(Deduplication::Exact),
        Some(MetadataValue::Bool(flag)) => Ok((*flag).into()),
        Some(value @ MetadataValue::Object(_)) => {
            let table = Table::new(table.at("deduplication"), value)?;
            let near = table.need("near", table.whole("near")?)?;
            let threshold = u16::try_from(near).ok().filter(|near| *near <= 1_000);
            let threshold = threshold.ok_or_else(|| {
                let problem = format!("it is {near}; it must be from 0 to 1000 thousandths");
                invalid(&table.at("near"), problem)
            })?;
            table.finish()?;
            Ok(Deduplication::Near { threshold })
        }
        Some(other) => {
            let expected = "true, false or a table such as { near = 800 }";
            Err(wrong(&table.at("deduplication"), expected, other))
        }
    }
}

/// Puts the path in front of what a part has to say about its options.
fn check<T>(path: &str, built: Result<T, Error>) -> Result<T, Error> {
    built.map_err(|error| match error {
        Error::InvalidPolicy { .. } => error,
        other => invalid(path, other.to_string()),
    })
}

fn invalid(path: &str, problem: impl Into<String>) -> Error {
    Error::InvalidPolicy { path: path.to_owned(), problem: problem.into() }
}

fn weighted_scorer(path: String, value: &MetadataValue) -> Result<(ScorerPolicy, f64), Error> {
    let table = Table::new(path, value)?;
    let weight = table.number("weight")?.unwrap_or(1.0);
    if !weight.is_finite() || weight <= 0.0 {
        let problem = format!("it is {weight}; it must be a finite number above 0");
        return Err(invalid(&table.at("weight"), problem));
    }
    Ok((finished_scorer(table)?, weight))
}

fn plain_scorer(path: String, value: &MetadataValue) -> Result<ScorerPolicy, Error> {
    finished_scorer(Table::new(path, value)?)
}

fn finished_scorer(table: Table<'_>) -> Result<ScorerPolicy, Error> {
    let scorer = scorer(&table, table.need("type", table.text("type")?)?)?;
    table.finish()?;
    Ok(scorer)
}

fn scorer(table: &Table<'_>, name: &str) -> Result<ScorerPolicy, Error> {
    let scorer = match name {
        "recency" => ScorerPolicy::Recency,
        "priority" => ScorerPolicy::Priority,
        "kind" => {
            let weights =
                table.list("weights", |path, value| pair(path, value, "kind", "weight"))?;
            let kinds: Result<Vec<_>, Error> = weights
                .into_iter()
                .map(|(kind, weight)| Ok((ContextKind::new(kind)?, weight)))
                .collect();
            let given = table.get("weights").is_some();
            ScorerPolicy::Kind {
                weights: given.then(|| check(&table.at("weights"), kinds)).transpose()?,
            }
        }
        "tag" => ScorerPolicy::Tag {
            weights: table.list("tag_weights", |path, value| pair(path, value, "tag", "weight"))?,
            case_insensitive: table.flag("case_insensitive")?.unwrap_or(false),
        },
        "frequency" => ScorerPolicy::Frequency,
        "reflexive" => ScorerPolicy::Reflexive,
        "composite" => {
            ScorerPolicy::Composite { children: table.list("children", weighted_scorer)? }
        }
        "product" => ScorerPolicy::Product { children: table.list("children", plain_scorer)? },
        "sum" => ScorerPolicy::Sum { children: table.list("children", plain_scorer)? },
        "by_kind" => {
            let otherwise = table.get("otherwise");
            let otherwise =
                otherwise.map(|value| plain_scorer(table.at("otherwise"), value)).transpose()?;
            ScorerPolicy::ByKind {
                kinds: table.list("kinds", scorer_of_kinds)?,
                otherwise: otherwise.map(Box::new),
            }
        }
        "scaled" => {
            let inner = table.need("inner_scorer", table.get("inner_scorer"))?;
            let path = table.at("inner_scorer");
            let inner = match inner {
                MetadataValue::String(name) if name != "scaled" => scorer(table, name)?,
                table => plain_scorer(path, table)?,
            };
            ScorerPolicy::Scaled { inner: Box::new(inner) }
        }
        "metadata_trust" => ScorerPolicy::MetadataTrust {
            default_score: table.number("default_score")?.unwrap_or(0.5),
        },
        "metadata_key" => ScorerPolicy::MetadataKey {
            key: table.need("key", table.text("key")?)?.to_owned(),
            value: table.need("value", table.text("value")?)?.to_owned(),
            boost: table.need("boost", table.number("boost")?)?,
        },
        "decay" => ScorerPolicy::Decay {
            reference_time: table.time("reference_time")?,
            curve: curve(table)?,
            null_timestamp_score: table.number("null_timestamp_score")?.unwrap_or(0.5),
        },
        "keyword" => {
            table.need("keywords", table.get("keywords"))?;
            ScorerPolicy::Keyword {
                keywords: table.list("keywords", |path, value| text(&path, value))?,
                enough: table.need("enough", table.count("enough")?)?,
            }
        }
        "lexical" => {
            ScorerPolicy::Lexical { query: table.need("query", table.text("query")?)?.to_owned() }
        }
        "stability" => ScorerPolicy::Stability,
        "custom" => {
            ScorerPolicy::Custom { name: table.need("name", table.text("name")?)?.to_owned() }
        }
        other => {
            return Err(invalid(
                &table.at("type"),
                format!("there is no scorer '{other}'; there are {SCORERS}"),
            ));
        }
    };
    check(&table.path, scorer.build(&STAND_IN))?;
    Ok(scorer)
}

/// One kind or several, and what scores them.
fn scorer_of_kinds(
    path: String,
    value: &MetadataValue,
) -> Result<(Vec<ContextKind>, ScorerPolicy), Error> {
    let table = Table::new(path, value)?;
    let kinds = match (table.get("kind"), table.get("kinds")) {
        (Some(_), Some(_)) => {
            let problem = "there is a kind beside it; list all kinds here, or none";
            return Err(invalid(&table.at("kinds"), problem));
        }
        (_, None) => vec![table.kind("kind")?],
        (None, Some(_)) => table
            .list("kinds", |path, value| check(&path, ContextKind::new(text(&path, value)?)))?,
    };
    let scorer = table.need("scorer", table.get("scorer"))?;
    let scorer = plain_scorer(table.at("scorer"), scorer)?;
    table.finish()?;
    Ok((kinds, scorer))
}

fn curve(table: &Table<'_>) -> Result<CurvePolicy, Error> {
    let value = table.get("curve").ok_or_else(|| {
        let problem = "it is missing; add a table whose type is exponential, window or step";
        invalid(&table.at("curve"), problem)
    })?;
    let table = Table::new(table.at("curve"), value)?;
    let curve = match table.need("type", table.text("type")?)? {
        "exponential" => CurvePolicy::Exponential {
            half_life_secs: table.need("half_life_secs", table.number("half_life_secs")?)?,
        },
        "window" => CurvePolicy::Window {
            max_age_secs: table.need("max_age_secs", table.number("max_age_secs")?)?,
        },
        "step" => CurvePolicy::Step {
            windows: table.list("windows", |path, value| {
                let table = Table::new(path, value)?;
                let age = table.need("max_age_secs", table.number("max_age_secs")?)?;
                let score = table.need("score", table.number("score")?)?;
                table.finish()?;
                Ok((age, score))
            })?,
        },
        other => {
            let problem = format!("there is no curve '{other}'; there are {CURVES}");
            return Err(invalid(&table.at("type"), problem));
        }
    };
    table.finish()?;
    Ok(curve)
}

/// The slicer of the name that stands under `key`, with the options that stand beside it.
fn slicer(table: &Table<'_>, key: &str, name: &str) -> Result<SlicerPolicy, Error> {
    let bucket_size = || Ok::<_, Error>(table.whole("bucket_size")?.unwrap_or(100));
    let scarcity = || table.choice("scarcity_behavior", SCARCITIES, ScarcityBehavior::Degrade);
    let slicer = match name {
        "greedy" => SlicerPolicy::Greedy,
        "rank" => SlicerPolicy::Rank,
        "knapsack" => SlicerPolicy::Knapsack { bucket_size: bucket_size()? },
        "quota" => SlicerPolicy::Quota {
            quotas: table.list("quotas", quota)?,
            inner: inner_slicer(table, name)?,
        },
        "count_quota" => SlicerPolicy::CountQuota {
            entries: table.list("entries", entry)?,
            scarcity: scarcity()?,
            inner: inner_slicer(table, name)?,
        },
        "count_constrained_knapsack" => SlicerPolicy::CountConstrainedKnapsack {
            entries: table.list("entries", entry)?,
            scarcity: scarcity()?,
            bucket_size: bucket_size()?,
        },
        "document" => SlicerPolicy::Document {
            packing: table.choice("packing", PACKINGS, Packing::Greedy)?,
            overhead: table.whole("overhead")?.unwrap_or(DocumentLayout::MIN_HEADING_TOKENS),
            max_per_document: table.count("max_per_document")?,
        },
        "tiered" => SlicerPolicy::Tiered {
            tiers: table.list("tiers", tier)?,
            whole_percent: table.number("whole")?.unwrap_or(TieredSlice::FULL_TEXT_PERCENT),
        },
        other => {
            let problem = format!("there is no slicer '{other}'; there are {SLICERS}");
            return Err(invalid(&table.at(key), problem));
        }
    };
    let path = if table.path.is_empty() { key } else { &table.path };
    check(path, slicer.build())?;
    Ok(slicer)
}

fn inner_slicer(table: &Table<'_>, outer: &str) -> Result<Box<SlicerPolicy>, Error> {
    let path = table.at("inner_slicer");
    Ok(Box::new(match table.get("inner_slicer") {
        None => SlicerPolicy::Greedy,
        // Only a name: its options stand beside it, unless they would be taken for the outer one's.
        Some(MetadataValue::String(name)) if name != outer => slicer(table, "inner_slicer", name)?,
        Some(value) => {
            let table = Table::new(path, value)?;
            let slicer = slicer(&table, "type", table.need("type", table.text("type")?)?)?;
            table.finish()?;
            slicer
        }
    }))
}

fn quota(path: String, value: &MetadataValue) -> Result<Quota, Error> {
    let table = Table::new(path, value)?;
    let quota = Quota {
        kind: table.kind("kind")?,
        require_percent: table.number("require")?.unwrap_or(0.0),
        cap_percent: table.number("cap")?.unwrap_or(100.0),
    };
    table.finish()?;
    Ok(quota)
}

fn tier(path: String, value: &MetadataValue) -> Result<Tier, Error> {
    let table = Table::new(path, value)?;
    let kinds = table.list("kinds", |path, value| match value {
        MetadataValue::String(text) => check(&path, ContextKind::new(text)),
        other => Err(wrong(&path, "a text", other)),
    })?;
    let tier = Tier {
        cap_percent: table.number("cap")?.unwrap_or(100.0),
        floor_percent: table.number("floor")?.unwrap_or(0.0),
        drop_zero_score: table.flag("drop_worthless")?.unwrap_or(false),
        ..Tier::new(kinds)
    };
    table.finish()?;
    Ok(tier)
}

fn entry(path: String, value: &MetadataValue) -> Result<CountQuotaEntry, Error> {
    let table = Table::new(path, value)?;
    let require = table.count("require_count")?.unwrap_or(0);
    let cap = table.need("cap_count", table.count("cap_count")?)?;
    let entry = check(&table.path, CountQuotaEntry::new(table.kind("kind")?, require, cap))?;
    table.finish()?;
    Ok(entry)
}

fn text(path: &str, value: &MetadataValue) -> Result<String, Error> {
    match value {
        MetadataValue::String(text) => Ok(text.clone()),
        other => Err(wrong(path, "a text", other)),
    }
}

/// A name and a number.
fn pair(
    path: String,
    value: &MetadataValue,
    name: &'static str,
    number: &'static str,
) -> Result<(String, f64), Error> {
    let table = Table::new(path, value)?;
    let pair = (
        table.need(name, table.text(name)?)?.to_owned(),
        table.need(number, table.number(number)?)?,
    );
    table.finish()?;
    Ok(pair)
}

/// Named values, where they stand, and which names have been asked for.
struct Table<'v> {
    path: String,
    entries: &'v Metadata,
    asked: RefCell<Vec<&'static str>>,
}

impl<'v> Table<'v> {
    fn new(path: String, value: &'v MetadataValue) -> Result<Self, Error> {
        match value {
            MetadataValue::Object(entries) => Ok(Self { path, entries, asked: RefCell::default() }),
            other if path.is_empty() => Err(wrong("the whole", "a table", other)),
            other => Err(wrong(&path, "a table", other)),
        }
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, key: &'static str) -> Option<&'v MetadataValue> {
        self.asked.borrow_mut().push(key);
        self.entries.get(key)
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| invalid(&self.at(key), "it is missing; add it"))
    }

    fn read<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'v MetadataValue) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| wrong(&self.at(key), expected, value))
    }

    fn text(&self, key: &'static str) -> Result<Option<&'v str>, Error> {
        self.read(key, "a text", |value| match value {
            MetadataValue::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, Error> {
        self.read(key, "true or false", |value| match value {
            MetadataValue::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    fn whole(&self, key: &'static str) -> Result<Option<i64>, Error> {
        self.read(key, "a whole number", |value| match value {
            MetadataValue::Integer(number) => Some(*number),
            _ => None,
        })
    }

    fn count(&self, key: &'static str) -> Result<Option<usize>, Error> {
        self.read(key, "a whole number, 0 or more", |value| match value {
            MetadataValue::Integer(count) => usize::try_from(*count).ok(),
            MetadataValue::Unsigned(count) => usize::try_from(*count).ok(),
            _ => None,
        })
    }

    fn number(&self, key: &'static str) -> Result<Option<f64>, Error> {
        self.read(key, "a number", |value| match value {
            MetadataValue::Integer(number) => Some(*number as f64),
            MetadataValue::Unsigned(number) => Some(*number as f64),
            MetadataValue::Float(number) => Some(*number),
            _ => None,
        })
    }

    fn kind(&self, key: &'static str) -> Result<ContextKind, Error> {
        let text = self.need(key, self.text(key)?)?;
        check(&self.at(key), ContextKind::new(text))
    }

    fn time(&self, key: &'static str) -> Result<Option<Timestamp>, Error> {
        let text = self.read(key, "a date and time", |value| match value {
            MetadataValue::String(text) => Some(text.as_str()),
            // How TOML's own dates arrive.
            MetadataValue::Object(entries) => match entries.get("$__toml_private_datetime") {
                Some(MetadataValue::String(text)) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        })?;
        text.map(|text| check(&self.at(key), text.parse())).transpose()
    }

    fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, Error> {
        let Some(text) = self.text(key)? else {
            return Ok(default);
        };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            invalid(
                &self.at(key),
                format!("it is '{text}'; it must be one of {}", names.join(", ")),
            )
        })
    }

    /// The entries of a list, each with its path; none if it is absent.
    fn list<T>(
        &self,
        key: &'static str,
        read: impl Fn(String, &'v MetadataValue) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let path = self.at(key);
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(MetadataValue::Array(values)) => {
                let entries = values.iter().enumerate();
                entries.map(|(i, value)| read(format!("{path}[{i}]"), value)).collect()
            }
            Some(other) => Err(wrong(&path, "a list", other)),
        }
    }

    /// Refuses keys that nobody asked for.
    fn finish(self) -> Result<(), Error> {
        let mut asked = self.asked.take();
        asked.sort_unstable();
        asked.dedup();
        match self.entries.keys().find(|key| !asked.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known = asked.join(", ");
                Err(invalid(&self.at(unknown), format!("it is not known here; there are {known}")))
            }
        }
    }
}

fn wrong(path: &str, expected: &str, value: &MetadataValue) -> Error {
    let found = match value {
        MetadataValue::Null => "null",
        MetadataValue::Bool(_) => "a truth value",
        MetadataValue::Integer(_) | MetadataValue::Unsigned(_) | MetadataValue::Float(_) => {
            "a number"
        }
        MetadataValue::String(_) => "a text",
        MetadataValue::Array(_) => "a list",
        _ => "a table",
    };
    invalid(path, format!("it must be {expected}, and is {found}"))
}
