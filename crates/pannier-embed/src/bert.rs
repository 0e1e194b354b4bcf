//! The BERT encoder with mean pooling: from token ids to one vector.
//!
//! Only what sentence models of the MiniLM family use is here. Texts are computed one at a time at their own length, so there
//! is no padding and no mask, and no text can affect another. The weights are packed for multiplication once, when a model is
//! opened.

use pannier_docs::Model;
use serde::Deserialize;

use crate::activations::{LayerNorm, add, gelu, softmax};
use crate::matrix::{Panels, Tiles, View};
use crate::simd::{SimdKernel, SimdLevel};
use crate::weights::Tensors;

/// The fields of `config.json` that vectors depend on. Defaults are those of all-MiniLM-L6-v2.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    model_type: String,
    hidden_act: String,
    position_embedding_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    layer_norm_eps: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_type: "bert".to_owned(),
            hidden_act: "gelu".to_owned(),
            position_embedding_type: "absolute".to_owned(),
            hidden_size: 384,
            intermediate_size: 1536,
            num_attention_heads: 12,
            num_hidden_layers: 6,
            layer_norm_eps: 1e-12,
        }
    }
}

impl Config {
    /// The maximum number of layers. It bounds the work that a file can request.
    const MAX_LAYERS: usize = 256;

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let config: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not the configuration of a model: {error}"))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let texts = [
            ("model_type", &self.model_type, "bert"),
            ("hidden_act", &self.hidden_act, "gelu"),
            ("position_embedding_type", &self.position_embedding_type, "absolute"),
        ];
        for (name, value, expected) in texts {
            if value != expected {
                return Err(format!(
                    "its {name} is {value:?}, but only {expected:?} is supported; use a model like all-MiniLM-L6-v2"
                ));
            }
        }
        let numbers = [
            ("hidden_size", self.hidden_size, Model::MAX_DIMENSIONS),
            ("intermediate_size", self.intermediate_size, Model::MAX_DIMENSIONS),
            ("num_attention_heads", self.num_attention_heads, self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers, Self::MAX_LAYERS),
        ];
        for (name, value, max) in numbers {
            if value == 0 || value > max {
                return Err(format!("its {name} is {value}, but must be between 1 and {max}"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "its hidden_size {} is not a multiple of its {} attention heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            return Err(format!(
                "its layer_norm_eps is {}, but must be between 0 and 1",
                self.layer_norm_eps
            ));
        }
        Ok(())
    }

    /// Describes the settings that change vectors without changing the weights. Model hashes contain this text.
    pub(crate) fn embedding_version(&self) -> String {
        let epsilon = (self.layer_norm_eps as f32).to_bits();
        format!(
            "{} layers, {} heads, epsilon {epsilon:08x}",
            self.num_hidden_layers, self.num_attention_heads
        )
    }
}

/// A linear layer: multiplies by the weight and adds the bias.
#[derive(Debug)]
struct Linear {
    panels: Panels,
    bias: Vec<f32>,
    depth: usize,
}

impl Linear {
    fn new(weight: &[f32], bias: Vec<f32>, depth: usize) -> Self {
        let panels = Panels::from_columns(View::of(weight, depth), depth, bias.len());
        Self { panels, bias, depth }
    }

    fn read(tensors: &Tensors, name: &str, outputs: usize, inputs: usize) -> Result<Self, String> {
        let (weight, _) =
            tensors.tensor_f32(&format!("{name}.weight"), [Some(outputs), Some(inputs)])?;
        let (bias, _) = tensors.tensor_f32(&format!("{name}.bias"), [Some(outputs)])?;
        Ok(Self::new(&weight, bias, inputs))
    }

    #[inline(always)]
    fn apply<const ROWS: usize, const FMA: bool>(&self, rows: &[f32], count: usize) -> Vec<f32> {
        let mut result = Vec::with_capacity(count * self.bias.len());
        for _ in 0..count {
            result.extend_from_slice(&self.bias);
        }
        let tiles = Tiles::<ROWS>::from_rows(View::of(rows, self.depth), count, self.depth);
        tiles.multiply::<FMA>(&self.panels, &mut result, self.panels.columns(), 0);
        result
    }
}

