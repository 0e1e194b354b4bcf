//! Embeddings by all-MiniLM-L6-v2 and models of its architecture: a small BERT with mean pooling.
//!
//! A text is truncated to 256 word pieces including `[CLS]` and `[SEP]`, as the model was trained. Longer texts should be
//! split into chunks first.

use std::fmt;
use std::path::{Path, PathBuf};

use pannier_docs::{Embedder, EmbedderError, Model};
use rayon::prelude::*;

use crate::bert::{Bert, Config};
use crate::model_folder::{MAX_CONFIG_BYTES, ModelFolder};
use crate::simd::SimdLevel;
use crate::tokenizer::ModelTokenizer;
use crate::{EmbedError, hashed_model, quantize_or_zero};

/// The version of the computation, part of the model hash. Any change of the vectors must change it.
const EMBEDDING_VERSION: &str = "2: fused products, [CLS] and [SEP] around, at most 256 pieces, mean over all, length 1 as 32767";

/// The maximum number of word pieces of a text, including `[CLS]` and `[SEP]`.
const MAX_WORDPIECES: usize = 256;

const CONFIG: &str = "config.json";

/// Computes vectors with all-MiniLM-L6-v2, or a model of its architecture.
pub struct MiniLmEmbedder {
    model: Model,
    path: PathBuf,
    tokenizer: ModelTokenizer,
    cls: u32,
    sep: u32,
    /// The maximum number of word pieces between `[CLS]` and `[SEP]`.
    max_text_wordpieces: usize,
    bert: Bert,
    simd: SimdLevel,
}

impl MiniLmEmbedder {
    /// Opens a folder with the model's safetensors file and its `tokenizer.json`. A `config.json` gives the sizes of the
    /// model; without it they are those of all-MiniLM-L6-v2.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if the folder or a file is missing, unreadable, malformed or of another model.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let folder = ModelFolder::open(folder.as_ref())?;
        let (path, tensors) = folder.weights()?;
        let (tokenizer, tokenizer_bytes) = ModelTokenizer::read(&folder)?;
        let config = match folder.read_optional(CONFIG, MAX_CONFIG_BYTES)? {
            Some(bytes) => Config::parse(&bytes)
                .map_err(|problem| EmbedError::invalid(&folder.file(CONFIG), problem))?,
            None => Config::default(),
        };
        let invalid = |problem: String| EmbedError::invalid(&path, problem);
        let bert = Bert::read(&tensors, &config).map_err(invalid)?;
        let (cls, sep) = (tokenizer.token_id("[CLS]")?, tokenizer.token_id("[SEP]")?);
        tokenizer.check_rows(bert.vocab_size())?;
        let max_text_wordpieces = MAX_WORDPIECES.min(bert.max_positions()).saturating_sub(2);
        if max_text_wordpieces == 0 {
            return Err(invalid(format!(
                "it has {} positions, but a text of one word needs 3",
                bert.max_positions()
            )));
        }
        // Only the relevant settings are hashed: a file with the default values and no file are the same model.
        let version = format!(
            "{EMBEDDING_VERSION}; {}; {}",
            config.embedding_version(),
            crate::tokenizer::VERSION
        );
        let files: [&[u8]; 2] = [tensors.bytes(), &tokenizer_bytes];
        let model = hashed_model("minilm", &version, &files, bert.dimensions());
        Ok(Self {
            model,
            path,
            tokenizer,
            cls,
            sep,
            max_text_wordpieces,
            bert,
            simd: SimdLevel::detect(),
        })
    }

    fn vector(&self, text: &str) -> Result<Vec<i16>, EmbedError> {
        let mut wordpieces = self.tokenizer.encode(text)?;
        if wordpieces.is_empty() {
            return Ok(vec![0; self.bert.dimensions()]);
        }
        wordpieces.truncate(self.max_text_wordpieces);
        wordpieces.insert(0, self.cls);
        wordpieces.push(self.sep);
        let Some(mean) = self.bert.mean_pool(&wordpieces, self.simd) else {
            return Err(EmbedError::invalid(
                self.tokenizer.path(),
                "it returned a token id that the weights have no row for",
            ));
        };
        quantize_or_zero(&mean, &self.path)
    }
}

