//! Sessions: what was decided about the previous requests of a history.
//!
//! Decisions are a pure function of the request, so the ledger decides nothing. It is a cache and an audit trail: it knows
//! how much of a request the provider has cached, with which margin its session began, and what was cut when.
//!
//! A session is found by hashing. Each message of a request extends a chain of hashes, keyed by the client and the secret of
//! the state folder. The chain up to the end of a request names its session. So a session is found only if every message up
//! to there is equal, and only by the same client. The header `pannier-session` is part of the client: it can separate
//! sessions, never join them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pannier_chat::{Cut, SentBlock};
use serde::{Deserialize, Serialize};

use crate::identity::{Client, hex};
use crate::state::StateFolder;

/// The number of sessions that are remembered.
pub(crate) const MAX_SESSIONS: usize = 1_024;

/// The number of requests of a session that are remembered.
const MAX_TURNS: usize = 256;

/// The number of blocks of all sessions that are remembered, 16 bytes each.
const MAX_BLOCKS: usize = 1 << 20;

/// The number of receipts that are kept in memory.
const MAX_RECEIPTS: usize = 256;

/// The longest receipt that is kept in memory.
const MAX_RECEIPT_BYTES: usize = 256 << 10;

/// The hash of a history up to the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HistoryHash(u128);

impl HistoryHash {
    fn digits(self) -> String {
        format!("{:032x}", self.0)
    }

    fn parse(digits: &str) -> Option<Self> {
        u128::from_str_radix(digits, 16).ok().map(Self)
    }
}

/// Returns the hash after each message of a history.
pub(crate) fn history_hashes(
    client: &Client,
    protocol: &str,
    messages: &[[u8; 32]],
) -> Vec<HistoryHash> {
    let key = client.key(&format!("history {protocol}"));
    let mut hash = [0; 32];
    let next = |message: &[u8; 32]| {
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(&hash);
        hasher.update(message);
        hash = hasher.finalize().into();
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        HistoryHash(u128::from_be_bytes(short))
    };
    messages.iter().map(next).collect()
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) fit: String,
    pub(crate) tokens_in: i64,
    pub(crate) tokens_sent: i64,
    /// The tokens of the longest beginning that the previous request of the session had, too.
    pub(crate) tokens_prefix: i64,
    /// The number of blocks with a shorter form.
    pub(crate) cuts: usize,
    pub(crate) is_batch: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) receipt: String,
    /// The tokens that the provider has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_reported: Option<u64>,
}

/// A block that was cut, without its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CutRecord {
    message: usize,
    part: usize,
    form: String,
    reason: String,
    tokens_before: i64,
    tokens_after: i64,
}

/// A message that a fitted request changes or drops because the provider would refuse it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepairRecord {
    pub(crate) message: usize,
    pub(crate) problem: String,
}

impl CutRecord {
    pub(crate) fn new(cut: &Cut) -> Self {
        let name = |value: Option<serde_json::Value>| {
            value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        Self {
            message: cut.message,
            part: cut.part,
            form: name(serde_json::to_value(cut.form).ok()),
            reason: name(serde_json::to_value(cut.reason).ok()),
            tokens_before: cut.tokens_before,
            tokens_after: cut.tokens_after,
        }
    }
}

/// The decision about a request, without contents. Its hash names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    version: u32,
    session: String,
    /// The hash of the history up to the end of the request.
    history: String,
    protocol: String,
    model: String,
    tokenizer: String,
    policy: String,
    budget: i64,
    margin_percent: f64,
    #[serde(flatten)]
    turn: Turn,
    /// Keyed hashes of the body as the client sent it, decoded, and as the provider got it.
    body_in: String,
    body_sent: String,
    /// The cuts that the previous request of the session did not have.
    new_cuts: Vec<CutRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<RepairRecord>,
    /// The number of leading blocks that equal those of the previous request, and the others: hash and tokens.
    same_blocks: usize,
    new_blocks: Vec<(u64, i64)>,
}

