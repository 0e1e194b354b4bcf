//! The encoder of BERT: from the numbers of tokens to the mean of what it makes of each.
//!
//! Only what the sentence models of the MiniLM family use is here, in the plainest form: one text at a time at its own
//! length, so nothing is filled up and nothing masked, and no text can touch another. The weights are laid out for
//! multiplying once, when a model is opened.

use serde::Deserialize;

use pannier_docs::Model;

use crate::arithmetic::{Norm, add, gelu, softmax};
use crate::matrix::{Panels, Tiles, View};
use crate::safetensors::Tensors;
use crate::width::{Width, Work};

/// What `config.json` says, as far as it matters. What it leaves out is as in all-MiniLM-L6-v2.
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
    /// The most layers of a model: it bounds what a foreign file can ask for.
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
        for (name, found, expected) in texts {
            if found != expected {
                return Err(format!(
                    "its {name} is {found:?}, and only {expected:?} can be computed; give a model like all-MiniLM-L6-v2"
                ));
            }
        }
        let numbers = [
            ("hidden_size", self.hidden_size, Model::MAX_DIMENSIONS),
            ("intermediate_size", self.intermediate_size, Model::MAX_DIMENSIONS),
            ("num_attention_heads", self.num_attention_heads, self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers, Self::MAX_LAYERS),
        ];
        for (name, found, most) in numbers {
            if found == 0 || found > most {
                return Err(format!("its {name} is {found}, and must be between 1 and {most}"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "its hidden_size is {}, which its {} heads cannot share equally",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            return Err(format!(
                "its layer_norm_eps is {}, and must be between 0 and 1",
                self.layer_norm_eps
            ));
        }
        Ok(())
    }

    /// What changes vectors without changing the weights, in words.
    pub(crate) fn rules(&self) -> String {
        let epsilon = (self.layer_norm_eps as f32).to_bits();
        format!(
            "{} layers, {} heads, epsilon {epsilon:08x}",
            self.num_hidden_layers, self.num_attention_heads
        )
    }
}

/// A layer that multiplies and adds.
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
            tensors.numbers(&format!("{name}.weight"), [Some(outputs), Some(inputs)])?;
        let (bias, _) = tensors.numbers(&format!("{name}.bias"), [Some(outputs)])?;
        Ok(Self::new(&weight, bias, inputs))
    }

    #[inline(always)]
    fn apply<const ROWS: usize>(&self, rows: &[f32], count: usize) -> Vec<f32> {
        let mut result = Vec::with_capacity(count * self.bias.len());
        for _ in 0..count {
            result.extend_from_slice(&self.bias);
        }
        let tiles = Tiles::<ROWS>::from_rows(View::of(rows, self.depth), count, self.depth);
        tiles.multiply(&self.panels, &mut result, self.panels.columns(), 0);
        result
    }
}

/// A layer of the encoder.
struct Layer {
    /// Three in one: what each token asks for, what it offers and what it says.
    asked_offered_said: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    intermediate: Linear,
    output: Linear,
    output_norm: Norm,
}

impl Layer {
    fn read(tensors: &Tensors, config: &Config, number: usize) -> Result<Self, String> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let tensor = name(&format!("attention.self.{part}"));
            let shape = [Some(hidden), Some(hidden)];
            weights.extend(tensors.numbers(&format!("{tensor}.weight"), shape)?.0);
            biases.extend(tensors.numbers(&format!("{tensor}.bias"), [Some(hidden)])?.0);
        }
        let linear = |part: &str, outputs: usize, inputs: usize| {
            Linear::read(tensors, &name(part), outputs, inputs)
        };
        Ok(Self {
            asked_offered_said: Linear::new(&weights, biases, hidden),
            attention_output: linear("attention.output.dense", hidden, hidden)?,
            attention_norm: norm(tensors, config, &name("attention.output.LayerNorm"))?,
            intermediate: linear("intermediate.dense", wide, hidden)?,
            output: linear("output.dense", hidden, wide)?,
            output_norm: norm(tensors, config, &name("output.LayerNorm"))?,
        })
    }

    #[inline(always)]
    fn apply<const ROWS: usize>(&self, tokens: &[f32], count: usize, heads: usize) -> Vec<f32> {
        let together = self.asked_offered_said.apply::<ROWS>(tokens, count);
        let attended = attend::<ROWS>(&together, count, heads);
        let mut middle = self.attention_output.apply::<ROWS>(&attended, count);
        add(&mut middle, tokens);
        self.attention_norm.apply(&mut middle);
        let mut wide = self.intermediate.apply::<ROWS>(&middle, count);
        gelu(&mut wide);
        let mut result = self.output.apply::<ROWS>(&wide, count);
        add(&mut result, &middle);
        self.output_norm.apply(&mut result);
        result
    }
}

