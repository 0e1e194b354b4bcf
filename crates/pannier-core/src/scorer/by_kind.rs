//! A scorer of its own for each kind.
//!
//! What makes a task worth keeping says little about a document, so each kind is judged by its own
//! measure, and among its own: a scorer that ranks sees the items of its kinds as the whole pool.
//! How the measures compare is up to whoever chooses them; scores are passed on as they are.

use super::{Pool, ScoreExplanation, Scorer, leaf};
use crate::{ContextItem, ContextKind, Error};

const NAME: &str = "ByKindScorer";

/// Scores each kind by its own scorer, over a pool of only the items of that kind.
///
/// Several kinds may share a scorer; they are then ranked together. What has none of the kinds goes
/// to the scorer of [`default_scorer`](ByKindScorerBuilder::default_scorer), all of it together, and scores 0
/// if there is none.
///
/// ```
/// use pannier_core::{ByKindScorer, ContextKind, PriorityScorer, RecencyScorer, ReflexiveScorer};
///
/// let scorer = ByKindScorer::builder()
///     .kind(ContextKind::MESSAGE, RecencyScorer)
///     .kinds([ContextKind::DOCUMENT, ContextKind::MEMORY], ReflexiveScorer)
///     .default_scorer(PriorityScorer)
///     .build()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct ByKindScorer {
    /// No kind twice, each with the index of its child. A handful: walking them is faster than any map.
    kinds: Vec<(ContextKind, usize)>,
    children: Vec<Box<dyn Scorer>>,
    /// The child of all other kinds.
    default_scorer: Option<usize>,
}

impl ByKindScorer {
    /// Starts a scorer without kinds.
    pub fn builder() -> ByKindScorerBuilder {
        ByKindScorerBuilder { entries: Vec::new(), default_scorer: None }
    }

    /// Which child scores an item.
    fn child_of(&self, item: &ContextItem) -> Option<usize> {
        let listed = self.kinds.iter().find(|(kind, _)| kind == item.kind());
        listed.map(|(_, child)| *child).or(self.default_scorer)
    }
}

/// The items of a pool at these places, as a pool.
fn subpool<'a>(pool: &Pool<'a>, places: &[usize]) -> Pool<'a> {
    Pool::new(places.iter().map(|place| pool.items()[*place]))
}

impl Scorer for ByKindScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        scores.fill(0.0);
        let mut members = vec![Vec::new(); self.children.len()];
        for (place, item) in pool.items().iter().enumerate() {
            if let Some(child) = self.child_of(item) {
                members[child].push(place);
            }
        }
        for (child, places) in self.children.iter().zip(&members) {
            if places.is_empty() {
                continue;
            }
            for (place, score) in places.iter().zip(subpool(pool, places).scores(child)?) {
                scores[*place] = score;
            }
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "by_kind"
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let items = pool.items();
        let Some(child) = items.get(item).and_then(|item| self.child_of(item)) else {
            return leaf(self, pool, item);
        };
        let is_member = |place: &usize| self.child_of(items[*place]) == Some(child);
        let places: Vec<usize> = (0..items.len()).filter(is_member).collect();
        let own = places.partition_point(|place| *place < item);
        let inner = self.children[child].explain(&subpool(pool, &places), own)?;
        Ok(ScoreExplanation::new(self.name(), inner.score).with_children(vec![inner]))
    }
}

/// Builds a [`ByKindScorer`]; see [`ByKindScorer::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct ByKindScorerBuilder {
    entries: Vec<(Vec<ContextKind>, Box<dyn Scorer>)>,
    default_scorer: Option<Box<dyn Scorer>>,
}

impl ByKindScorerBuilder {
    /// Scores a kind by this scorer.
    pub fn kind(self, kind: ContextKind, scorer: impl Scorer + 'static) -> Self {
        self.kinds([kind], scorer)
    }

    /// Scores several kinds by this scorer, as one pool.
    pub fn kinds(
        mut self,
        kinds: impl IntoIterator<Item = ContextKind>,
        scorer: impl Scorer + 'static,
    ) -> Self {
        self.entries.push((kinds.into_iter().collect(), Box::new(scorer)));
        self
    }

