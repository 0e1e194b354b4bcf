//! Matrix products with bit-identical results on every processor.
//!
//! Each element of the product sums over the depth in ascending order, by fused operations. SIMD lanes hold different elements, never parts of
//! one, so the register width changes the speed and nothing else. The right operand is packed into panels of sixteen columns
//! and the left one into tiles of a few rows, so that a tile of the result stays in registers. The depth is split into blocks
//! for which a panel fits the L1 cache; between blocks, partial sums are kept in the result.

use crate::simd::fused;

/// The number of columns of a panel.
const COLUMNS: usize = 16;

/// The depth of a block: a panel of this depth has 24 KiB.
const BLOCK_DEPTH: usize = 384;

/// A matrix within a slice: row `i` starts at `offset + i * stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'n> {
    pub(crate) numbers: &'n [f32],
    pub(crate) stride: usize,
    pub(crate) offset: usize,
}

impl<'n> View<'n> {
    /// Views all rows of a length.
    pub(crate) fn of(numbers: &'n [f32], length: usize) -> Self {
        Self { numbers, stride: length, offset: 0 }
    }

    #[inline(always)]
    fn row(self, row: usize, length: usize) -> &'n [f32] {
        let start = row * self.stride + self.offset;
        &self.numbers[start..start + length]
    }
}

/// The right operand of a product, packed: for each sixteen columns, their rows.
#[derive(Debug)]
pub(crate) struct Panels {
    depth: usize,
    columns: usize,
    rows: Vec<[f32; COLUMNS]>,
}

impl Panels {
    /// Packs a transposed matrix: each row of `view` is a column, as in the weights of a layer.
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

    /// Packs a matrix in row order.
    #[inline(always)]
    pub(crate) fn from_rows(view: View<'_>, depth: usize, columns: usize) -> Self {
        let mut rows = vec![[0.0; COLUMNS]; depth * columns.div_ceil(COLUMNS)];
        for depth_index in 0..depth {
            let (full, rest) = view.row(depth_index, columns).as_chunks::<COLUMNS>();
            for (panel, numbers) in full.iter().enumerate() {
                rows[panel * depth + depth_index] = *numbers;
            }
            if !rest.is_empty() {
                rows[full.len() * depth + depth_index][..rest.len()].copy_from_slice(rest);
            }
        }
        Self { depth, columns, rows }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }
}

/// The left operand of a product, packed: for each `ROWS` rows, their columns.
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

    /// Adds the product with `right` to `result`, whose row `i` starts at `offset + i * stride`.
    #[inline(always)]
    pub(crate) fn multiply<const FMA: bool>(
        &self,
        right: &Panels,
        result: &mut [f32],
        stride: usize,
        offset: usize,
    ) {
        let depth = right.depth;
        for from in (0..depth).step_by(BLOCK_DEPTH) {
            let to = depth.min(from + BLOCK_DEPTH);
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
                            let begin = start + row * stride;
                            sums.copy_from_slice(&result[begin..begin + COLUMNS]);
                        }
                        add_products::<ROWS, FMA>(&mut sums, columns, rows);
                        for (row, sums) in sums.iter().enumerate() {
                            let begin = start + row * stride;
                            result[begin..begin + COLUMNS].copy_from_slice(sums);
                        }
                    } else {
                        for (row, sums) in sums.iter_mut().enumerate().take(height) {
                            let begin = start + row * stride;
                            sums[..width].copy_from_slice(&result[begin..begin + width]);
                        }
                        add_products::<ROWS, FMA>(&mut sums, columns, rows);
                        for (row, sums) in sums.iter().enumerate().take(height) {
                            let begin = start + row * stride;
                            result[begin..begin + width].copy_from_slice(&sums[..width]);
                        }
                    }
                }
            }
        }
    }
}

