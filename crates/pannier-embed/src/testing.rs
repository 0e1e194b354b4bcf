//! Small random models for tests, each in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A tensor to write.
pub(crate) struct TestTensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

impl TestTensor {
    pub(crate) fn new(name: impl Into<String>, shape: &[usize], numbers: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), numbers.len());
        Self { name: name.into(), shape: shape.to_vec(), numbers }
    }
}

/// Returns the bytes of a safetensors file.
pub(crate) fn safetensors(tensors: &[TestTensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for tensor in tensors {
        let begin = data.len();
        tensor.numbers.iter().for_each(|number| data.extend_from_slice(&number.to_le_bytes()));
        let entry = serde_json::json!({
            "dtype": "F32", "shape": tensor.shape, "data_offsets": [begin, data.len()],
        });
        header.insert(tensor.name.clone(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&data);
    bytes
}

/// Returns pseudorandom numbers between -1 and 1.
pub(crate) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
    .take(count)
    .collect()
}

/// Returns a `tokenizer.json` with these words, the first of which is the unknown token, and with truncation and padding.
pub(crate) fn tokenizer(words: &[&str]) -> String {
    let vocabulary: serde_json::Map<_, _> = words
        .iter()
        .enumerate()
        .map(|(number, word)| ((*word).to_owned(), number.into()))
        .collect();
    serde_json::json!({
        "version": "1.0",
        "truncation": { "max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": {
            "strategy": { "Fixed": 9 }, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": words[0],
        },
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": words[0], "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary,
        },
    })
    .to_string()
}

/// A temporary folder, removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let path = std::env::temp_dir().join(format!("pannier-embed-{process}-{number}-{name}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    pub(crate) fn weights(&self, name: &str, tensors: &[TestTensor]) {
        self.write(name, &safetensors(tensors));
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.0.join(from), self.0.join(to)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
