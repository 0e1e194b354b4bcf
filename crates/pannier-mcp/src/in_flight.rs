//! Requests in flight on standard input: a bounded number, each with a unique id.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

/// The maximum number of requests between reading them and writing their responses.
const MAX_IN_FLIGHT: usize = 128;
/// The number of cancelled ids that stay reserved.
const MAX_CANCELLED: usize = 1_024;

/// The requests that have no response yet. Two requests with one id would get ambiguous responses. So would a request with
/// the id of a cancelled one, whose call may still finish.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightRequests(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    /// The ids in use. An id is released before its response is written, so that the client can reuse it.
    ids: Vec<RequestId>,
    /// The number of requests whose responses are not written yet.
    count: usize,
    /// The ids that were cancelled last.
    cancelled: VecDeque<RequestId>,
    is_closed: bool,
}

impl InFlightRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request; blocks while too many are in flight. Returns false if the id is in use.
    pub(crate) fn add(&self, id: &RequestId) -> bool {
        let is_full = |state: &mut State| state.count >= MAX_IN_FLIGHT && !state.is_closed;
        let waited = self.0.1.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let is_new = !state.ids.contains(id) && !state.cancelled.contains(id);
        if is_new {
            state.ids.push(id.clone());
            state.count += 1;
        }
        is_new
    }

    /// Releases an id. The request counts as in flight until the guard is dropped.
    pub(crate) fn release(&self, id: &RequestId) -> Option<InFlightGuard> {
        let mut state = self.state();
        let position = state.ids.iter().position(|other| other == id)?;
        state.ids.swap_remove(position);
        Some(InFlightGuard(self.clone()))
    }

    pub(crate) fn cancel(&self, id: &RequestId) {
        if self.release(id).is_some() {
            let mut state = self.state();
            state.cancelled.push_back(id.clone());
            if state.cancelled.len() > MAX_CANCELLED {
                state.cancelled.pop_front();
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().count == 0
    }

    /// Unblocks [`Self::add`]: no more responses will be written.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.0.1.notify_all();
    }
}

/// Ends the flight of a request when its response is written or dropped.
pub(crate) struct InFlightGuard(InFlightRequests);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.state().count -= 1;
        self.0.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_bounded_and_ids_unique() {
        let in_flight = InFlightRequests::default();
        let id = |number: i64| RequestId::Number(number);
        assert!(in_flight.add(&id(0)) && !in_flight.add(&id(0)));
        in_flight.cancel(&id(0));
        assert!(
            in_flight.is_empty() && !in_flight.add(&id(0)),
            "a cancelled call may still finish"
        );
        for number in 1..=MAX_IN_FLIGHT as i64 {
            assert!(in_flight.add(&id(number)));
        }
        let (waiting, other) = (in_flight.clone(), id(9_999));
        let thread = std::thread::spawn(move || waiting.add(&other));
        let guard = in_flight.release(&id(1));
        assert!(guard.is_some() && in_flight.release(&id(1)).is_none());
        drop(guard);
        assert!(thread.join().unwrap(), "a released slot admits the next request");
        assert_eq!(in_flight.state().count, MAX_IN_FLIGHT);
        in_flight.close();
        assert!(in_flight.add(&id(1)), "add does not block after close");
    }
}
