//! Reads safetensors files: a length, that many bytes of JSON with the names, types and places of tensors, then numbers.
//!
//! The file comes from somebody else. Every length in it is checked against what is there before it is used, and the
//! tensors must fill the file without gaps and without sharing bytes, as the format demands: nothing can be hidden in it,
//! and nothing in it can be asked for twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The most bytes of a file, and of the JSON at its beginning.
pub(crate) const LARGEST_FILE: u64 = 4 << 30;
const LARGEST_HEADER: u64 = 16 << 20;

const LENGTH_BYTES: usize = 8;

/// The tensors of a file.
pub(crate) struct Tensors {
    bytes: Vec<u8>,
    /// Where the numbers begin.
    start: usize,
    entries: BTreeMap<String, Entry>,
}

/// A tensor, as the file describes it.
#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// All of them, each name once.
struct Header(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor for each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    match entries.entry(name) {
                        Slot::Vacant(slot) => {
                            slot.insert(map.next_value()?);
                        }
                        Slot::Occupied(slot) => {
                            let problem = format!("the tensor {:?} is there twice", slot.key());
                            return Err(A::Error::custom(problem));
                        }
                    }
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

impl Tensors {
    /// The tensors of a file's bytes, or what is wrong with them.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let not_one = "it is not a safetensors file; fetch it again";
        let Some(length) = bytes.first_chunk::<LENGTH_BYTES>().copied().map(u64::from_le_bytes)
        else {
            return Err(format!("it has only {} bytes; {not_one}", bytes.len()));
        };
        if length > LARGEST_HEADER {
            return Err(format!(
                "its header would have {length} bytes, and at most {LARGEST_HEADER} are read; {not_one}"
            ));
        }
        // It is at most the largest header, so it fits.
        let length = length as usize;
        let Some(header) = bytes.get(LENGTH_BYTES..LENGTH_BYTES + length) else {
            return Err(format!(
                "its header should have {length} bytes, and the file ends before; {not_one}"
            ));
        };
        let Header(entries) = serde_json::from_slice(header)
            .map_err(|error| format!("its header cannot be read: {error}; {not_one}"))?;
        let start = LENGTH_BYTES + length;
        check_places(&entries, (bytes.len() - start) as u64)?;
        Ok(Self { bytes, start, entries })
    }

    /// All bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The names of the tensors and their shapes, in order of the names.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.shape.as_slice()))
    }

    /// The numbers of a tensor of a shape, of which some lengths may be left open; and how long those are.
    pub(crate) fn numbers<const RANK: usize>(
        &self,
        name: &str,
        expected: [Option<usize>; RANK],
    ) -> Result<(Vec<f32>, [usize; RANK]), String> {
        let Some(entry) = self.entries.get(name) else {
            return Err(format!(
                "it has no tensor {name:?} (of the shape {}); give the file of the right model",
                shape_text(&expected.map(|length| length.map(|length| length as u64)))
            ));
        };
        let fits = entry.shape.len() == RANK
            && entry
                .shape
                .iter()
                .zip(expected)
                .all(|(&found, expected)| expected.is_none_or(|length| length as u64 == found));
        let found: Option<Vec<usize>> =
            entry.shape.iter().map(|&length| usize::try_from(length).ok()).collect();
        let (true, Some(Ok(shape))) = (fits, found.map(<[usize; RANK]>::try_from)) else {
            let found: Vec<_> = entry.shape.iter().copied().map(Some).collect();
            return Err(format!(
                "the tensor {name:?} should have the shape {}, and has {}; give the file of the right model",
                shape_text(&expected.map(|length| length.map(|length| length as u64))),
                shape_text(&found)
            ));
        };
        let numbers = self.convert(entry).ok_or_else(|| {
            format!(
                "the tensor {name:?} holds numbers of the type {:?}; F32, F16 and BF16 can be read",
                entry.dtype
            )
        })?;
        if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(format!(
                "the tensor {name:?} holds {} at place {place}, which is no number; fetch the file again",
                numbers[place]
            ));
        }
        Ok((numbers, shape))
    }

    fn convert(&self, entry: &Entry) -> Option<Vec<f32>> {
        let [begin, end] = entry.data_offsets.map(|offset| usize::try_from(offset).ok());
        let bytes = self.bytes.get(self.start..)?.get(begin?..end?)?;
        match entry.dtype.as_str() {
            "F32" => {
                let (numbers, _) = bytes.as_chunks::<4>();
                Some(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
            }
            "F16" => {
                let (numbers, _) = bytes.as_chunks::<2>();
                Some(numbers.iter().map(|&bytes| from_half(u16::from_le_bytes(bytes))).collect())
            }
            "BF16" => {
                let (numbers, _) = bytes.as_chunks::<2>();
                let widen = |&bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
                Some(numbers.iter().map(widen).collect())
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensors").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// Whether each tensor has as many bytes as its shape says, and all of them in a row fill what is there.
fn check_places(entries: &BTreeMap<String, Entry>, available: u64) -> Result<(), String> {
    let mut in_order: Vec<_> = entries.iter().collect();
    in_order.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut next = 0;
    for (name, entry) in in_order {
        let [begin, end] = entry.data_offsets;
        if begin != next || end < begin || end > available {
            return Err(format!(
                "the tensor {name:?} should lie at the bytes {begin} to {end}, and the next that is free of {available} is {next}; fetch the file again"
            ));
        }
        // Of types that are not read, only the place is known.
        let Some(width) = bytes_each(&entry.dtype) else {
            next = end;
            continue;
        };
        let expected =
            entry.shape.iter().try_fold(width, |product, &length| product.checked_mul(length));
        if expected != Some(end - begin) {
            let shape: Vec<_> = entry.shape.iter().copied().map(Some).collect();
            return Err(format!(
                "the tensor {name:?} has {} bytes, which is not what its shape {} says; fetch the file again",
                end - begin,
                shape_text(&shape)
            ));
        }
        next = end;
    }
    if next != available {
        return Err(format!(
            "its tensors end at byte {next} of {available}; it was cut or added to, fetch it again"
        ));
    }
    Ok(())
}

fn bytes_each(dtype: &str) -> Option<u64> {
    match dtype {
        "F32" => Some(4),
        "F16" | "BF16" => Some(2),
        _ => None,
    }
}

/// A shape as people write it; a length that may be any is written `n`.
fn shape_text(shape: &[Option<u64>]) -> String {
    // A rank that no tensor has is not worth a line of megabytes.
    const SHOWN: usize = 8;
    let mut lengths: Vec<String> = shape
        .iter()
        .take(SHOWN)
        .map(|length| length.map_or_else(|| "n".to_owned(), |length| length.to_string()))
        .collect();
    if shape.len() > SHOWN {
        lengths.push("...".to_owned());
    }
    format!("[{}]", lengths.join(", "))
}

/// The number that 16 bits are in IEEE 754, exactly.
fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        // No number this small is too small for 32 bits: count in steps of 2⁻²⁴, which is exact.
        0 => {
            let magnitude = fraction as f32 * (1.0 / 16_777_216.0);
            f32::from_bits(sign | magnitude.to_bits())
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Written, safetensors};

    fn sample() -> Vec<u8> {
        safetensors(&[
            Written::new("a", &[2, 3], vec![1.0, -2.0, 3.5, 0.0, 1e-40, -7.25]),
            Written::new("b", &[1], vec![9.0]),
        ])
    }

    fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    /// Reads everything that can be read.
    fn exhaust(bytes: Vec<u8>) {
        let Ok(tensors) = Tensors::parse(bytes) else { return };
        for (name, _) in tensors.shapes() {
            let _ = tensors.numbers(name, []);
            let _ = tensors.numbers(name, [None]);
            let _ = tensors.numbers(name, [None, None]);
            let _ = tensors.numbers(name, [Some(2), None]);
        }
    }

    #[test]
    fn tensors_read_back() {
        let tensors = Tensors::parse(sample()).unwrap();
        let (numbers, shape) = tensors.numbers("a", [Some(2), None]).unwrap();
        assert_eq!((numbers, shape), (vec![1.0, -2.0, 3.5, 0.0, 1e-40, -7.25], [2, 3]));
        assert_eq!(tensors.numbers("b", [Some(1)]).unwrap().0, [9.0]);
        assert_eq!(tensors.shapes().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn another_tensor_is_refused_by_name_and_shape() {
        let tensors = Tensors::parse(sample()).unwrap();
        let refused = [
            (
                tensors.numbers("a", [None, Some(4)]),
                "the tensor \"a\" should have the shape [n, 4], and has [2, 3]; give the file of the right model",
            ),
            (
                tensors.numbers("c", [Some(1), Some(4)]),
                "it has no tensor \"c\" (of the shape [1, 4]); give the file of the right model",
            ),
        ];
        for (result, expected) in refused {
            assert_eq!(result.unwrap_err(), expected);
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let bytes = safetensors(&[Written::new("a", &[2], vec![1.0, f32::NAN])]);
        let problem = Tensors::parse(bytes).unwrap().numbers("a", [None]).unwrap_err();
        assert_eq!(
            problem,
            "the tensor \"a\" holds NaN at place 1, which is no number; fetch the file again"
        );
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let cases: &[(&str, usize, &str)] = &[
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#, 8, "not what its shape"),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 3, "should lie at"),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8, "should lie at"),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, 4, "should lie at"),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 5, "cut or added to"),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}"#,
                0,
                "not what its shape [4294967296, 4294967296, 4] says",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                4,
                "should lie at",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#,
                0,
                "\"a\" is there twice",
            ),
            (r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4, "cannot be read"),
            (r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4, "missing field"),
            ("[]", 0, "cannot be read"),
            ("", 0, "cannot be read"),
        ];
        for (header, data, expected) in cases {
            let problem = Tensors::parse(with_header(header, &vec![0; *data])).unwrap_err();
            assert!(problem.contains(expected), "{header}: {problem}");
        }
        let huge = u64::MAX.to_le_bytes().to_vec();
        assert!(Tensors::parse(huge).unwrap_err().contains("at most"));
        let short = 100_u64.to_le_bytes().to_vec();
        assert!(Tensors::parse(short).unwrap_err().contains("ends before"));
        assert!(Tensors::parse(vec![1, 2, 3]).unwrap_err().contains("only 3 bytes"));
    }

    #[test]
    fn types_that_are_not_read_do_no_harm() {
        let header = r#"{"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
        let mut data = vec![0; 8];
        data.extend_from_slice(&2.5_f32.to_le_bytes());
        let tensors = Tensors::parse(with_header(header, &data)).unwrap();
        assert_eq!(tensors.numbers("x", [None]).unwrap().0, [2.5]);
        assert_eq!(
            tensors.numbers("i", [None]).unwrap_err(),
            "the tensor \"i\" holds numbers of the type \"I64\"; F32, F16 and BF16 can be read"
        );
    }

    #[test]
    fn half_numbers_are_exact() {
        for bits in 0..=u16::MAX {
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
            let expected = match exponent {
                0 => sign * fraction * 2_f64.powi(-24),
                31 if fraction == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                _ => sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
            };
            let found = f64::from(from_half(bits));
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:04x}");
            assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
        }
    }

    #[test]
    fn short_types_read_as_numbers() {
        let header = r#"{"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}}"#;
        let mut data = Vec::new();
        for bits in [0x3c00_u16, 0xc500, 0x3f80, 0xc0a0] {
            data.extend_from_slice(&bits.to_le_bytes());
        }
        let tensors = Tensors::parse(with_header(header, &data)).unwrap();
        assert_eq!(tensors.numbers("h", [Some(2)]).unwrap().0, [1.0, -5.0]);
        assert_eq!(tensors.numbers("b", [Some(2)]).unwrap().0, [1.0, -5.0]);
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let bytes = sample();
        for length in 0..bytes.len() {
            assert!(Tensors::parse(bytes[..length].to_vec()).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            exhaust(bytes);
        }

        #[test]
        fn any_header_is_read_or_refused(header in "[\\[\\]{}\":,0-9a-z]{0,80}") {
            exhaust(with_header(&header, &[0; 16]));
        }

        #[test]
        fn changed_bytes_are_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sample();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            exhaust(bytes.clone());
            bytes.truncate(cut.index(bytes.len()));
            exhaust(bytes);
        }

        #[test]
        fn places_and_shapes_are_read_or_refused(
            shape in prop::collection::vec(any::<u64>(), 0..4),
            begin in prop_oneof![Just(0_u64), any::<u64>()],
            end in prop_oneof![0_u64..20, any::<u64>()],
        ) {
            let header = format!(r#"{{"a":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{begin},{end}]}}}}"#);
            exhaust(with_header(&header, &[0; 16]));
        }
    }
}
