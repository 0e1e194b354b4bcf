//! The provider's own token count, read from a response as it streams through.
//!
//! A scanner follows the JSON byte by byte and copies only the value of `usage`, so it needs little memory for responses of
//! any length, and delays nothing. What it reads never changes what is sent.

use std::io::Write;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use flate2::write::{GzDecoder, ZlibDecoder};
use serde::Deserialize;

/// The largest value of `usage` that is read.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// The decoded bytes of a response that are read. A compressed response may be much longer than what was sent.
const MAX_DECODED_BYTES: usize = 64 << 20;

/// The longest key that is compared.
const MAX_KEY_BYTES: usize = 16;

/// The field that has the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountField {
    /// `usage`, in the response or in an event of its stream.
    Usage,
    /// `input_tokens`, the whole answer of Anthropic's `count_tokens`.
    InputTokens,
}

/// The tokens of a request, as its provider counts them.
#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl Usage {
    fn input(&self) -> Option<u64> {
        let cached = [self.cache_creation_input_tokens, self.cache_read_input_tokens];
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        // Anthropic's `input_tokens` are those outside of the cache; the others' are all.
        self.prompt_tokens.or_else(|| Some(self.input_tokens?.saturating_add(cached)))
    }
}

/// Reads the count from the bytes of a response.
#[derive(Debug)]
pub(crate) struct UsageReader {
    decoder: Option<Decoder>,
}

#[derive(Debug)]
enum Decoder {
    Plain(Lines),
    Gzip(Box<GzDecoder<Lines>>),
    Zlib(Box<ZlibDecoder<Lines>>),
}

impl UsageReader {
    /// Returns a reader for a response with these headers, or `None` if its encoding is not known.
    pub(crate) fn new(field: CountField, headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let is_stream = kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        let lines = Lines::new(field, is_stream);
        let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
        let decoder = match encoding.map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None | Some("identity" | "") => Decoder::Plain(lines),
            Some("gzip" | "x-gzip") => Decoder::Gzip(Box::new(GzDecoder::new(lines))),
            Some("deflate") => Decoder::Zlib(Box::new(ZlibDecoder::new(lines))),
            Some(_) => return None,
        };
        Some(Self { decoder: Some(decoder) })
    }

    /// Reads the next bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let read = match &mut self.decoder {
            None => return,
            Some(Decoder::Plain(lines)) => lines.write_all(bytes),
            Some(Decoder::Gzip(decoder)) => decoder.write_all(bytes),
            Some(Decoder::Zlib(decoder)) => decoder.write_all(bytes),
        };
        if read.is_err() {
            self.decoder = None;
        }
    }

    /// Returns the tokens of the request, if the response had them.
    pub(crate) fn input_tokens(self) -> Option<u64> {
        let lines = match self.decoder? {
            Decoder::Plain(lines) => lines,
            // What is still in the decoder is needed for the last bytes of a response.
            Decoder::Gzip(decoder) => decoder.finish().ok()?,
            Decoder::Zlib(decoder) => decoder.finish().ok()?,
        };
        lines.scanner.found
    }
}

/// Finds the JSON in a response: all of it, or the data of each event.
#[derive(Debug)]
struct Lines {
    is_stream: bool,
    /// The beginning of a line that was compared with `data:`.
    matched: usize,
    scanner: Scanner,
    remaining_bytes: usize,
}