/// What is recorded about a request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) hashes: Vec<HistoryHash>,
    pub(crate) protocol: &'static str,
    pub(crate) model: String,
    pub(crate) tokenizer: String,
    pub(crate) policy: String,
    pub(crate) budget: i64,
    pub(crate) body_in: String,
    pub(crate) body_sent: String,
    pub(crate) fit: &'static str,
    pub(crate) tokens_in: i64,
    pub(crate) tokens_sent: i64,
    pub(crate) is_batch: bool,
    pub(crate) cuts: Vec<CutRecord>,
    pub(crate) repairs: Vec<RepairRecord>,
    pub(crate) blocks: Vec<SentBlock>,
}

/// What the ledger knows after a request is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The tokens of the longest beginning that the previous request of the session had, too.
    pub(crate) tokens_prefix: i64,
    /// The same for the requests as the client sent them.
    pub(crate) tokens_in_prefix: i64,
    /// The name of the receipt: the session, and the hash of its text.
    pub(crate) receipt: String,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// The margin with which it began. Another one would change earlier cuts, and with them the prefix.
    pub(crate) margin_percent: f64,
    /// Whether all that was cut can be recalled.
    is_stored: AtomicBool,
    data: Mutex<SessionData>,
}

#[derive(Debug, Default)]
struct SessionData {
    protocol: String,
    model: String,
    /// The last requests.
    turns: VecDeque<Turn>,
    requests: u64,
    /// Where the last requests ended, with their tokens as the client sent them.
    ends: VecDeque<(HistoryHash, i64)>,
    /// The blocks and the cuts of the last request.
    blocks: Vec<SentBlock>,
    cuts: Vec<(usize, usize, i64)>,
    /// Whether the file of the session lacks the last request.
    is_behind: bool,
}

/// A session in short, for the list of the inspector.
#[derive(Debug, Serialize)]
pub(crate) struct SessionSummary {
    id: String,
    protocol: String,
    model: String,
    margin_percent: f64,
    requests: u64,
    last: Option<Turn>,
}

impl Session {
    fn new(id: String, margin_percent: f64) -> Self {
        Self { id, margin_percent, is_stored: AtomicBool::new(true), data: Mutex::default() }
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stored(&self, is_stored: bool) {
        self.is_stored.store(is_stored, Ordering::Relaxed);
    }

    /// Returns whether a request cuts other blocks than the last one.
    pub(crate) fn has_new_cuts(&self, cuts: &[Cut]) -> bool {
        let cuts = cuts.iter().map(|cut| (cut.message, cut.part, cut.tokens_after));
        !cuts.eq(self.data().cuts.iter().copied())
    }

    fn data(&self) -> MutexGuard<'_, SessionData> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn summary(&self) -> SessionSummary {
        let data = self.data();
        SessionSummary {
            id: self.id.clone(),
            protocol: data.protocol.clone(),
            model: data.model.clone(),
            margin_percent: self.margin_percent,
            requests: data.requests,
            last: data.turns.back().cloned(),
        }
    }

    /// Returns the last requests, the oldest first.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        self.data().turns.iter().cloned().collect()
    }

    /// Adds the provider's own count to a request.
    pub(crate) fn report(&self, receipt: &str, tokens: u64) {
        let mut data = self.data();
        if let Some(turn) = data.turns.iter_mut().rev().find(|turn| turn.receipt == receipt) {
            turn.tokens_reported = Some(tokens);
        }
    }
}

impl SessionData {
    fn add_turn(&mut self, turn: Turn) {
        if self.turns.len() >= MAX_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back(turn);
        self.requests += 1;
    }

