//! Compressed bodies, decoded within a bound.

use std::io::{self, Read};

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;

/// Decodes a body, or returns `None` if its encoding is not known, it is damaged, or it exceeds `max_bytes`.
pub(crate) fn decode(headers: &HeaderMap, body: &Bytes, max_bytes: usize) -> Option<Bytes> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let Some(encoding) = encodings.next() else { return Some(body.clone()) };
    // Several encodings on top of each other are legal, and nobody sends them.
    if encodings.next().is_some() {
        return None;
    }
    let decoded = match encoding.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
        "identity" => return Some(body.clone()),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), max_bytes),
        "deflate" => read(flate2::read::ZlibDecoder::new(&body[..]), max_bytes),
        "zstd" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&body[..]).ok()?;
            read(decoder, max_bytes)
        }
        _ => return None,
    };
    decoded.ok().filter(|decoded| decoded.len() <= max_bytes).map(Bytes::from)
}

fn read(decoder: impl Read, max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut decoded = Vec::new();
    decoder.take(max_bytes as u64 + 1).read_to_end(&mut decoded)?;
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, encoding.parse().unwrap())])
    }

    #[test]
    fn bodies_are_decoded_within_their_bound() {
        let text = b"{\"messages\":[]}".repeat(100);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let zlib = Bytes::from(zlib.finish().unwrap());
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = Bytes::from(ruzstd::encoding::compress_to_vec(&text[..], level));
        for (name, body) in [("gzip", &gzip), ("deflate", &zlib), ("ZSTD", &zstd)] {
            assert_eq!(decode(&headers(name), body, text.len()).unwrap(), text, "{name}");
            assert!(decode(&headers(name), body, text.len() - 1).is_none(), "{name}");
            assert!(decode(&headers(name), &body.slice(..20), text.len()).is_none(), "{name}");
        }
        assert_eq!(decode(&HeaderMap::new(), &gzip, 0).unwrap(), gzip);
        assert!(decode(&headers("br"), &gzip, 1 << 20).is_none());
    }
}
