//! Different scorers for different kinds.
//!
//! The criteria for a task say little about a document. Each kind therefore has its own scorer, which sees only the
//! items of its kinds as its pool. Scores are passed on unchanged, so the caller must choose comparable scorers.

use super::{Pool, ScoreExplanation, Scorer, leaf};
use crate::model::KindMap;
use crate::{ContextItem, ContextKind, Error};

const NAME: &str = "ByKindScorer";

/// Scores the items of each kind by another scorer, as a pool of their own.
///
/// Kinds that share a scorer form one pool. All other kinds form the pool of the
/// [default scorer](ByKindScorerBuilder::default_scorer). Without one, their items score 0.
///
/// ```
/// use pannier_core::ContextKind;
/// use pannier_core::score::{ByKindScorer, PriorityScorer, RecencyScorer, ReflexiveScorer};
///
/// let scorer = ByKindScorer::builder()
///     .kind(ContextKind::MESSAGE, RecencyScorer)
///     .kinds([ContextKind::DOCUMENT, ContextKind::MEMORY], ReflexiveScorer)
///     .default_scorer(PriorityScorer)
///     .build()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct ByKindScorer {
    /// The index of each kind's child.
    kinds: KindMap<usize>,
    children: Vec<Box<dyn Scorer>>,
    /// The index of the child for all other kinds.
    default_scorer: Option<usize>,
}

impl ByKindScorer {
    /// Starts a scorer without kinds.
    pub fn builder() -> ByKindScorerBuilder {
        ByKindScorerBuilder { entries: Vec::new(), default_scorer: None }
    }

    /// Returns the index of the child that scores an item.
    fn child_of(&self, item: &ContextItem) -> Option<usize> {
        self.kinds.get(item.kind()).or(self.default_scorer)
    }
}

/// Returns the items at these positions as a pool.
fn subpool<'a>(pool: &Pool<'a>, positions: &[usize]) -> Pool<'a> {
    Pool::new(positions.iter().map(|position| pool.items()[*position]))
}

impl Scorer for ByKindScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        scores.fill(0.0);
        let mut members = vec![Vec::new(); self.children.len()];
        for (position, item) in pool.items().iter().enumerate() {
            if let Some(child) = self.child_of(item) {
                members[child].push(position);
            }
        }
        let members = self.children.iter().zip(&members).filter(|(_, members)| !members.is_empty());
        for (child, positions) in members {
            for (position, score) in positions.iter().zip(subpool(pool, positions).scores(child)?) {
                scores[*position] = score;
            }
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "by_kind"
    }

    fn max_score(&self) -> f64 {
        self.children.iter().map(|child| child.max_score()).fold(0.0, f64::max)
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let items = pool.items();
        let Some(child) = items.get(item).and_then(|item| self.child_of(item)) else {
            return leaf(self, pool, item);
        };
        let is_member = |position: &usize| self.child_of(items[*position]) == Some(child);
        let positions: Vec<usize> = (0..items.len()).filter(is_member).collect();
        let own = positions.partition_point(|position| *position < item);
        let inner = self.children[child].explain(&subpool(pool, &positions), own)?;
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
    /// Adds a scorer for a kind.
    pub fn kind(self, kind: ContextKind, scorer: impl Scorer + 'static) -> Self {
        self.kinds([kind], scorer)
    }

    /// Adds a scorer for several kinds, which form one pool.
    pub fn kinds(
        mut self,
        kinds: impl IntoIterator<Item = ContextKind>,
        scorer: impl Scorer + 'static,
    ) -> Self {
        self.entries.push((kinds.into_iter().collect(), Box::new(scorer)));
        self
    }

    /// Sets the scorer for all other kinds, which form one pool.
    pub fn default_scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.default_scorer = Some(Box::new(scorer));
        self
    }

    /// Checks the kinds and returns the scorer.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if a kind is listed twice, a scorer has no kinds, or there is no kind.
    pub fn build(self) -> Result<ByKindScorer, Error> {
        let refuse = |problem: String| Err(Error::InvalidScorer { scorer: NAME, problem });
        if self.entries.is_empty() {
            return refuse("it lists no kinds; add at least one".to_owned());
        }
        let (mut kinds, mut children) = (KindMap::new(), Vec::new());
        for (child, (own, scorer)) in self.entries.into_iter().enumerate() {
            if own.is_empty() {
                return refuse(format!("scorer {child} has no kinds; give it at least one"));
            }
            for kind in own {
                if !kinds.insert(&kind, child) {
                    return refuse(format!("the kind '{kind}' is listed twice; list it once"));
                }
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
    fn ranks_are_relative_to_items_of_the_same_kinds() {
        let scorer = ByKindScorer::builder()
            .kind(kind("Task"), PriorityScorer)
            .kinds([kind("note"), kind("learning")], PriorityScorer);
        let items = pool();
        let pool = Pool::new(&items);
        assert_eq!(pool.scores(&scorer.build().unwrap()).unwrap(), [0.0, 1.0, 0.5, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn the_default_scorer_scores_all_other_kinds() {
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
            let explanation = scorer.explain(&pool, place).unwrap();
            assert_eq!((explanation.scorer.as_str(), explanation.score), ("by_kind", score));
            let child = if score == 0.25 { "reflexive" } else { "priority" };
            assert_eq!(explanation.children, [ScoreExplanation::new(child, score)]);
        }
    }

    #[test]
    fn a_kind_without_a_scorer_scores_0() {
        let scorer = ByKindScorer::builder().kind(kind("task"), ReflexiveScorer).build().unwrap();
        let items = pool();
        let explanation = scorer.explain(&Pool::new(&items), 3).unwrap();
        assert_eq!(explanation, ScoreExplanation::new("by_kind", 0.0));
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