    /// Adds the end of a request; returns one that is forgotten for it.
    fn add_end(&mut self, end: HistoryHash, tokens_in: i64) -> Option<HistoryHash> {
        self.ends.retain(|(known, _)| *known != end);
        let is_full = self.ends.len() >= MAX_TURNS;
        let forgotten = if is_full { self.ends.pop_front() } else { None };
        self.ends.push_back((end, tokens_in));
        forgotten.map(|(hash, _)| hash)
    }

    /// Returns the position up to which a request equals the last one, and its tokens.
    fn common(&self, blocks: &[SentBlock]) -> (usize, i64) {
        let same = self.blocks.iter().zip(blocks).take_while(|(last, block)| last == block);
        same.fold((0, 0), |(count, tokens), (_, block)| (count + 1, tokens + block.tokens))
    }
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct Ledger {
    sessions: Mutex<Sessions>,
    state: Option<Arc<StateFolder>>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// In the order of their last requests.
    recent: Vec<Arc<Session>>,
    /// The number of blocks of each session, by its id, and their sum.
    blocks: HashMap<String, usize>,
    all_blocks: usize,
    by_history: HashMap<HistoryHash, Arc<Session>>,
    receipts: VecDeque<(String, String)>,
}

impl Sessions {
    /// Remembers a session as the most recent one, and forgets the oldest beyond the bounds.
    fn touch(&mut self, session: &Arc<Session>, blocks: usize) {
        self.recent.retain(|known| known.id != session.id);
        self.recent.push(Arc::clone(session));
        self.all_blocks += blocks;
        self.all_blocks -= self.blocks.insert(session.id.clone(), blocks).unwrap_or(0);
        while self.recent.len() > 1
            && (self.recent.len() > MAX_SESSIONS || self.all_blocks > MAX_BLOCKS)
        {
            let oldest = self.recent.remove(0);
            self.all_blocks -= self.blocks.remove(&oldest.id).unwrap_or(0);
            for (hash, _) in &oldest.data().ends {
                self.by_history.remove(hash);
            }
        }
    }
}

impl Ledger {
    /// Returns a ledger with the sessions of a state folder.
    pub(crate) fn open(state: Option<Arc<StateFolder>>) -> Self {
        let mut sessions = Sessions::default();
        for lines in state.iter().flat_map(|state| state.sessions()) {
            if let Some((session, blocks)) = restore(&lines) {
                let session = Arc::new(session);
                for (hash, _) in &session.data().ends {
                    sessions.by_history.insert(*hash, Arc::clone(&session));
                }
                sessions.touch(&session, blocks);
            }
        }
        Self { sessions: Mutex::new(sessions), state }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session of a history, or a new one with a margin.
    pub(crate) fn session(
        &self,
        hashes: &[HistoryHash],
        margin_percent: impl FnOnce() -> f64,
    ) -> Arc<Session> {
        let known = {
            let sessions = self.sessions();
            hashes.iter().rev().find_map(|hash| sessions.by_history.get(hash).cloned())
        };
        known.unwrap_or_else(|| {
            let id = hashes.last().map(|hash| hash.digits()[..16].to_owned());
            Arc::new(Session::new(id.unwrap_or_default(), margin_percent()))
        })
    }

    /// Records a request of a session that its provider has taken.
    pub(crate) fn record(&self, session: &Arc<Session>, entry: Entry) -> Recorded {
        let end = entry.hashes.last().copied();
        let mut data = session.data();
        let (same_blocks, tokens_prefix) = data.common(&entry.blocks);
        let known = entry.hashes.iter().rev().find_map(|hash| {
            data.ends.iter().rev().find(|(end, _)| end == hash).map(|(_, tokens)| *tokens)
        });
        let tokens_in_prefix = known.unwrap_or(0).min(entry.tokens_in);
        let cuts: Vec<(usize, usize, i64)> =
            entry.cuts.iter().map(|cut| (cut.message, cut.part, cut.tokens_after)).collect();
        let new_cuts = entry.cuts.iter().zip(&cuts);
        let new_cuts = new_cuts.filter(|(_, cut)| data.cuts.binary_search(cut).is_err());
        let new_cuts: Vec<CutRecord> = new_cuts.map(|(cut, _)| cut.clone()).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut turn = Turn {
            at: since.as_millis() as u64,
            fit: entry.fit.to_owned(),
            tokens_in: entry.tokens_in,
            tokens_sent: entry.tokens_sent,
            tokens_prefix,
            cuts: entry.cuts.len(),
            is_batch: entry.is_batch,
            receipt: String::new(),
            tokens_reported: None,
        };
        // After a failed write and in a new file, the line has all blocks.
        let is_full = self.state.as_ref().is_some_and(|state| state.is_full(&session.id));
        let same_blocks = if data.is_behind || is_full { 0 } else { same_blocks };
        let receipt = Receipt {
            version: 1,
            session: session.id.clone(),
            history: end.map(HistoryHash::digits).unwrap_or_default(),
            protocol: entry.protocol.to_owned(),
            model: entry.model,
            tokenizer: entry.tokenizer,
            policy: entry.policy,
            budget: entry.budget,
            margin_percent: session.margin_percent,
            turn: turn.clone(),
            body_in: entry.body_in,
            body_sent: entry.body_sent,
            new_cuts,
            repairs: entry.repairs,
            same_blocks,
            new_blocks: entry.blocks[same_blocks..]
                .iter()
                .map(|block| (block.hash, block.tokens))
                .collect(),
        };
        // A receipt of numbers and texts always serializes.
        let line = serde_json::to_string(&receipt).unwrap_or_default();
        let name = receipt_name(&session.id, &line);
        turn.receipt.clone_from(&name);
        (data.protocol, data.model) = (receipt.protocol, receipt.model);
        data.add_turn(turn);
        let forgotten = end.and_then(|end| data.add_end(end, entry.tokens_in));
        let blocks = entry.blocks.len();
        (data.blocks, data.cuts) = (entry.blocks, cuts);
        data.is_behind = self.state.as_ref().is_some_and(|state| {
            let written = match is_full {
                true => state.replace(&session.id, &line),
                false => state.append(&session.id, &line),
            };
            written.inspect_err(|error| tracing::warn!(%error, "cannot write the ledger")).is_err()
        });
        drop(data);
        let mut sessions = self.sessions();
        if let Some(hash) = forgotten {
            sessions.by_history.remove(&hash);
        }
        if let Some(end) = end {
            sessions.by_history.insert(end, Arc::clone(session));
        }
        sessions.touch(session, blocks);
        if line.len() <= MAX_RECEIPT_BYTES {
            if sessions.receipts.len() >= MAX_RECEIPTS {
                sessions.receipts.pop_front();
            }
            sessions.receipts.push_back((name.clone(), line));
        }
        Recorded { tokens_prefix, tokens_in_prefix, receipt: name }
    }

    /// Returns all sessions, the last one first.
    pub(crate) fn list(&self) -> Vec<Arc<Session>> {
        self.sessions().recent.iter().rev().cloned().collect()
    }

    /// Returns the text of a receipt by its name, from memory or from the state folder.
    pub(crate) fn receipt(&self, name: &str) -> Option<String> {
        let known = self.sessions().receipts.iter().find(|(known, _)| known == name).cloned();
        if let Some((_, line)) = known {
            return Some(line);
        }
        let (session, _) = name.split_once('-')?;
        let lines = self.state.as_ref()?.session(session)?;
        lines.lines().find(|line| receipt_name(session, line) == name).map(str::to_owned)
    }
}

/// Returns the name of a receipt: its session, and the BLAKE3 hash of its text.
fn receipt_name(session: &str, line: &str) -> String {
    format!("{session}-{}", hex(&blake3::hash(line.as_bytes()).as_bytes()[..16]))
}

/// Rebuilds a session from the lines of its file. Lines that are not receipts are skipped.
fn restore(lines: &str) -> Option<(Session, usize)> {
    let mut session: Option<Session> = None;
    for line in lines.lines() {
        let Ok(mut receipt) = serde_json::from_str::<Receipt>(line) else { continue };
        receipt.turn.receipt = receipt_name(&receipt.session, line);
        let margin = receipt.margin_percent;
        let session = session.get_or_insert_with(|| Session::new(receipt.session.clone(), margin));
        let mut data = session.data();
        // A line is missing; the next whole one is a new beginning.
        if data.blocks.len() < receipt.same_blocks {
            data.blocks.clear();
            continue;
        }
        data.blocks.truncate(receipt.same_blocks);
        let new = receipt.new_blocks.iter().map(|(hash, tokens)| SentBlock::new(*hash, *tokens));
        data.blocks.extend(new);
        if let Some(hash) = HistoryHash::parse(&receipt.history) {
            data.add_end(hash, receipt.turn.tokens_in);
        }
        (data.protocol, data.model) = (receipt.protocol, receipt.model);
        data.add_turn(receipt.turn);
    }
    let session = session?;
    let blocks = session.data().blocks.len();
    Some((session, blocks))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::header::AUTHORIZATION;

    use super::*;
    use crate::identity::Secret;

    fn client(secret: &Secret, key: &'static str) -> Client {
        secret.client(&HeaderMap::from_iter([(AUTHORIZATION, key.parse().unwrap())]))
    }

    fn digests(count: u8) -> Vec<[u8; 32]> {
        (0..count).map(|number| [number; 32]).collect()
    }

    fn entry(hashes: &[HistoryHash], blocks: &[(u64, i64)]) -> Entry {
        let tokens = blocks.iter().map(|(_, tokens)| tokens).sum();
        Entry {
            hashes: hashes.to_vec(),
            protocol: "anthropic",
            model: "m".to_owned(),
            tokenizer: "t".to_owned(),
            policy: "balanced".to_owned(),
            budget: 100,
            body_in: String::new(),
            body_sent: String::new(),
            fit: "unchanged",
            tokens_in: tokens,
            tokens_sent: tokens,
            is_batch: false,
            cuts: Vec::new(),
            repairs: Vec::new(),
            blocks: blocks.iter().map(|(hash, tokens)| SentBlock::new(*hash, *tokens)).collect(),
        }
    }

    #[test]
    fn a_session_is_found_by_its_whole_history_and_its_client() {
        let (secret, ledger) = (Secret::random().unwrap(), Ledger::open(None));
        let (one, other) = (client(&secret, "a"), client(&secret, "b"));
        let hashes = history_hashes(&one, "anthropic", &digests(3));
        let session = ledger.session(&hashes, || 1.0);
        let recorded = ledger.record(&session, entry(&hashes, &[(1, 5), (2, 6)]));
        assert_eq!((recorded.tokens_prefix, recorded.tokens_in_prefix), (0, 0));
        // A longer history of the same client continues it, with the margin of its beginning.
        let longer = history_hashes(&one, "anthropic", &digests(5));
        let again = ledger.session(&longer, || 2.0);
        assert_eq!((&again.id, again.margin_percent), (&session.id, 1.0));
        let recorded = ledger.record(&again, entry(&longer, &[(1, 5), (3, 6), (2, 6)]));
        assert_eq!((recorded.tokens_prefix, recorded.tokens_in_prefix), (5, 11));
        // Nobody else does: neither another client, nor another protocol, nor a changed or shorter history.
        let mut changed = digests(5);
        changed[1] = [9; 32];
        for hashes in [
            history_hashes(&other, "anthropic", &digests(5)),
            history_hashes(&one, "openai", &digests(5)),
            history_hashes(&one, "anthropic", &changed),
            history_hashes(&one, "anthropic", &digests(2)),
        ] {
            let found = ledger.session(&hashes, || 2.0);
            assert_eq!(found.margin_percent, 2.0);
            assert_ne!(found.id, session.id);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let (secret, ledger) = (Secret::random().unwrap(), Ledger::open(None));
        let client = client(&secret, "a");
        let blocks: Vec<(u64, i64)> = (0..MAX_BLOCKS as u64 / 4).map(|hash| (hash, 1)).collect();
        for number in 0..5_u8 {
            let hashes = history_hashes(&client, "anthropic", &[[number; 32]]);
            ledger.record(&ledger.session(&hashes, || 0.0), entry(&hashes, &blocks));
        }
        assert_eq!(ledger.list().len(), 4);
        let sessions = ledger.sessions();
        assert!(sessions.all_blocks <= MAX_BLOCKS && sessions.by_history.len() == 4);
        drop(sessions);
        // The requests of one session, and the sessions.
        let hashes = history_hashes(&client, "x", &vec![[1; 32]; 2 * MAX_TURNS]);
        for end in 1..=hashes.len() {
            let hashes = &hashes[..end];
            ledger.record(&ledger.session(hashes, || 0.0), entry(hashes, &[]));
        }
        assert_eq!(ledger.list()[0].turns().len(), MAX_TURNS);
        assert!(ledger.sessions().by_history.len() <= 4 + MAX_TURNS);
        for number in 0..MAX_SESSIONS + 10 {
            let digest = blake3::hash(&number.to_le_bytes()).into();
            let hashes = history_hashes(&client, "y", &[digest]);
            ledger.record(&ledger.session(&hashes, || 0.0), entry(&hashes, &[]));
        }
        assert_eq!(ledger.list().len(), MAX_SESSIONS);
        assert_eq!(ledger.sessions().by_history.len(), MAX_SESSIONS);
        assert_eq!(ledger.sessions().receipts.len(), MAX_RECEIPTS);
    }

    #[test]
    fn sessions_survive_a_restart_and_damaged_files() {
        let folder = std::env::temp_dir().join(format!("pannier-ledger-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let hashes = |secret: &Secret, count| {
            history_hashes(&client(secret, "a"), "anthropic", &digests(count))
        };
        let state = Arc::new(StateFolder::open(&folder).unwrap());
        let ledger = Ledger::open(Some(Arc::clone(&state)));
        let mut receipt = String::new();
        for count in 1..4 {
            let hashes = hashes(state.secret(), count);
            let blocks: Vec<(u64, i64)> = (0..count.into()).map(|hash| (hash, 10)).collect();
            let session = ledger.session(&hashes, || f64::from(count));
            receipt = ledger.record(&session, entry(&hashes, &blocks)).receipt;
        }
        let id = ledger.list()[0].id.clone();
        drop((ledger, state));
        // A process that is ended within a write leaves a part of a line.
        let path = folder.join("sessions").join(&id).with_extension("jsonl");
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        text.push_str("{\"version\":1,\"sess");
        std::fs::write(&path, text).unwrap();
        let state = Arc::new(StateFolder::open(&folder).unwrap());
        let ledger = Ledger::open(Some(Arc::clone(&state)));
        let four = hashes(state.secret(), 4);
        let session = ledger.session(&four, || 9.0);
        assert_eq!((&session.id, session.margin_percent), (&id, 1.0));
        assert_eq!(session.turns().len(), 3);
        assert!(ledger.receipt(&receipt).unwrap().contains("\"same_blocks\":2"));
        let recorded = ledger.record(&session, entry(&four, &[(0, 10), (1, 10), (2, 10), (3, 10)]));
        assert_eq!(recorded.tokens_prefix, 30);
        drop((ledger, state));
        let state = Arc::new(StateFolder::open(&folder).unwrap());
        let ledger = Ledger::open(Some(state));
        assert_eq!(ledger.list()[0].turns().len(), 4);
        assert!(ledger.receipt(&recorded.receipt).is_some());
        drop(ledger);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
