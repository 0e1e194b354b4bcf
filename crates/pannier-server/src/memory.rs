//! Returns freed memory to the system while the server is idle.
//!
//! `mimalloc` returns a freed page after a delay of a second, when a thread frees the next one. After large calls, an idle
//! server has no next one, and would keep tens of megabytes. So a task allocates and frees a block from time to time. Nobody
//! writes to the block, so it takes address space only.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

/// The interval, longer than the delay of the allocator.
const RELEASE_INTERVAL: Duration = Duration::from_secs(2);

/// The size of the block: above those that a thread keeps for its next allocations.
const BLOCK_BYTES: usize = 4 << 20;

/// The time after which a thread without a call ends. It returns what it keeps for its next allocations.
pub(crate) const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Frees memory again and again.
pub(crate) async fn release() -> Infallible {
    loop {
        tokio::time::sleep(RELEASE_INTERVAL).await;
        drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
    }
}
