//! Products of matrices, fast and to the bit the same everywhere.
//!
//! Each number of a product is a sum over the depth, and is added up in the order of the depth, one product after the
//! other. What runs side by side are different numbers of the result, never parts of one: so the width of a processor's
//! vectors changes the speed and nothing else. To be fast, the right side is laid out in panels of sixteen columns and the
//! left in tiles of a few rows, so that a tile of the result stays in registers while both are read in order. The depth is
//! cut into blocks for which a panel stays in the nearest cache; between blocks the sums rest in the result, unchanged.

/// Columns in a panel.
const COLUMNS: usize = 16;

/// How deep a block is: a panel of this depth has 24 KiB.
const BLOCK: usize = 384;

/// Numbers in rows, of which a part is meant: from an offset on, at a distance from row to row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'n> {
    pub(crate) numbers: &'n [f32],
    pub(crate) stride: usize,
    pub(crate) offset: usize,
}

impl<'n> View<'n> {
    /// All of rows of a length.
    pub(crate) fn of(numbers: &'n [f32], length: usize) -> Self {
        Self { numbers, stride: length, offset: 0 }
    }

    #[inline(always)]
    fn row(self, row: usize, length: usize) -> &'n [f32] {
        let start = row * self.stride + self.offset;
        &self.numbers[start..start + length]
    }
}

/// The right side of a product: for each sixteen columns, the rows of them.
#[derive(Debug)]
pub(crate) struct Panels {
    depth: usize,
    columns: usize,
    rows: Vec<[f32; COLUMNS]>,
}

impl Panels {
    /// From numbers that hold each column as a row, as the weights of a layer do.
    #[inline(always)]
    pub(crate) fn from_columns(view: View<'_>, depth: usize, columns: usize) -> Self {
        let mut rows = vec![[0.0; COLUMNS]; depth * columns.div_ceil(COLUMNS)];
        if depth > 0 {
            for (panel, rows) in rows.chunks_exact_mut(depth).enumerate() {
                let first = panel * COLUMNS;
                for column in first..columns.min(first + COLUMNS) {
                    for (row, &number) in rows.iter_mut().zip(view.row(column, depth)) {
                        row[column - first] = number;
                    }
                }
            }
        }
        Self { depth, columns, rows }
    }

    /// From numbers that hold rows.
    #[inline(always)]
    pub(crate) fn from_rows(view: View<'_>, depth: usize, columns: usize) -> Self {
        let mut rows = vec![[0.0; COLUMNS]; depth * columns.div_ceil(COLUMNS)];
        for place in 0..depth {
            let (full, rest) = view.row(place, columns).as_chunks::<COLUMNS>();
            for (panel, numbers) in full.iter().enumerate() {
                rows[panel * depth + place] = *numbers;
            }
            if !rest.is_empty() {
                rows[full.len() * depth + place][..rest.len()].copy_from_slice(rest);
            }
        }
        Self { depth, columns, rows }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }
}

/// The left side of a product: for each few rows, the columns of them.
#[derive(Debug)]
pub(crate) struct Tiles<const ROWS: usize> {
    rows: usize,
    columns: Vec<[f32; ROWS]>,
}

impl<const ROWS: usize> Tiles<ROWS> {
    #[inline(always)]
    pub(crate) fn from_rows(view: View<'_>, rows: usize, depth: usize) -> Self {
        let mut columns = vec![[0.0; ROWS]; depth * rows.div_ceil(ROWS)];
        if depth > 0 {
            for (tile, columns) in columns.chunks_exact_mut(depth).enumerate() {
                let first = tile * ROWS;
                for row in first..rows.min(first + ROWS) {
                    for (column, &number) in columns.iter_mut().zip(view.row(row, depth)) {
                        column[row - first] = number;
                    }
                }
            }
        }
        Self { rows, columns }
    }

    /// Adds the product with another matrix to numbers in rows, from an offset on, at a distance from row to row.
    #[inline(always)]
    pub(crate) fn multiply(
        &self,
        right: &Panels,
        result: &mut [f32],
        stride: usize,
        offset: usize,
    ) {
        let depth = right.depth;
        for from in (0..depth).step_by(BLOCK) {
            let to = depth.min(from + BLOCK);
            for (panel, rows) in right.rows.chunks_exact(depth).enumerate() {
                let rows = &rows[from..to];
                let first_column = panel * COLUMNS;
                let width = COLUMNS.min(right.columns - first_column);
                for (tile, columns) in self.columns.chunks_exact(depth).enumerate() {
                    let columns = &columns[from..to];
                    let first_row = tile * ROWS;
                    let height = ROWS.min(self.rows - first_row);
                    let start = first_row * stride + offset + first_column;
                    let mut sums = [[0.0; COLUMNS]; ROWS];
                    if width == COLUMNS && height == ROWS {
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let place = start + row * stride;
                            sums.copy_from_slice(&result[place..place + COLUMNS]);
                        }
                        add_products(&mut sums, columns, rows);
                        for (row, sums) in sums.iter().enumerate() {
                            let place = start + row * stride;
                            result[place..place + COLUMNS].copy_from_slice(sums);
                        }
                    } else {
                        for (row, sums) in sums.iter_mut().enumerate().take(height) {
                            let place = start + row * stride;
                            sums[..width].copy_from_slice(&result[place..place + width]);
                        }
                        add_products(&mut sums, columns, rows);
                        for (row, sums) in sums.iter().enumerate().take(height) {
                            let place = start + row * stride;
                            result[place..place + width].copy_from_slice(&sums[..width]);
                        }
                    }
                }
            }
        }
    }
}

