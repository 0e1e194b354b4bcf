//! Runtime dispatch to the widest SIMD registers of the processor.
//!
//! A binary must run on any processor of its architecture, and on x86-64 they differ: SSE2 adds four numbers at a time, AVX2
//! eight, and only newer ones fuse a multiplication with an addition. So kernels are compiled twice, and the wider version runs
//! where the processor supports it. Results depend neither on the width nor on the processor: IEEE 754 fixes a fused operation
//! to the bit as well, so [`fused`] computes it with 64 bits where there is no instruction for it.

/// A computation that benefits from wide registers.
pub(crate) trait SimdKernel {
    /// The result.
    type Output;

    /// Computes the result with tiles of `ROWS` rows, which fit the registers. `FMA` is whether the processor has a fused
    /// instruction. To be compiled for the caller's registers, this function and everything it calls must be
    /// `#[inline(always)]`.
    fn run<const ROWS: usize, const FMA: bool>(self) -> Self::Output;
}

/// Returns `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fused<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { emulated(a, b, c) }
}

/// Computes [`fused`] without an instruction for it. The product is exact in 64 bits. The sum is rounded to odd, which keeps
/// whether it was exact, so that rounding it to 32 bits does not round twice (Boldo and Melquiond, 2008).
#[inline(always)]
fn emulated(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // The exact error of the sum (Knuth's TwoSum); not a number if the sum is not finite.
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    // To odd: toward zero, then the lowest bit is set if the sum is inexact. Without branches, for SIMD.
    let is_inexact = u64::from((error > 0.0) | (error < 0.0));
    let is_too_far = ((error.to_bits() ^ sum.to_bits()) >> 63) & is_inexact;
    f64::from_bits((sum.to_bits().wrapping_sub(is_too_far)) | is_inexact) as f32
}

/// A set of SIMD instructions that this processor supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimdLevel(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The instructions of every processor of the architecture.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl SimdLevel {
    /// The instructions of every processor of the architecture.
    pub(crate) const BASELINE: Self = Self(Kind::Baseline);

    /// Returns the widest level of this processor.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Self(Kind::Avx2);
        }
        Self::BASELINE
    }

    /// Runs a kernel at this level.
    pub(crate) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        match self.0 {
            // 16 registers of four numbers hold two rows of sixteen; other architectures have 32 registers.
            #[cfg(target_arch = "x86_64")]
            Kind::Baseline => kernel.run::<2, false>(),
            #[cfg(target_arch = "aarch64")]
            Kind::Baseline => kernel.run::<6, true>(),
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            Kind::Baseline => kernel.run::<4, false>(),
            // SAFETY: `detect` creates this kind only where the processor supports AVX2 and FMA.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Kind::Avx2 => unsafe { with_avx2(kernel) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run::<6, true>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn the_emulation_equals_the_instruction(a: u32, b: u32, c: u32, shift in 0..60_u32) {
            // The second sum is nearly cancelled, or its parts differ by `shift` bits.
            let [a, b, c] = [a, b, c].map(f32::from_bits);
            let near = -(a * b) * (1.0 / (1_u64 << shift) as f32);
            for c in [c, near, -near] {
                let (emulated, exact) = (emulated(a, b, c), a.mul_add(b, c));
                prop_assert!(
                    emulated.to_bits() == exact.to_bits() || emulated.is_nan() && exact.is_nan(),
                    "{a:e} * {b:e} + {c:e} = {exact:e}, not {emulated:e}"
                );
            }
        }
    }
}
