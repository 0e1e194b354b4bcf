//! An independent oracle for chat transcripts: the providers' rules, and random transcripts.
#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod counts;
pub(crate) mod rules;
pub(crate) mod transcripts;