impl Embedder for MiniLmEmbedder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        // Collected first, so that the error is that of the first text that fails.
        let vectors: Vec<_> = texts.par_iter().map(|text| self.vector(text)).collect();
        Ok(vectors.into_iter().collect::<Result<_, _>>()?)
    }
}

impl fmt::Debug for MiniLmEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiniLmEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rayon::ThreadPoolBuilder;

    use super::*;
    use crate::testing::{Scratch, TestTensor, random, tokenizer};

    const WORDS: [&str; 8] = ["[UNK]", "[CLS]", "[SEP]", "deploy", "on", "fridays", "##s", "lunch"];
    const TEXTS: [&str; 6] =
        ["", "deploy", "deploys on fridays", "lunch", "never on fridays on lunch", "  \n "];

    /// Sizes of a small model whose columns and rows do not fill panels and tiles.
    #[derive(Clone, Copy)]
    struct Sizes {
        hidden: usize,
        heads: usize,
        wide: usize,
        layers: usize,
        positions: usize,
    }

    const SMALL: Sizes = Sizes { hidden: 20, heads: 2, wide: 34, layers: 2, positions: 9 };

    fn tensors(sizes: Sizes) -> Vec<TestTensor> {
        let Sizes { hidden, wide, .. } = sizes;
        let mut tensors = Vec::new();
        let mut add = |name: String, shape: &[usize]| {
            let seed = tensors.len() as u64 + 1;
            let numbers = random(shape.iter().product(), seed);
            tensors.push(TestTensor::new(name, shape, numbers));
        };
        add("embeddings.word_embeddings.weight".to_owned(), &[WORDS.len(), hidden]);
        add("embeddings.position_embeddings.weight".to_owned(), &[sizes.positions, hidden]);
        add("embeddings.token_type_embeddings.weight".to_owned(), &[2, hidden]);
        let norm = |name: &str, add: &mut dyn FnMut(String, &[usize])| {
            add(format!("{name}.weight"), &[hidden]);
            add(format!("{name}.bias"), &[hidden]);
        };
        norm("embeddings.LayerNorm", &mut add);
        for layer in 0..sizes.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            for (part, outputs, inputs) in [
                ("attention.self.query", hidden, hidden),
                ("attention.self.key", hidden, hidden),
                ("attention.self.value", hidden, hidden),
                ("attention.output.dense", hidden, hidden),
                ("intermediate.dense", wide, hidden),
                ("output.dense", hidden, wide),
            ] {
                add(format!("{}.weight", name(part)), &[outputs, inputs]);
                add(format!("{}.bias", name(part)), &[outputs]);
            }
            norm(&name("attention.output.LayerNorm"), &mut add);
            norm(&name("output.LayerNorm"), &mut add);
        }
        tensors
    }

    fn config(sizes: Sizes) -> serde_json::Value {
        serde_json::json!({
            "model_type": "bert", "hidden_act": "gelu", "vocab_size": WORDS.len(),
            "hidden_size": sizes.hidden, "intermediate_size": sizes.wide,
            "num_attention_heads": sizes.heads, "num_hidden_layers": sizes.layers,
            "layer_norm_eps": 1e-12,
        })
    }

    fn folder(sizes: Sizes) -> Scratch {
        let folder = Scratch::new("minilm");
        folder.weights("model.safetensors", &tensors(sizes));
        folder.write("tokenizer.json", tokenizer(&WORDS).as_bytes());
        folder.write("config.json", config(sizes).to_string().as_bytes());
        folder
    }

    /// The reference computation: plain loops in 64 bits.
    fn reference(sizes: Sizes, tokens: &[usize]) -> Vec<f64> {
        type Rows = Vec<Vec<f64>>;
        let tensors = tensors(sizes);
        let numbers = |name: &str| -> Vec<f64> {
            let tensor = tensors.iter().find(|tensor| tensor.name == name).unwrap();
            tensor.numbers.iter().map(|&number| f64::from(number)).collect()
        };
        let linear = |rows: &Rows, name: &str| -> Rows {
            let (weight, bias) =
                (numbers(&format!("{name}.weight")), numbers(&format!("{name}.bias")));
            let one = |row: &Vec<f64>| {
                let columns = weight.chunks(row.len()).zip(&bias);
                columns
                    .map(|(column, bias)| {
                        bias + row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>()
                    })
                    .collect()
            };
            rows.iter().map(one).collect()
        };
        let norm = |rows: Rows, name: &str| -> Rows {
            let (weight, bias) =
                (numbers(&format!("{name}.weight")), numbers(&format!("{name}.bias")));
            let one = |row: Vec<f64>| {
                let count = row.len() as f64;
                let mean = row.iter().sum::<f64>() / count;
                let variance = row.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / count;
                let deviation = (variance + 1e-12).sqrt();
                row.iter()
                    .zip(weight.iter().zip(&bias))
                    .map(|(n, (weight, bias))| (n - mean) / deviation * weight + bias)
                    .collect()
            };
            rows.into_iter().map(one).collect()
        };
        let plus = |a: Rows, b: &Rows| -> Rows {
            let one = |(a, b): (Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
            a.into_iter().zip(b).map(one).collect()
        };
        let erf = |x: f64| {
            let (mut term, mut sum) = (x, x);
            for n in 1..300 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            if x.abs() > 5.0 { x.signum() } else { sum * std::f64::consts::FRAC_2_SQRT_PI }
        };
        let words = numbers("embeddings.word_embeddings.weight");
        let positions = numbers("embeddings.position_embeddings.weight");
        let types = numbers("embeddings.token_type_embeddings.weight");
        let rows = tokens.iter().enumerate().map(|(position, token)| {
            let number = |index: usize| {
                words[token * sizes.hidden + index]
                    + types[index]
                    + positions[position * sizes.hidden + index]
            };
            (0..sizes.hidden).map(number).collect()
        });
        let mut hidden = norm(rows.collect(), "embeddings.LayerNorm");
        let size = sizes.hidden / sizes.heads;
        for layer in 0..sizes.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let [queries, keys, values] = ["query", "key", "value"]
                .map(|part| linear(&hidden, &name(&format!("attention.self.{part}"))));
            let mut attended = vec![vec![0.0; sizes.hidden]; tokens.len()];
            for head in 0..sizes.heads {
                let range = head * size..(head + 1) * size;
                for (query, attended) in queries.iter().zip(&mut attended) {
                    let score = |key: &Vec<f64>| {
                        let products = query[range.clone()].iter().zip(&key[range.clone()]);
                        (products.map(|(a, b)| a * b).sum::<f64>() / (size as f64).sqrt()).exp()
                    };
                    let powers: Vec<f64> = keys.iter().map(score).collect();
                    let sum: f64 = powers.iter().sum();
                    for (power, value) in powers.iter().zip(&values) {
                        for index in range.clone() {
                            attended[index] += power / sum * value[index];
                        }
                    }
                }
            }
            let middle = linear(&attended, &name("attention.output.dense"));
            let middle = norm(plus(middle, &hidden), &name("attention.output.LayerNorm"));
            let mut wide = linear(&middle, &name("intermediate.dense"));
            for number in wide.iter_mut().flatten() {
                *number = 0.5 * *number * (1.0 + erf(*number / 2_f64.sqrt()));
            }
            let last = linear(&wide, &name("output.dense"));
            hidden = norm(plus(last, &middle), &name("output.LayerNorm"));
        }
        let mean =
            |index: usize| hidden.iter().map(|row| row[index]).sum::<f64>() / hidden.len() as f64;
        (0..sizes.hidden).map(mean).collect()
    }

    #[test]
    fn vectors_equal_the_reference() {
        let folder = folder(SMALL);
        let minilm = MiniLmEmbedder::open(folder.path()).unwrap();
        assert_eq!((minilm.model().name.as_str(), minilm.model().dimensions), ("minilm", 20));
        let cases: [(&str, &[usize]); 4] = [
            ("deploy", &[1, 3, 2]),
            ("deploys on fridays", &[1, 3, 6, 4, 5, 2]),
            ("unheard lunch", &[1, 0, 7, 2]),
            // Nine positions, two of them for [CLS] and [SEP].
            ("on on on on on on deploy lunch", &[1, 4, 4, 4, 4, 4, 4, 3, 2]),
        ];
        for (text, tokens) in cases {
            let vector = minilm.embed(&[text]).unwrap().remove(0);
            let mean = reference(SMALL, tokens);
            let length = mean.iter().map(|number| number * number).sum::<f64>().sqrt();
            for (number, mean) in vector.iter().zip(mean) {
                let expected = mean / length * 32_767.0;
                assert!((f64::from(*number) - expected).abs() < 1.0, "{text}: {number} {expected}");
            }
        }
    }

    #[test]
    fn a_text_without_tokens_gets_zeros() {
        let folder = folder(SMALL);
        let vectors = MiniLmEmbedder::open(folder.path()).unwrap().embed(&TEXTS).unwrap();
        assert_eq!(vectors[0], [0; 20]);
        assert_eq!(vectors[5], [0; 20]);
        assert!(vectors[1..5].iter().all(|vector| *vector != [0; 20]));
    }

    #[test]
    fn threads_other_texts_and_simd_levels_do_not_change_vectors() {
        let folder = folder(SMALL);
        let mut minilm = MiniLmEmbedder::open(folder.path()).unwrap();
        let together = minilm.embed(&TEXTS).unwrap();
        for threads in [1, 2, 5] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| minilm.embed(&TEXTS)).unwrap(), together);
        }
        let reversed: Vec<&str> = TEXTS.into_iter().rev().collect();
        let mut vectors = minilm.embed(&reversed).unwrap();
        vectors.reverse();
        assert_eq!(vectors, together);
        for (text, vector) in TEXTS.iter().zip(&together) {
            assert_eq!(minilm.embed(&[text]).unwrap()[0], *vector);
        }
        // To the bit, before rounding to integers could hide a difference.
        let bits = |simd| {
            let mean = minilm.bert.mean_pool(&[1, 3, 6, 4, 5, 0, 2], simd).unwrap();
            mean.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(bits(SimdLevel::BASELINE), bits(SimdLevel::detect()));
        minilm.simd = SimdLevel::BASELINE;
        assert_eq!(minilm.embed(&TEXTS).unwrap(), together);
    }

    #[test]
    fn the_hash_changes_only_with_relevant_settings() {
        let folder = folder(SMALL);
        let hash = || MiniLmEmbedder::open(folder.path()).unwrap().model().hash.clone();
        let first = hash();
        let changed = |name: &str, value: serde_json::Value| {
            let mut config = config(SMALL);
            config[name] = value;
            folder.write("config.json", config.to_string().as_bytes());
        };
        changed("pad_token_id", 7.into());
        assert_eq!(hash(), first);
        changed("num_attention_heads", 4.into());
        assert_ne!(hash(), first);
        changed("layer_norm_eps", 1e-5.into());
        assert_ne!(hash(), first);
        changed("pad_token_id", 0.into());
        folder.write("tokenizer.json", tokenizer(&WORDS[..7]).as_bytes());
        assert_ne!(hash(), first);
    }

    #[test]
    fn weights_of_another_model_are_rejected_by_tensor_and_shape() {
        let folder = folder(SMALL);
        let error_of = || {
            let error = MiniLmEmbedder::open(folder.path()).unwrap_err();
            assert!(matches!(error, EmbedError::Invalid { .. }), "{error}");
            error.to_string()
        };
        // Without a configuration, the sizes of all-MiniLM-L6-v2 are expected.
        folder.rename("config.json", "other.json");
        let error = error_of();
        let expected = "model.safetensors cannot be used: the tensor \"embeddings.word_embeddings.weight\" has the shape [8, 20] instead of [n, 384]; use the weights of the configured model";
        assert!(error.ends_with(expected), "{error}");
        folder.rename("other.json", "config.json");

        let whole = tensors(SMALL);
        for (index, tensor) in whole.iter().enumerate() {
            let mut without = tensors(SMALL);
            without.remove(index);
            folder.weights("model.safetensors", &without);
            let error = error_of();
            assert!(error.contains(&format!("it has no tensor \"{}\"", tensor.name)), "{error}");

            let mut another = tensors(SMALL);
            another[index].shape.push(2);
            another[index].numbers.extend(tensor.numbers.clone());
            folder.weights("model.safetensors", &another);
            let error = error_of();
            let expected = format!("the tensor \"{}\" has the shape", tensor.name);
            assert!(error.contains(&expected), "{error}");
        }

        folder.weights("model.safetensors", &tensors(Sizes { layers: 3, ..SMALL }));
        let error = error_of();
        assert!(error.contains("the configuration has only 2 layers"), "{error}");
        folder.weights("model.safetensors", &tensors(Sizes { positions: 2, ..SMALL }));
        let error = error_of();
        assert!(error.contains("it has 2 positions"), "{error}");
    }

    #[test]
    fn unsupported_configurations_are_rejected() {
        let folder = folder(SMALL);
        let cases: [(&str, serde_json::Value, &str); 8] = [
            ("hidden_act", "relu".into(), "its hidden_act is \"relu\", but only \"gelu\""),
            ("model_type", "roberta".into(), "its model_type is \"roberta\""),
            ("position_embedding_type", "relative_key".into(), "only \"absolute\""),
            ("num_attention_heads", 3.into(), "is not a multiple of its 3 attention heads"),
            ("num_hidden_layers", 0.into(), "its num_hidden_layers is 0"),
            ("hidden_size", 1_000_000.into(), "must be between 1 and 65536"),
            ("layer_norm_eps", (-1.0).into(), "its layer_norm_eps is -1"),
            ("hidden_size", "many".into(), "it is not the configuration of a model"),
        ];
        for (name, value, expected) in cases {
            let mut config = config(SMALL);
            config[name] = value;
            folder.write("config.json", config.to_string().as_bytes());
            let error = MiniLmEmbedder::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("config.json cannot be used: "), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_tokenizer_of_another_model_is_rejected() {
        let folder = folder(SMALL);
        folder.write("tokenizer.json", tokenizer(&["[UNK]", "[CLS]", "on"]).as_bytes());
        let error = MiniLmEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it has no token [SEP]"), "{error}");
        let many: Vec<&str> = WORDS.into_iter().chain(["more"]).collect();
        folder.write("tokenizer.json", tokenizer(&many).as_bytes());
        let error = MiniLmEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("the weights have only 8 rows"), "{error}");
    }

    #[test]
    fn overflowing_numbers_are_an_error() {
        let folder = folder(SMALL);
        let mut tensors = tensors(SMALL);
        let last = tensors.last_mut().unwrap();
        last.numbers.fill(f32::MAX);
        folder.weights("model.safetensors", &tensors);
        let minilm = MiniLmEmbedder::open(folder.path()).unwrap();
        let error = minilm.embed(&["", "deploy on"]).unwrap_err().to_string();
        assert!(error.contains("so large that a vector overflows"), "{error}");
    }
}
