//! Compressed bodies, decoded within a bound.

use std::io::{self, Read};

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;

/// Why a body is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It has an encoding that is not known, or several.
    Unknown,
    /// It is damaged.
    Damaged,
    /// It is longer than the bound.
    TooLong,
}

/// Decodes a body of at most `max_bytes`.
pub(crate) fn decode(
    headers: &HeaderMap,
    body: &Bytes,
    max_bytes: usize,
) -> Result<Bytes, DecodeError> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let Some(encoding) = encodings.next() else { return Ok(body.clone()) };
    // Several encodings on top of each other are legal, and nobody sends them.
    if encodings.next().is_some() {
        return Err(DecodeError::Unknown);
    }
    let encoding = encoding.to_str().unwrap_or("?").trim().to_ascii_lowercase();
    let decoded = match encoding.as_str() {
        "identity" => return Ok(body.clone()),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), max_bytes),
        "deflate" => read(flate2::read::ZlibDecoder::new(&body[..]), max_bytes),
        "zstd" => match ruzstd::decoding::StreamingDecoder::new(&body[..]) {
            Ok(decoder) => read(decoder, max_bytes),
            Err(_) => return Err(DecodeError::Damaged),
        },
        _ => return Err(DecodeError::Unknown),
    };
    let decoded = decoded.map_err(|_| DecodeError::Damaged)?;
    match decoded.len() > max_bytes {
        true => Err(DecodeError::TooLong),
        false => Ok(Bytes::from(decoded)),
    }
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
            let short = decode(&headers(name), body, text.len() - 1);
            assert_eq!(short, Err(DecodeError::TooLong), "{name}");
            let damaged = decode(&headers(name), &body.slice(..20), text.len());
            assert_eq!(damaged, Err(DecodeError::Damaged), "{name}");
        }
        assert_eq!(decode(&HeaderMap::new(), &gzip, 0).unwrap(), gzip);
        for unknown in ["br", "gzip, gzip"] {
            assert_eq!(decode(&headers(unknown), &gzip, 1 << 20), Err(DecodeError::Unknown));
        }
    }
}