impl Lines {
    fn new(field: CountField, is_stream: bool) -> Self {
        let scanner = Scanner::new(field);
        Self { is_stream, matched: 0, scanner, remaining_bytes: MAX_DECODED_BYTES }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        const DATA: &[u8] = b"data:";
        let remaining = self.remaining_bytes.checked_sub(bytes.len());
        self.remaining_bytes = remaining.ok_or(std::io::ErrorKind::FileTooLarge)?;
        if !self.is_stream {
            bytes.iter().for_each(|byte| self.scanner.next(*byte));
            return Ok(bytes.len());
        }
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => {
                    self.matched = 0;
                    self.scanner.restart();
                }
                _ if self.matched == DATA.len() => self.scanner.next(*byte),
                _ if DATA.get(self.matched) == Some(byte) => self.matched += 1,
                // Another field, until the end of the line.
                _ => self.matched = usize::MAX,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Follows JSON and copies the value of one field: of the outermost object, or of its `message` or `response`.
#[derive(Debug)]
struct Scanner {
    field: CountField,
    depth: usize,
    /// Whether the outermost two values are objects.
    is_object: [bool; 2],
    is_in_string: bool,
    is_escaped: bool,
    /// Whether the next string is a key, and whether the current one is.
    expects_key: bool,
    is_key: bool,
    key: Vec<u8>,
    /// Whether the value of the outermost object's current key may have the field.
    is_wrapper: bool,
    /// The copied value, and the depth of the object that has it.
    value: Option<(usize, Vec<u8>)>,
    found: Option<u64>,
}

impl Scanner {
    fn new(field: CountField) -> Self {
        Self {
            field,
            depth: 0,
            is_object: [false; 2],
            is_in_string: false,
            is_escaped: false,
            expects_key: false,
            is_key: false,
            key: Vec::new(),
            is_wrapper: false,
            value: None,
            found: None,
        }
    }

    /// Begins another JSON text. What was found stays.
    fn restart(&mut self) {
        (self.depth, self.is_in_string, self.is_escaped) = (0, false, false);
        (self.expects_key, self.is_key, self.is_wrapper) = (false, false, false);
        self.value = None;
    }

    fn next(&mut self, byte: u8) {
        if self.is_in_string {
            self.copy(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ if self.is_key && self.key.len() < MAX_KEY_BYTES => self.key.push(byte),
                _ => {}
            }
            return;
        }
        if let b',' | b'}' | b']' = byte {
            self.end_value();
        }
        self.copy(byte);
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.is_key = self.expects_key;
                if self.is_key {
                    self.key.clear();
                }
            }
            b'{' | b'[' => {
                if let Some(is_object) = self.is_object.get_mut(self.depth) {
                    *is_object = byte == b'{';
                }
                self.depth += 1;
                self.expects_key = self.is_in_known_object();
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.expects_key = false;
            }
            b',' => self.expects_key = self.is_in_known_object(),
            b':' if self.expects_key => {
                (self.expects_key, self.is_key) = (false, false);
                self.begin_value();
            }
            _ => {}
        }
    }

    fn is_in_known_object(&self) -> bool {
        let outer = self.depth.checked_sub(1).and_then(|depth| self.is_object.get(depth));
        outer == Some(&true) && (self.depth == 1 || self.is_wrapper)
    }

    /// Handles the value of the current key.
    fn begin_value(&mut self) {
        let name: &[u8] = match self.field {
            CountField::Usage => b"usage",
            CountField::InputTokens => b"input_tokens",
        };
        if self.key == name {
            self.value = Some((self.depth, Vec::new()));
        }
        if self.depth == 1 {
            self.is_wrapper = matches!(&self.key[..], b"message" | b"response");
        }
    }

    fn copy(&mut self, byte: u8) {
        if let Some((_, value)) = &mut self.value {
            value.push(byte);
        }
        if self.value.as_ref().is_some_and(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            self.value = None;
        }
    }

