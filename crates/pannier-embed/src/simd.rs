//! Runtime dispatch to the widest SIMD registers of the processor.
//!
//! A binary must run on any processor of its architecture, and on x86-64 they differ: SSE2 adds four numbers at a time, AVX2
//! eight. So kernels are compiled twice, and the wider version runs where the processor supports it. Results must not depend
//! on the width, and fused operations are disabled in both.

/// A computation that benefits from wide registers.
pub(crate) trait SimdKernel {
    /// The result.
    type Output;

    /// Computes the result with tiles of `ROWS` rows, which fit the registers. To be compiled for the caller's registers, this
    /// function and everything it calls must be `#[inline(always)]`.
    fn run<const ROWS: usize>(self) -> Self::Output;
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
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        Self::BASELINE
    }

    /// Runs a kernel at this level.
    pub(crate) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        match self.0 {
            // 16 registers of four numbers hold two rows of sixteen; other architectures have 32 registers.
            #[cfg(target_arch = "x86_64")]
            Kind::Baseline => kernel.run::<2>(),
            #[cfg(not(target_arch = "x86_64"))]
            Kind::Baseline => kernel.run::<4>(),
            // SAFETY: `detect` creates this kind only where the processor supports AVX2.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Kind::Avx2 => unsafe { with_avx2(kernel) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run::<4>()
}