/// A layer of the encoder.
struct Layer {
    /// The query, key and value projections in one product.
    query_key_value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

impl Layer {
    fn read(tensors: &Tensors, config: &Config, number: usize) -> Result<Self, String> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let tensor = name(&format!("attention.self.{part}"));
            let shape = [Some(hidden), Some(hidden)];
            weights.extend(tensors.tensor_f32(&format!("{tensor}.weight"), shape)?.0);
            biases.extend(tensors.tensor_f32(&format!("{tensor}.bias"), [Some(hidden)])?.0);
        }
        let linear = |part: &str, outputs: usize, inputs: usize| {
            Linear::read(tensors, &name(part), outputs, inputs)
        };
        Ok(Self {
            query_key_value: Linear::new(&weights, biases, hidden),
            attention_output: linear("attention.output.dense", hidden, hidden)?,
            attention_norm: layer_norm(tensors, config, &name("attention.output.LayerNorm"))?,
            intermediate: linear("intermediate.dense", wide, hidden)?,
            output: linear("output.dense", hidden, wide)?,
            output_norm: layer_norm(tensors, config, &name("output.LayerNorm"))?,
        })
    }

    #[inline(always)]
    fn apply<const ROWS: usize, const FMA: bool>(
        &self,
        tokens: &[f32],
        count: usize,
        heads: usize,
    ) -> Vec<f32> {
        let projected = self.query_key_value.apply::<ROWS, FMA>(tokens, count);
        let attended = attention::<ROWS, FMA>(&projected, count, heads);
        let mut middle = self.attention_output.apply::<ROWS, FMA>(&attended, count);
        add(&mut middle, tokens);
        self.attention_norm.apply(&mut middle);
        let mut wide = self.intermediate.apply::<ROWS, FMA>(&middle, count);
        gelu(&mut wide);
        let mut result = self.output.apply::<ROWS, FMA>(&wide, count);
        add(&mut result, &middle);
        self.output_norm.apply(&mut result);
        result
    }
}

/// Scaled dot-product attention for each head; `projected` holds the queries, keys and values of each token.
#[inline(always)]
fn attention<const ROWS: usize, const FMA: bool>(
    projected: &[f32],
    count: usize,
    heads: usize,
) -> Vec<f32> {
    let stride = projected.len() / count;
    let hidden = stride / 3;
    let size = hidden / heads;
    let factor = 1.0 / (size as f32).sqrt();
    let mut result = vec![0.0; count * hidden];
    let mut scores = vec![0.0; count * count];
    for head in 0..heads {
        let part = |third: usize| {
            let offset = third * hidden + head * size;
            View { numbers: projected, stride, offset }
        };
        scores.fill(0.0);
        let keys = Panels::from_columns(part(1), size, count);
        Tiles::<ROWS>::from_rows(part(0), count, size).multiply::<FMA>(
            &keys,
            &mut scores,
            count,
            0,
        );
        for row in scores.chunks_exact_mut(count) {
            softmax(row, factor);
        }
        let values = Panels::from_rows(part(2), count, size);
        let weights = Tiles::<ROWS>::from_rows(View::of(&scores, count), count, count);
        weights.multiply::<FMA>(&values, &mut result, hidden, head * size);
    }
    result
}

fn layer_norm(tensors: &Tensors, config: &Config, name: &str) -> Result<LayerNorm, String> {
    let shape = [Some(config.hidden_size)];
    Ok(LayerNorm {
        weight: tensors.tensor_f32(&format!("{name}.weight"), shape)?.0,
        bias: tensors.tensor_f32(&format!("{name}.bias"), shape)?.0,
        epsilon: config.layer_norm_eps as f32,
    })
}

