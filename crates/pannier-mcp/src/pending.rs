//! Which requests are open on a line, so that there are never too many, and no two of one id.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

/// How many requests are open at a time, and how many cancelled ones are remembered.
const MOST_OPEN: usize = 128;
const MOST_CANCELLED: usize = 1_024;

/// The requests that wait for an answer. Two of one id could not be told apart, and neither could one that is cancelled
/// and a new one: the work on it may still end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<(Mutex<Open>, Condvar)>);

#[derive(Debug, Default)]
struct Open {
    /// Their ids, until an answer is about to be written: from then on, a client may use them again.
    ids: Vec<RequestId>,
    /// How many there are, until their answers are written.
    count: usize,
    /// The last that were cancelled.
    cancelled: VecDeque<RequestId>,
    is_closed: bool,
}

impl Pending {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in, once there are few enough others. One with an id that is in use is refused.
    pub(crate) fn add(&self, id: &RequestId) -> bool {
        let is_full = |open: &mut Open| open.count >= MOST_OPEN && !open.is_closed;
        let waited = self.0.1.wait_while(self.open(), is_full);
        let mut open = waited.unwrap_or_else(PoisonError::into_inner);
        let is_new = !open.ids.contains(id) && !open.cancelled.contains(id);
        if is_new {
            open.ids.push(id.clone());
            open.count += 1;
        }
        is_new
    }

    /// Frees an id. Whoever does that for one in use says later that it is answered.
    pub(crate) fn free(&self, id: &RequestId) -> Option<Answered> {
        let mut open = self.open();
        let place = open.ids.iter().position(|other| other == id)?;
        open.ids.swap_remove(place);
        Some(Answered(self.clone()))
    }

    pub(crate) fn cancel(&self, id: &RequestId) {
        if self.free(id).is_some() {
            let mut open = self.open();
            open.cancelled.push_back(id.clone());
            if open.cancelled.len() > MOST_CANCELLED {
                open.cancelled.pop_front();
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open().count == 0
    }

    /// Nobody will answer any more.
    pub(crate) fn close(&self) {
        self.open().is_closed = true;
        self.0.1.notify_all();
    }
}

/// Takes a request off what is open, however its answer ends.
pub(crate) struct Answered(Pending);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.open().count -= 1;
        self.0.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_open_and_ids_are_used_once() {
        let pending = Pending::default();
        let id = |number: i64| RequestId::Number(number);
        assert!(pending.add(&id(0)) && !pending.add(&id(0)));
        pending.cancel(&id(0));
        assert!(pending.is_empty() && !pending.add(&id(0)), "what was cancelled may still end");
        for number in 1..=MOST_OPEN as i64 {
            assert!(pending.add(&id(number)));
        }
        let (waiting, other) = (pending.clone(), id(9_999));
        let thread = std::thread::spawn(move || waiting.add(&other));
        let answered = pending.free(&id(1));
        assert!(answered.is_some() && pending.free(&id(1)).is_none());
        drop(answered);
        assert!(thread.join().unwrap(), "one went, and another came in");
        assert_eq!(pending.open().count, MOST_OPEN);
        pending.close();
        assert!(pending.add(&id(1)), "nobody waits at the end");
    }
}