    /// Scores all kinds that are not listed by this scorer, as one pool.
    pub fn default_scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.default_scorer = Some(Box::new(scorer));
        self
    }

    /// Checks the kinds and returns the scorer.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if a kind is listed twice, a scorer has no kinds, or no kind is listed
    /// at all.
    pub fn build(self) -> Result<ByKindScorer, Error> {
        let refuse = |problem: String| Err(Error::InvalidScorer { scorer: NAME, problem });
        if self.entries.is_empty() {
            return refuse("it lists no kinds; add at least one".to_owned());
        }
        let (mut kinds, mut children) = (Vec::new(), Vec::new());
        for (child, (own, scorer)) in self.entries.into_iter().enumerate() {
            if own.is_empty() {
                return refuse(format!("scorer {child} has no kinds; give it at least one"));
            }
            for kind in own {
                if kinds.iter().any(|(known, _)| *known == kind) {
                    return refuse(format!("the kind '{kind}' is listed twice; list it once"));
                }
                kinds.push((kind, child));
            }
            children.push(scorer);
        }
        let default_scorer = self.default_scorer.map(|scorer| {
            children.push(scorer);
            children.len() - 1
        });
        Ok(ByKindScorer { kinds, children, default_scorer })
    }
}

opaque_debug!(ByKindScorer, ByKindScorerBuilder);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PriorityScorer, ReflexiveScorer};

    fn kind(text: &str) -> ContextKind {
        ContextKind::new(text).unwrap()
    }

    fn item(kind_name: &str, priority: i64) -> ContextItem {
        let builder = ContextItem::builder("text", 1).kind(kind(kind_name));
        builder.priority(priority).future_relevance_hint(0.25).build().unwrap()
    }

    fn pool() -> [ContextItem; 6] {
        [
            item("task", 1),
            item("note", 50),
            item("TASK", 2),
            item("other", 70),
            item("learning", 9),
            item("task", 3),
        ]
    }

    #[test]
    fn ranks_are_ranks_among_the_own_kinds() {
        let scorer = ByKindScorer::builder()
            .kind(kind("Task"), PriorityScorer)
            .kinds([kind("note"), kind("learning")], PriorityScorer);
        let items = pool();
        let pool = Pool::new(&items);
        assert_eq!(pool.scores(&scorer.build().unwrap()).unwrap(), [0.0, 1.0, 0.5, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn what_is_not_listed_goes_to_the_last_scorer() {
        let scorer = ByKindScorer::builder()
            .kind(kind("task"), ReflexiveScorer)
            .kind(kind("nowhere"), ReflexiveScorer)
            .default_scorer(PriorityScorer)
            .build()
            .unwrap();
        let items = pool();
        let pool = Pool::new(&items);
        assert_eq!(pool.scores(&scorer).unwrap(), [0.25, 0.5, 0.25, 1.0, 0.0, 0.25]);
        for (place, score) in pool.scores(&scorer).unwrap().into_iter().enumerate() {
            let told = scorer.explain(&pool, place).unwrap();
            assert_eq!((told.scorer.as_str(), told.score), ("by_kind", score));
            let child = if score == 0.25 { "reflexive" } else { "priority" };
            assert_eq!(told.children, [ScoreExplanation::new(child, score)]);
        }
    }

    #[test]
    fn what_nobody_scores_is_0_and_has_nothing_to_tell() {
        let scorer = ByKindScorer::builder().kind(kind("task"), ReflexiveScorer).build().unwrap();
        let items = pool();
        let told = scorer.explain(&Pool::new(&items), 3).unwrap();
        assert_eq!(told, ScoreExplanation::new("by_kind", 0.0));
        assert!(Pool::new([]).scores(&scorer).unwrap().is_empty());
    }

    #[test]
    fn every_kind_has_one_scorer() {
        let problem = |builder: ByKindScorerBuilder| builder.build().unwrap_err().to_string();
        let one = || ByKindScorer::builder().kind(kind("task"), ReflexiveScorer);
        let twice = "ByKindScorer: the kind 'TASK' is listed twice; list it once";
        assert_eq!(problem(one().kind(kind("TASK"), PriorityScorer)), twice);
        let both = ByKindScorer::builder().kinds([kind("task"), kind("TASK")], PriorityScorer);
        assert_eq!(problem(both), twice);
        assert_eq!(
            problem(one().kinds([], PriorityScorer)),
            "ByKindScorer: scorer 1 has no kinds; give it at least one"
        );
        assert_eq!(
            problem(ByKindScorer::builder().default_scorer(PriorityScorer)),
            "ByKindScorer: it lists no kinds; add at least one"
        );
    }
}