/// For each head and token, what all tokens say, each by its share of the attention.
#[inline(always)]
fn attend<const ROWS: usize>(together: &[f32], count: usize, heads: usize) -> Vec<f32> {
    let stride = together.len() / count;
    let hidden = stride / 3;
    let size = hidden / heads;
    let factor = 1.0 / (size as f32).sqrt();
    let mut result = vec![0.0; count * hidden];
    let mut scores = vec![0.0; count * count];
    for head in 0..heads {
        let part = |third: usize| {
            let offset = third * hidden + head * size;
            View { numbers: together, stride, offset }
        };
        scores.fill(0.0);
        let offered = Panels::from_columns(part(1), size, count);
        Tiles::<ROWS>::from_rows(part(0), count, size).multiply(&offered, &mut scores, count, 0);
        for row in scores.chunks_exact_mut(count) {
            softmax(row, factor);
        }
        let said = Panels::from_rows(part(2), count, size);
        let shares = Tiles::<ROWS>::from_rows(View::of(&scores, count), count, count);
        shares.multiply(&said, &mut result, hidden, head * size);
    }
    result
}

fn norm(tensors: &Tensors, config: &Config, name: &str) -> Result<Norm, String> {
    let shape = [Some(config.hidden_size)];
    Ok(Norm {
        weight: tensors.numbers(&format!("{name}.weight"), shape)?.0,
        bias: tensors.numbers(&format!("{name}.bias"), shape)?.0,
        epsilon: config.layer_norm_eps as f32,
    })
}

/// An encoder, ready to be used.
pub(crate) struct Bert {
    hidden: usize,
    heads: usize,
    words: Vec<f32>,
    /// For each position, what it adds to a token, and what the kind of text adds: there is only one kind.
    positions: Vec<f32>,
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Bert {
    /// Takes the weights from a file, and checks that they are those of the configuration.
    pub(crate) fn read(tensors: &Tensors, config: &Config) -> Result<Self, String> {
        let hidden = Some(config.hidden_size);
        let (words, _) = tensors.numbers("embeddings.word_embeddings.weight", [None, hidden])?;
        let (positions, _) =
            tensors.numbers("embeddings.position_embeddings.weight", [None, hidden])?;
        let (mut kind, [kinds, _]) =
            tensors.numbers("embeddings.token_type_embeddings.weight", [None, hidden])?;
        if kinds == 0 {
            return Err("the tensor \"embeddings.token_type_embeddings.weight\" has no rows; give the file of the right model".to_owned());
        }
        kind.truncate(config.hidden_size);
        let layers = (0..config.num_hidden_layers)
            .map(|number| Layer::read(tensors, config, number))
            .collect::<Result<_, _>>()?;
        let further = format!("encoder.layer.{}.", config.num_hidden_layers);
        if let Some((name, _)) = tensors.shapes().find(|(name, _)| name.starts_with(&further)) {
            return Err(format!(
                "it has the tensor {name:?}, but should have only {} layers; put the model's config.json beside it",
                config.num_hidden_layers
            ));
        }
        Ok(Self {
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            words,
            positions,
            kind,
            norm: norm(tensors, config, "embeddings.LayerNorm")?,
            layers,
        })
    }

    /// How many numbers a vector has.
    pub(crate) fn dimensions(&self) -> usize {
        self.hidden
    }

    /// How many tokens are known.
    pub(crate) fn words(&self) -> usize {
        self.words.len() / self.hidden
    }

    /// How many tokens a text can have.
    pub(crate) fn positions(&self) -> usize {
        self.positions.len() / self.hidden
    }

    /// The mean of the vectors of all tokens; none if there are no tokens, too many, or one that is not known.
    pub(crate) fn mean(&self, tokens: &[u32], width: Width) -> Option<Vec<f32>> {
        let known = tokens.iter().all(|&token| (token as usize) < self.words());
        if tokens.is_empty() || tokens.len() > self.positions() || !known {
            return None;
        }
        Some(width.run(Pass { bert: self, tokens }))
    }
}

/// One text on its way through the layers. All its tokens are known, and there is a position for each.
struct Pass<'b> {
    bert: &'b Bert,
    tokens: &'b [u32],
}

impl Work for Pass<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<const ROWS: usize>(self) -> Vec<f32> {
        let Self { bert, tokens } = self;
        let count = tokens.len();
        let mut vectors = Vec::with_capacity(count * bert.hidden);
        for (&token, position) in tokens.iter().zip(bert.positions.chunks_exact(bert.hidden)) {
            let start = token as usize * bert.hidden;
            let word = &bert.words[start..start + bert.hidden];
            let sums = word.iter().zip(&bert.kind).zip(position);
            vectors.extend(sums.map(|((word, kind), position)| (word + kind) + position));
        }
        bert.norm.apply(&mut vectors);
        for layer in &bert.layers {
            vectors = layer.apply::<ROWS>(&vectors, count, bert.heads);
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
