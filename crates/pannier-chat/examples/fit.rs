//! Fits a request from standard input into a token budget, and writes it to standard output.
//!
//! usage: fit BUDGET [POLICY] < request.json

use std::io::{Read, Write};

use pannier_chat::{ChatSession, Provider, Transcript};
use pannier_core::ContextBudget;
use pannier_policy::PolicyRegistry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let budget: i64 = arguments.next().ok_or("usage: fit BUDGET [POLICY]")?.parse()?;
    let policy = arguments.next().unwrap_or_else(|| "balanced".to_owned());
    let registry = PolicyRegistry::default();
    let options = registry.policy(&policy)?.session().ok_or("the policy is not for sessions")?;

    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request)?;
    let counter = pannier_tokens::builtin_counter("o200k")?;
    let transcript = Transcript::read(Provider::Anthropic, &request, &*counter)?;
    let session = ChatSession::new(options.clone(), &*counter);
    let fitted = session.fit(&transcript, &ContextBudget::new(budget, budget)?)?;
    std::io::stdout().write_all(fitted.json().as_bytes())?;
    Ok(())
}
