//! Decides most items without a table.
//!
//! Filling the knapsack by density and cutting the first item that does not fit gives an upper
//! bound on what any choice is worth; filling it by density with whole items gives a choice, and so
//! a lower bound. If the upper bound *without* a item is below the lower bound, no optimal choice
//! goes without it; if the upper bound *with* it is below, none has it. The comparison is strict, so
//! items on which optimal solutions differ stay open, and whoever decides about those decides as if
//! nothing had been taken away. Where scores and sizes vary, a few dozen items of thousands remain.

use std::cmp::Reverse;

use super::KnapsackItem;

/// What is decided, and what is left to decide.
pub(super) struct Reduced {
    /// Items of every optimal choice.
    pub(super) taken: Vec<u32>,
    /// Items of some optimal solutions, in ascending order.
    pub(super) undecided: Vec<u32>,
    /// The capacity that the open items share.
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
    /// Weight and value of the first so many items by density.
    sums: Vec<(u128, u128)>,
    /// How many of them fit: the next one is cut.
    break_item: usize,
    /// What the best choice is worth at least.
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
        let (mut room, mut lower) = (capacity, 0);
        for &index in &by_density {
            let item = items[index as usize];
            weight += u128::from(item.weight);
            value += u128::from(item.value);
            sums.push((weight, value));
            if item.weight <= room {
                room -= item.weight;
                lower += u128::from(item.value);
            }
        }
        let capacity = u128::from(capacity);
        let break_item = sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        Self { items, capacity, by_density, sums, break_item, lower }
    }

    /// What the items are worth at most that fit a capacity, in order of density, the last one cut.
    fn fractional_bound(&self, capacity: u128) -> u128 {
        let whole = self.sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        let (weight, value) = self.sums[whole];
        let Some(&next) = self.by_density.get(whole) else {
            return value;
        };
        let item = self.items[next as usize];
        value + (capacity - weight) * u128::from(item.value) / u128::from(item.weight)
    }

    /// What any choice without this item, one of those that fit, is worth at most.
    fn bound_without(&self, item: KnapsackItem) -> u128 {
        // Filling a larger knapsack takes the item as well, whole; take it out again.
        self.fractional_bound(self.capacity + u128::from(item.weight)) - u128::from(item.value)
    }

    /// What any choice with this item, one of those that do not fit, is worth at most.
    fn bound_with(&self, item: KnapsackItem) -> u128 {
        // What is left for the others is filled before the item's turn would come.
        self.fractional_bound(self.capacity - u128::from(item.weight)) + u128::from(item.value)
    }
}
