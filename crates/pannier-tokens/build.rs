//! Compiles the vocabularies that are part of the binary.

use std::path::PathBuf;
use std::{env, fs};

#[path = "src/encoding/compile.rs"]
#[allow(dead_code, reason = "the encoder reads what this writes")]
mod compile;

#[allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/encoding/compile.rs");
    println!("cargo::rerun-if-changed=vocabularies");
    if env::var_os("CARGO_FEATURE_OPENAI").is_none() {
        return Ok(());
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for name in ["o200k", "cl100k"] {
        let (_, tables) = compile::compile(&fs::read(format!("vocabularies/{name}.bpe"))?)?;
        fs::write(folder.join(format!("{name}.tables")), tables)?;
    }
    Ok(())
}
