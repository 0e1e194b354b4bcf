//! Decides most items without a table.
//!
//! Filling the knapsack by density and cutting the first item that does not fit, the break item, gives an upper bound
//! on the value of any choice (Dantzig). Filling it with whole items gives a choice, and so a lower bound. If the upper
//! bound *without* an item is below the lower bound, every optimal choice has the item. If the upper bound *with* it is
//! below, none has. The comparison is strict, so items on which optimal choices differ stay undecided, and ties are
//! decided as in the full problem. Where scores and sizes vary, a few dozen items of thousands remain.

use std::cmp::Reverse;

use super::KnapsackItem;

/// Decided items, and the problem that remains.
pub(super) struct Reduced {
    /// Items of every optimal choice.
    pub(super) taken: Vec<u32>,
    /// Items of some optimal solutions, in ascending order.
    pub(super) undecided: Vec<u32>,
    /// The capacity for the undecided items.
    pub(super) capacity: u64,
}

/// Expects every item to fit by itself, and to have a value.
pub(super) fn reduce(items: &[KnapsackItem], capacity: u64) -> Reduced {
    let total: u128 = items.iter().map(|item| u128::from(item.weight)).sum();
    if total <= u128::from(capacity) {
        let taken = (0..items.len() as u32).collect();
        return Reduced { taken, undecided: Vec::new(), capacity };
    }
    let bounds = Bounds::new(items, capacity);
    let taken = Vec::with_capacity(bounds.break_item);
    let mut reduced = Reduced { taken, undecided: Vec::with_capacity(items.len()), capacity };
    for (rank, &index) in bounds.by_density.iter().enumerate() {
        let item = items[index as usize];
        if rank < bounds.break_item {
            if bounds.bound_without(item) < bounds.lower {
                reduced.taken.push(index);
                reduced.capacity -= item.weight;
                continue;
            }
        } else if bounds.bound_with(item) < bounds.lower {
            continue;
        }
        reduced.undecided.push(index);
    }
    reduced.undecided.sort_unstable();
    reduced
}

struct Bounds<'p> {
    items: &'p [KnapsackItem],
    capacity: u128,
    by_density: Vec<u32>,
    /// Weight and value of the first `n` items by density.
    sums: Vec<(u128, u128)>,
    /// The rank of the first item that does not fit whole.
    break_item: usize,
    /// A lower bound on the value of the best choice.
    lower: u128,
}

impl<'p> Bounds<'p> {
    fn new(items: &'p [KnapsackItem], capacity: u64) -> Self {
        let mut by_density: Vec<u32> = (0..items.len() as u32).collect();
        // Fractions compare exactly by cross multiplication; a rounded density could break a bound.
        by_density.sort_unstable_by(|a, b| {
            let (a, b) = (items[*a as usize], items[*b as usize]);
            let left = u128::from(a.value) * u128::from(b.weight);
            Reverse(left).cmp(&Reverse(u128::from(b.value) * u128::from(a.weight)))
        });
        let mut sums = Vec::with_capacity(items.len() + 1);
        let (mut weight, mut value) = (0, 0);
        sums.push((weight, value));
        let (mut remaining, mut lower) = (capacity, 0);
        for &index in &by_density {
            let item = items[index as usize];
            weight += u128::from(item.weight);
            value += u128::from(item.value);
            sums.push((weight, value));
            if item.weight <= remaining {
                remaining -= item.weight;
                lower += u128::from(item.value);
            }
        }
        let capacity = u128::from(capacity);
        let break_item = sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        Self { items, capacity, by_density, sums, break_item, lower }
    }

    /// The value of the items that fit a capacity in order of density, with a fraction of the break item.
    fn fractional_bound(&self, capacity: u128) -> u128 {
        let whole = self.sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        let (weight, value) = self.sums[whole];
        let Some(&next) = self.by_density.get(whole) else {
            return value;
        };
        let item = self.items[next as usize];
        value + (capacity - weight) * u128::from(item.value) / u128::from(item.weight)
    }

    /// An upper bound on the value of choices without this item, one of those that fit.
    fn bound_without(&self, item: KnapsackItem) -> u128 {
        // Filling a larger knapsack takes the item as well, whole; take it out again.
        self.fractional_bound(self.capacity + u128::from(item.weight)) - u128::from(item.value)
    }

    /// An upper bound on the value of choices with this item, one of those that do not fit.
    fn bound_with(&self, item: KnapsackItem) -> u128 {
        // The remaining capacity is full before this item's rank.
        self.fractional_bound(self.capacity - u128::from(item.weight)) + u128::from(item.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The value of these items, in order of density, with a fraction of the one that does not fit.
    fn fractional(items: impl Iterator<Item = KnapsackItem>, mut capacity: u64) -> u128 {
        let mut sum = 0;
        for KnapsackItem { weight, value } in items {
            if weight > capacity {
                let part = u128::from(capacity) * u128::from(value) / u128::from(weight);
                return sum + part;
            }
            (sum, capacity) = (sum + u128::from(value), capacity - weight);
        }
        sum
    }

    proptest! {
        /// Bounds are the fractional choices of the other items.
        #[test]
        fn only_items_that_bounds_cannot_decide_are_left(
            items in prop::collection::vec((1_u64..60, 1_u64..90), 1..40),
            capacity in 60_u64..900,
        ) {
            let items: Vec<KnapsackItem> =
                items.into_iter().map(|(weight, value)| KnapsackItem { weight, value }).collect();
            let total: u64 = items.iter().map(|item| item.weight).sum();
            if total <= capacity {
                return Ok(());
            }
            let bounds = Bounds::new(&items, capacity);
            let (mut taken, mut undecided) = (Vec::new(), Vec::new());
            let mut left = capacity;
            for (rank, &index) in bounds.by_density.iter().enumerate() {
                let item = items[index as usize];
                let others = bounds.by_density.iter().filter(|other| **other != index);
                let others = others.map(|other| items[*other as usize]);
                let fits = rank < bounds.break_item;
                let bound = match fits {
                    true => fractional(others, capacity),
                    false => fractional(others, capacity - item.weight) + u128::from(item.value),
                };
                if bound >= bounds.lower {
                    undecided.push(index);
                } else if fits {
                    taken.push(index);
                    left -= item.weight;
                }
            }
            undecided.sort_unstable();
            let reduced = reduce(&items, capacity);
            prop_assert_eq!((reduced.taken, reduced.undecided, reduced.capacity), (taken, undecided, left));
        }
    }
}
