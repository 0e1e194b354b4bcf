//! The weights of a model, from a safetensors file.
//!
//! The `safetensors` crate parses the header and checks that the tensors fill the file without gaps or overlaps. Three checks
//! are added here: a tighter bound of the header, unique names (the format demands them, the crate keeps the last), and the
//! names and shapes that a model expects. Numbers are converted to 32 bits, and must be finite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The maximum size of a file.
pub(crate) const MAX_WEIGHTS_BYTES: u64 = 4 << 30;
/// The maximum size of the header.
const MAX_HEADER_BYTES: u64 = 16 << 20;

const LENGTH_BYTES: usize = 8;

/// The tensors of a file.
pub(crate) struct Tensors {
    bytes: Vec<u8>,
    /// Where the header ends and the data of the tensors begins.
    data_start: usize,
    infos: BTreeMap<String, TensorInfo>,
}

/// A JSON object without duplicate keys.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = UniqueKeys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor for each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys, A::Error> {
                let mut keys = BTreeSet::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
                    if let Some(duplicate) = keys.replace(key) {
                        return Err(A::Error::custom(format!("duplicate tensor {duplicate:?}")));
                    }
                }
                Ok(UniqueKeys)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

impl Tensors {
    /// Parses the bytes of a file, or returns what is wrong with them.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let length = bytes.first_chunk::<LENGTH_BYTES>().copied().map(u64::from_le_bytes);
        if let Some(length) = length.filter(|length| *length > MAX_HEADER_BYTES) {
            return Err(format!(
                "its header claims {length} bytes, but the limit is {MAX_HEADER_BYTES}; download the file again"
            ));
        }
        let (header_bytes, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|error| describe(&error, bytes.len()))?;
        let data_start = LENGTH_BYTES + header_bytes;
        let header = bytes.get(LENGTH_BYTES..data_start).unwrap_or_default();
        serde_json::from_slice::<UniqueKeys>(header)
            .map_err(|error| format!("its header is invalid: {error}; download the file again"))?;
        let infos = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone()));
        Ok(Self { infos: infos.collect(), bytes, data_start })
    }

    /// Returns all bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the names and shapes of the tensors, ordered by name.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.infos.iter().map(|(name, info)| (name.as_str(), info.shape.as_slice()))
    }

    /// Returns the numbers and the shape of a tensor, whose lengths must be those of `expected`; `None` allows any.
    pub(crate) fn tensor_f32<const RANK: usize>(
        &self,
        name: &str,
        expected: [Option<usize>; RANK],
    ) -> Result<(Vec<f32>, [usize; RANK]), String> {
        let Some(info) = self.infos.get(name) else {
            return Err(format!(
                "it has no tensor {name:?} of the shape {}; use the weights of the configured model",
                display_shape(&expected)
            ));
        };
        let shape = <[usize; RANK]>::try_from(info.shape.as_slice()).ok().filter(|shape| {
            shape
                .iter()
                .zip(expected)
                .all(|(length, expected)| expected.is_none_or(|e| e == *length))
        });
        let Some(shape) = shape else {
            let actual: Vec<_> = info.shape.iter().copied().map(Some).collect();
            return Err(format!(
                "the tensor {name:?} has the shape {} instead of {}; use the weights of the configured model",
                display_shape(&actual),
                display_shape(&expected)
            ));
        };
        let numbers = self.convert(info).ok_or_else(|| {
            format!(
                "the tensor {name:?} has the type {:?}; F32, F16 and BF16 are supported",
                info.dtype
            )
        })?;
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(format!(
                "the tensor {name:?} contains {} at index {index}; download the file again",
                numbers[index]
            ));
        }
        Ok((numbers, shape))
    }

    /// Converts the numbers of a tensor to 32 bits, if its type is a supported one.
    fn convert(&self, info: &TensorInfo) -> Option<Vec<f32>> {
        let (begin, end) = info.data_offsets;
        let bytes = self.bytes.get(self.data_start..)?.get(begin..end)?;
        match info.dtype {
            Dtype::F32 => {
                let (numbers, _) = bytes.as_chunks::<4>();
                Some(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
            }
            Dtype::F16 => {
                let (numbers, _) = bytes.as_chunks::<2>();
                Some(numbers.iter().map(|&bytes| f16_to_f32(u16::from_le_bytes(bytes))).collect())
            }
            Dtype::BF16 => {
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
        f.debug_struct("Tensors").field("infos", &self.infos).finish_non_exhaustive()
    }
}

/// Describes an error of the header in terms of the file.
fn describe(error: &SafeTensorError, file_bytes: usize) -> String {
    let problem = match error {
        SafeTensorError::HeaderTooSmall => format!("it has only {file_bytes} bytes"),
        SafeTensorError::InvalidHeaderLength => {
            format!("its header is longer than the file, which has {file_bytes} bytes")
        }
        SafeTensorError::InvalidOffset(name) => {
            format!("the tensor {name:?} does not start where the previous one ends")
        }
        SafeTensorError::TensorInvalidInfo
        | SafeTensorError::ValidationOverflow
        | SafeTensorError::MisalignedSlice => {
            "the size of a tensor does not match its shape and type".to_owned()
        }
        SafeTensorError::MetadataIncompleteBuffer => {
            "its tensors do not end where the file ends, so it is truncated or has extra bytes"
                .to_owned()
        }
        other => format!("its header is invalid: {other}"),
    };
    format!("{problem}; download the file again")
}

/// Formats a shape; `n` means any length.
fn display_shape(shape: &[Option<usize>]) -> String {
    // A malformed header may claim thousands of dimensions.
    const MAX_SHOWN: usize = 8;
    let mut lengths: Vec<String> = shape
        .iter()
        .take(MAX_SHOWN)
        .map(|length| length.map_or_else(|| "n".to_owned(), |length| length.to_string()))
        .collect();
    if shape.len() > MAX_SHOWN {
        lengths.push("...".to_owned());
    }
    format!("[{}]", lengths.join(", "))
}

/// Converts an IEEE 754 half-precision number, which is exact.
fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        // Subnormal: a multiple of 2⁻²⁴, which is a normal number in 32 bits.
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
    use crate::testing::{TestTensor, safetensors};

    fn sample() -> Vec<u8> {
        safetensors(&[
            TestTensor::new("a", &[2, 3], vec![1.0, -2.0, 3.5, 0.0, 1e-40, -7.25]),
            TestTensor::new("b", &[1], vec![9.0]),
        ])
    }

    fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    /// Reads all tensors of a file, in all ways.
    fn read_all(bytes: Vec<u8>) {
        let Ok(tensors) = Tensors::parse(bytes) else { return };
        for (name, _) in tensors.shapes() {
            let _ = tensors.tensor_f32(name, []);
            let _ = tensors.tensor_f32(name, [None]);
            let _ = tensors.tensor_f32(name, [None, None]);
            let _ = tensors.tensor_f32(name, [Some(2), None]);
        }
    }

    #[test]
    fn tensors_roundtrip() {
        let tensors = Tensors::parse(sample()).unwrap();
        let (numbers, shape) = tensors.tensor_f32("a", [Some(2), None]).unwrap();
        assert_eq!((numbers, shape), (vec![1.0, -2.0, 3.5, 0.0, 1e-40, -7.25], [2, 3]));
        assert_eq!(tensors.tensor_f32("b", [Some(1)]).unwrap().0, [9.0]);
        assert_eq!(tensors.shapes().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn missing_and_misshapen_tensors_are_rejected_by_name() {
        let tensors = Tensors::parse(sample()).unwrap();
        let rejected = [
            (
                tensors.tensor_f32("a", [None, Some(4)]),
                "the tensor \"a\" has the shape [2, 3] instead of [n, 4]; use the weights of the configured model",
            ),
            (
                tensors.tensor_f32("c", [Some(1), Some(4)]),
                "it has no tensor \"c\" of the shape [1, 4]; use the weights of the configured model",
            ),
        ];
        for (result, expected) in rejected {
            assert_eq!(result.unwrap_err(), expected);
        }
    }

    #[test]
    fn non_finite_numbers_are_rejected() {
        let bytes = safetensors(&[TestTensor::new("a", &[2], vec![1.0, f32::NAN])]);
        let problem = Tensors::parse(bytes).unwrap().tensor_f32("a", [None]).unwrap_err();
        assert_eq!(problem, "the tensor \"a\" contains NaN at index 1; download the file again");
    }

    #[test]
    fn inconsistent_headers_are_rejected() {
        let cases: &[(&str, usize, &str)] = &[
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#,
                8,
                "does not match its shape",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                3,
                "do not end where the file ends",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
                8,
                "\"a\" does not start where",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
                4,
                "\"a\" does not start where",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                5,
                "truncated or has extra bytes",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}"#,
                0,
                "does not match its shape",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                4,
                "does not start where the previous one ends",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#,
                0,
                "duplicate tensor \"a\"",
            ),
            (r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4, "header is invalid"),
            (r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4, "missing field"),
            ("[]", 0, "header is invalid"),
            ("", 0, "header is invalid"),
        ];
        for (header, data, expected) in cases {
            let problem = Tensors::parse(with_header(header, &vec![0; *data])).unwrap_err();
            assert!(problem.contains(expected), "{header}: {problem}");
        }
        let huge = u64::MAX.to_le_bytes().to_vec();
        assert!(Tensors::parse(huge).unwrap_err().contains("but the limit is"));
        let short = 100_u64.to_le_bytes().to_vec();
        assert!(Tensors::parse(short).unwrap_err().contains("longer than the file"));
        assert!(Tensors::parse(vec![1, 2, 3]).unwrap_err().contains("only 3 bytes"));
    }

    #[test]
    fn unsupported_types_do_no_harm_until_they_are_read() {
        let header = r#"{"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
        let mut data = vec![0; 8];
        data.extend_from_slice(&2.5_f32.to_le_bytes());
        let tensors = Tensors::parse(with_header(header, &data)).unwrap();
        assert_eq!(tensors.tensor_f32("x", [None]).unwrap().0, [2.5]);
        assert_eq!(
            tensors.tensor_f32("i", [None]).unwrap_err(),
            "the tensor \"i\" has the type I64; F32, F16 and BF16 are supported"
        );
    }

    #[test]
    fn f16_conversion_is_exact() {
        for bits in 0..=u16::MAX {
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
            let expected = match exponent {
                0 => sign * fraction * 2_f64.powi(-24),
                31 if fraction == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                _ => sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
            };
            let converted = f64::from(f16_to_f32(bits));
            assert!(converted == expected || converted.is_nan() && expected.is_nan(), "{bits:04x}");
            assert_eq!(converted.is_sign_negative(), bits >> 15 == 1);
        }
    }

    #[test]
    fn f16_and_bf16_tensors_are_read() {
        let header = r#"{"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}}"#;
        let mut data = Vec::new();
        for bits in [0x3c00_u16, 0xc500, 0x3f80, 0xc0a0] {
            data.extend_from_slice(&bits.to_le_bytes());
        }
        let tensors = Tensors::parse(with_header(header, &data)).unwrap();
        assert_eq!(tensors.tensor_f32("h", [Some(2)]).unwrap().0, [1.0, -5.0]);
        assert_eq!(tensors.tensor_f32("b", [Some(2)]).unwrap().0, [1.0, -5.0]);
    }

    #[test]
    fn truncated_files_are_rejected() {
        let bytes = sample();
        for length in 0..bytes.len() {
            assert!(Tensors::parse(bytes[..length].to_vec()).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read_all(bytes);
        }

        #[test]
        fn any_header_is_read_or_rejected(header in "[\\[\\]{}\":,0-9a-z]{0,80}") {
            read_all(with_header(&header, &[0; 16]));
        }

        #[test]
        fn changed_bytes_are_read_or_rejected(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sample();
            for (index, byte) in changes {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            read_all(bytes.clone());
            bytes.truncate(cut.index(bytes.len()));
            read_all(bytes);
        }

        #[test]
        fn any_offsets_and_shapes_are_read_or_rejected(
            shape in prop::collection::vec(any::<u64>(), 0..4),
            begin in prop_oneof![Just(0_u64), any::<u64>()],
            end in prop_oneof![0_u64..20, any::<u64>()],
        ) {
            let header = format!(r#"{{"a":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{begin},{end}]}}}}"#);
            read_all(with_header(&header, &[0; 16]));
        }
    }
}