/// The innermost loop: one step of the depth after the other, for all numbers of a tile.
#[inline(always)]
fn add_products<const ROWS: usize>(
    sums: &mut [[f32; COLUMNS]; ROWS],
    left: &[[f32; ROWS]],
    right: &[[f32; COLUMNS]],
) {
    let mut local = *sums;
    for (left, right) in left.iter().zip(right) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                local[row][column] += left[row] * right[column];
            }
        }
    }
    *sums = local;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::testing::random;
    use crate::width::{Width, Work};

    /// A product and what it is added to.
    struct Product<'n> {
        left: View<'n>,
        rows: usize,
        right: &'n Panels,
        result: Vec<f32>,
    }

    impl Work for Product<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<const ROWS: usize>(mut self) -> Vec<f32> {
            let tiles = Tiles::<ROWS>::from_rows(self.left, self.rows, self.right.depth);
            tiles.multiply(self.right, &mut self.result, self.right.columns, 0);
            self.result
        }
    }

    #[test]
    fn a_product_is_that_of_three_plain_loops_to_the_bit() {
        for (rows, depth, columns) in
            [(1, 1, 1), (2, 3, 16), (3, 0, 5), (5, 7, 17), (9, 384, 33), (4, 800, 48), (13, 385, 1)]
        {
            let left = random(rows * depth, 1);
            let right = random(depth * columns, 2);
            let before = random(rows * columns, 3);
            let mut expected = before.clone();
            for row in 0..rows {
                for column in 0..columns {
                    for place in 0..depth {
                        expected[row * columns + column] +=
                            left[row * depth + place] * right[place * columns + column];
                    }
                }
            }
            let mut turned = vec![0.0; right.len()];
            for place in 0..depth {
                for column in 0..columns {
                    turned[column * depth + place] = right[place * columns + column];
                }
            }
            let bits = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
            for right in [
                Panels::from_rows(View::of(&right, columns), depth, columns),
                Panels::from_columns(View::of(&turned, depth), depth, columns),
            ] {
                for width in [Width::LEAST, Width::best()] {
                    let left = View::of(&left, depth);
                    let product = Product { left, rows, right: &right, result: before.clone() };
                    let found = width.run(product);
                    assert_eq!(bits(&found), bits(&expected), "{rows} {depth} {columns} {width:?}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_wider_rows_can_be_meant() {
        let numbers = random(4 * 10, 7);
        let left = View { numbers: &numbers, stride: 10, offset: 2 };
        let right = View { numbers: &numbers, stride: 10, offset: 6 };
        let panels = Panels::from_rows(right, 3, 2);
        let mut result = vec![0.0; 4 * 5];
        Tiles::<2>::from_rows(left, 4, 3).multiply(&panels, &mut result, 5, 1);
        for row in 0..4 {
            for column in 0..5 {
                let expected = if column == 1 || column == 2 {
                    (0..3).fold(0.0, |sum, place| {
                        sum + numbers[row * 10 + 2 + place] * numbers[place * 10 + 6 + column - 1]
                    })
                } else {
                    0.0
                };
                assert_eq!(result[row * 5 + column], expected);
            }
        }
    }

    /// `cargo test --release -p pannier-docs --lib -- --ignored --nocapture speed_of_products`
    #[test]
    #[ignore = "measures, and checks nothing"]
    fn speed_of_products() {
        for (rows, depth, columns) in [(200, 384, 1152), (200, 384, 1536), (200, 1536, 384)] {
            let numbers = random(rows * depth, 1);
            let weights = random(depth * columns, 2);
            let right = Panels::from_columns(View::of(&weights, depth), depth, columns);
            for width in [Width::LEAST, Width::best()] {
                let mut best = f64::INFINITY;
                for _ in 0..30 {
                    let left = View::of(&numbers, depth);
                    let result = vec![0.0; rows * columns];
                    let begin = Instant::now();
                    let product = width.run(Product { left, rows, right: &right, result });
                    best = best.min(begin.elapsed().as_secs_f64());
                    assert_eq!(product.len(), rows * columns);
                }
                let operations = 2.0 * (rows * depth * columns) as f64;
                eprintln!(
                    "{rows}x{depth}x{columns} {width:?}: {:.1} GFLOP/s",
                    operations / best / 1e9
                );
            }
        }
    }
}