/// A BERT encoder with packed weights.
pub(crate) struct Bert {
    hidden: usize,
    heads: usize,
    word_embeddings: Vec<f32>,
    position_embeddings: Vec<f32>,
    /// The embedding of token type 0, the only one that is used.
    type_embedding: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

impl Bert {
    /// Reads the weights from a file, and checks their shapes against the configuration.
    pub(crate) fn read(tensors: &Tensors, config: &Config) -> Result<Self, String> {
        let hidden = Some(config.hidden_size);
        let (word_embeddings, _) =
            tensors.tensor_f32("embeddings.word_embeddings.weight", [None, hidden])?;
        let (position_embeddings, _) =
            tensors.tensor_f32("embeddings.position_embeddings.weight", [None, hidden])?;
        let (mut type_embedding, [types, _]) =
            tensors.tensor_f32("embeddings.token_type_embeddings.weight", [None, hidden])?;
        if types == 0 {
            return Err("the tensor \"embeddings.token_type_embeddings.weight\" has no rows; use the weights of a BERT model".to_owned());
        }
        type_embedding.truncate(config.hidden_size);
        let layers = (0..config.num_hidden_layers)
            .map(|number| Layer::read(tensors, config, number))
            .collect::<Result<_, _>>()?;
        let next_layer = format!("encoder.layer.{}.", config.num_hidden_layers);
        if let Some((name, _)) = tensors.shapes().find(|(name, _)| name.starts_with(&next_layer)) {
            return Err(format!(
                "it has the tensor {name:?}, but the configuration has only {} layers; add the model's config.json to the folder",
                config.num_hidden_layers
            ));
        }
        Ok(Self {
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            word_embeddings,
            position_embeddings,
            type_embedding,
            norm: layer_norm(tensors, config, "embeddings.LayerNorm")?,
            layers,
        })
    }

    /// Returns the number of dimensions of a vector.
    pub(crate) fn dimensions(&self) -> usize {
        self.hidden
    }

    /// Returns the number of token ids that have an embedding.
    pub(crate) fn vocab_size(&self) -> usize {
        self.word_embeddings.len() / self.hidden
    }

    /// Returns the maximum number of tokens of a text.
    pub(crate) fn max_positions(&self) -> usize {
        self.position_embeddings.len() / self.hidden
    }

    /// Returns the mean of the output vectors of all tokens, or `None` if there are no tokens, too many or unknown ones.
    pub(crate) fn mean_pool(&self, tokens: &[u32], simd: SimdLevel) -> Option<Vec<f32>> {
        let known = tokens.iter().all(|&token| (token as usize) < self.vocab_size());
        if tokens.is_empty() || tokens.len() > self.max_positions() || !known {
            return None;
        }
        Some(simd.run(ForwardPass { bert: self, tokens }))
    }
}

/// The forward pass of one text. All token ids are known, and there are at most [`Bert::max_positions`].
struct ForwardPass<'b> {
    bert: &'b Bert,
    tokens: &'b [u32],
}

impl SimdKernel for ForwardPass<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<const ROWS: usize, const FMA: bool>(self) -> Vec<f32> {
        let Self { bert, tokens } = self;
        let count = tokens.len();
        let mut vectors = Vec::with_capacity(count * bert.hidden);
        for (&token, position) in
            tokens.iter().zip(bert.position_embeddings.chunks_exact(bert.hidden))
        {
            let start = token as usize * bert.hidden;
            let word = &bert.word_embeddings[start..start + bert.hidden];
            let sums = word.iter().zip(&bert.type_embedding).zip(position);
            vectors.extend(sums.map(|((word, of_type), position)| (word + of_type) + position));
        }
        bert.norm.apply(&mut vectors);
        for layer in &bert.layers {
            vectors = layer.apply::<ROWS, FMA>(&vectors, count, bert.heads);
        }
        let mut mean = vec![0.0; bert.hidden];
        for vector in vectors.chunks_exact(bert.hidden) {
            add(&mut mean, vector);
        }
        for number in &mut mean {
            *number /= count as f32;
        }
        mean
    }
}
