//! Runs work with the widest vectors that the processor has.
//!
//! What is shipped must run on any processor of its architecture, and those of x86-64 differ: the oldest add four numbers
//! at a time, most others eight. The same code is therefore compiled twice, and the second is chosen when the processor
//! says that it can. That is all it decides: the work may not depend on the width in its results, and fused operations
//! stay switched off in both.

/// Work that gains from wide vectors.
pub(crate) trait Work {
    /// What it gives.
    type Output;

    /// Does it, with tiles of so many rows as fit the registers. To be compiled for the width of its caller, this and what
    /// it calls must be `#[inline(always)]`.
    fn run<const ROWS: usize>(self) -> Self::Output;
}

/// How wide the vectors are. One that the processor lacks cannot be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// What every processor of the architecture has.
    Least,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Width {
    /// What every processor has.
    pub(crate) const LEAST: Self = Self(Kind::Least);

    /// The widest of this processor.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        Self::LEAST
    }

    /// Does work.
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            // 16 registers of four numbers hold two rows of sixteen; other architectures have twice as many.
            #[cfg(target_arch = "x86_64")]
            Kind::Least => work.run::<2>(),
            #[cfg(not(target_arch = "x86_64"))]
            Kind::Least => work.run::<4>(),
            // Safe because `best` makes this kind only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Kind::Avx2 => unsafe { with_avx2(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<W: Work>(work: W) -> W::Output {
    work.run::<4>()
}