    /// Reads the copied value if it ends here.
    fn end_value(&mut self) {
        let Some((_, value)) = self.value.take_if(|(depth, _)| *depth == self.depth) else {
            return;
        };
        let count = match self.field {
            CountField::InputTokens => serde_json::from_slice(&value).ok(),
            CountField::Usage => {
                serde_json::from_slice::<Usage>(&value).ok().and_then(|usage| usage.input())
            }
        };
        // Events repeat the count, and some have none.
        self.found = self.found.max(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(kind: &'static str, encoding: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
        headers.extend(encoding.map(|name| (CONTENT_ENCODING, name.parse().unwrap())));
        headers
    }

    /// Reads a response in parts of each size, and returns the one result.
    fn read(kind: &'static str, text: &str) -> Option<u64> {
        let count = |size: usize| {
            let mut reader = UsageReader::new(CountField::Usage, &headers(kind, None)).unwrap();
            text.as_bytes().chunks(size).for_each(|part| reader.read(part));
            reader.input_tokens()
        };
        let whole = count(text.len().max(1));
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(count(size), whole, "{size}: {text}");
        }
        whole
    }

    const JSON: &str = "application/json";
    const STREAM: &str = "text/event-stream; charset=utf-8";

    #[test]
    fn counts_of_all_protocols_are_found() {
        let anthropic = r#"{"content":[{"text":"a \"usage\": {\"input_tokens\":9}"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":40,"cache_read_input_tokens":500,"output_tokens":7}}"#;
        assert_eq!(read(JSON, anthropic), Some(543));
        let chat = r#"{ "choices": [ {"usage": {"prompt_tokens": 1}} ], "usage" : { "prompt_tokens" : 12, "total_tokens": 15 } }"#;
        assert_eq!(read(JSON, chat), Some(12));
        let responses = r#"{"usage":{"input_tokens":77,"input_tokens_details":{"cached_tokens":64},"output_tokens":5},"output":[]}"#;
        assert_eq!(read(JSON, responses), Some(77));
        let events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":20}}}\n\nevent: message_delta\r\ndata:{\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\r\n\r\n";
        assert_eq!(read(STREAM, events), Some(23));
        let chunks = "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":31}}\n\ndata: [DONE]\n\n";
        assert_eq!(read(STREAM, chunks), Some(31));
        let completed = "data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"usage\":{\"input_tokens\":1}}],\"usage\":{\"input_tokens\":88}}}\n\n";
        assert_eq!(read(STREAM, completed), Some(88));
        let mut reader = UsageReader::new(CountField::InputTokens, &headers(JSON, None)).unwrap();
        reader.read(b"{\"input_tokens\": 2095}");
        assert_eq!(reader.input_tokens(), Some(2095));
    }

    #[test]
    fn other_responses_have_no_count() {
        for text in [
            "",
            "null",
            "not json \" { usage",
            r#"[{"usage":{"prompt_tokens":1}}]"#,
            r#"{"usage":"many"}"#,
            r#"{"usage":{"prompt_tokens":-1}}"#,
            r#"{"usage":{"prompt_tokens":1"#,
            r#"{"other":{"usage":{"prompt_tokens":1}}}"#,
            r#"{"message":[{"usage":{"prompt_tokens":1}}]}"#,
            r#"{"error":{"message":"usage: {\"prompt_tokens\":1}"}}"#,
            "]]]}}}{\"usage",
        ] {
            assert_eq!(read(JSON, text), None, "{text}");
            assert_eq!(read(STREAM, text), None, "{text}");
        }
        let long = format!(r#"{{"usage":{{"x":"{}","prompt_tokens":1}}}}"#, "y".repeat(20_000));
        assert_eq!(read(JSON, &long), None, "the copy is bounded");
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(read(JSON, &deep), None);
    }

    #[test]
    fn compressed_responses_are_read_within_a_bound() {
        let text = br#"{"usage":{"prompt_tokens":12}}"#;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let gzip = gzip.finish().unwrap();
        let count = |encoding, bytes: &[u8]| {
            let mut reader = UsageReader::new(CountField::Usage, &headers(JSON, Some(encoding)))?;
            bytes.chunks(5).for_each(|part| reader.read(part));
            reader.input_tokens()
        };
        assert_eq!(count("gzip", &gzip), Some(12));
        assert_eq!(count("gzip", b"not gzip"), None);
        assert_eq!(count("br", &gzip), None);
        let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        (0..65).for_each(|_| bomb.write_all(&[b' '; 1 << 20]).unwrap());
        bomb.write_all(text).unwrap();
        assert_eq!(count("deflate", &bomb.finish().unwrap()), None);
    }
}