/// The innermost loop: for each step of the depth, adds to all elements of a tile.
#[inline(always)]
fn add_products<const ROWS: usize, const FMA: bool>(
    sums: &mut [[f32; COLUMNS]; ROWS],
    left: &[[f32; ROWS]],
    right: &[[f32; COLUMNS]],
) {
    let mut local = *sums;
    for (left, right) in left.iter().zip(right) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                local[row][column] = fused::<FMA>(left[row], right[column], local[row][column]);
            }
        }
    }
    *sums = local;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::simd::{SimdKernel, SimdLevel};
    use crate::testing::random;

    /// A product and the matrix it is added to.
    struct Product<'n> {
        left: View<'n>,
        rows: usize,
        right: &'n Panels,
        result: Vec<f32>,
    }

    impl SimdKernel for Product<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<const ROWS: usize, const FMA: bool>(mut self) -> Vec<f32> {
            let tiles = Tiles::<ROWS>::from_rows(self.left, self.rows, self.right.depth);
            tiles.multiply::<FMA>(self.right, &mut self.result, self.right.columns, 0);
            self.result
        }
    }

    #[test]
    fn products_equal_three_plain_loops_to_the_bit() {
        for (rows, depth, columns) in
            [(1, 1, 1), (2, 3, 16), (3, 0, 5), (5, 7, 17), (9, 384, 33), (4, 800, 48), (13, 385, 1)]
        {
            let left = random(rows * depth, 1);
            let right = random(depth * columns, 2);
            let before = random(rows * columns, 3);
            let mut expected = before.clone();
            for row in 0..rows {
                for column in 0..columns {
                    for index in 0..depth {
                        let sum = &mut expected[row * columns + column];
                        *sum = left[row * depth + index]
                            .mul_add(right[index * columns + column], *sum);
                    }
                }
            }
            let mut transposed = vec![0.0; right.len()];
            for index in 0..depth {
                for column in 0..columns {
                    transposed[column * depth + index] = right[index * columns + column];
                }
            }
            let bits = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
            for right in [
                Panels::from_rows(View::of(&right, columns), depth, columns),
                Panels::from_columns(View::of(&transposed, depth), depth, columns),
            ] {
                for simd in [SimdLevel::BASELINE, SimdLevel::detect()] {
                    let left = View::of(&left, depth);
                    let product = Product { left, rows, right: &right, result: before.clone() };
                    let result = simd.run(product);
                    assert_eq!(bits(&result), bits(&expected), "{rows} {depth} {columns} {simd:?}");
                }
            }
        }
    }

    #[test]
    fn views_with_stride_and_offset_multiply() {
        let numbers = random(4 * 10, 7);
        let left = View { numbers: &numbers, stride: 10, offset: 2 };
        let right = View { numbers: &numbers, stride: 10, offset: 6 };
        let panels = Panels::from_rows(right, 3, 2);
        let mut result = vec![0.0; 4 * 5];
        Tiles::<2>::from_rows(left, 4, 3).multiply::<false>(&panels, &mut result, 5, 1);
        for row in 0..4 {
            for column in 0..5 {
                let expected = if column == 1 || column == 2 {
                    (0..3).fold(0.0_f32, |sum, index| {
                        numbers[row * 10 + 2 + index]
                            .mul_add(numbers[index * 10 + 6 + column - 1], sum)
                    })
                } else {
                    0.0
                };
                assert_eq!(result[row * 5 + column], expected);
            }
        }
    }

    /// `cargo test --release -p pannier-embed --lib -- --ignored --nocapture speed_of_products`
    #[test]
    #[ignore = "a benchmark without assertions on speed"]
    fn speed_of_products() {
        for (rows, depth, columns) in [(200, 384, 1152), (200, 384, 1536), (200, 1536, 384)] {
            let numbers = random(rows * depth, 1);
            let weights = random(depth * columns, 2);
            let right = Panels::from_columns(View::of(&weights, depth), depth, columns);
            for simd in [SimdLevel::BASELINE, SimdLevel::detect()] {
                let mut best = f64::INFINITY;
                for _ in 0..30 {
                    let left = View::of(&numbers, depth);
                    let result = vec![0.0; rows * columns];
                    let begin = Instant::now();
                    let product = simd.run(Product { left, rows, right: &right, result });
                    best = best.min(begin.elapsed().as_secs_f64());
                    assert_eq!(product.len(), rows * columns);
                }
                let operations = 2.0 * (rows * depth * columns) as f64;
                eprintln!(
                    "{rows}x{depth}x{columns} {simd:?}: {:.1} GFLOP/s",
                    operations / best / 1e9
                );
            }
        }
    }
}
