//! Operations: a request, an answer, and what turns one into the other.
//!
//! A request is one struct. Its fields are the flags of the command, the arguments of a tool and the fields of JSON: clap,
//! serde and schemars derive them from the same declaration. The command and the server read a request, run it, and print
//! or send its answer. They have no options of their own but those about input and output.
//!
//! ```
//! use pannier::ops::{Control, PackRequest, Request};
//! use pannier::Shelf;
//!
//! let request = PackRequest::from_value(serde_json::json!({
//!     "items": [
//!         { "content": "The refund takes five days.", "tokens": 7 },
//!         { "content": "The whole catalog ...", "tokens": 900 },
//!     ],
//!     "budget": "1k",
//!     "reserve": 200,
//! }))?;
//! let answer = request.run(&Shelf::default(), &Control::default())?;
//! assert_eq!(answer.items()[0].content(), "The refund takes five days.");
//! # Ok::<(), pannier::Failure>(())
//! ```

#[macro_use]
mod request;
#[cfg(feature = "schema")]
mod answers;
#[cfg(feature = "chat")]
mod chat;
mod compare;
mod control;
mod count;
#[cfg(feature = "docs")]
mod docs;
#[cfg(feature = "chat")]
mod eval;
#[cfg(feature = "memory")]
mod memory;
mod pack;
mod pool;
mod read;
#[cfg(feature = "chat")]
mod recall;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "snippets")]
mod snippets;
mod values;
mod whatif;

#[cfg(feature = "schema")]
pub use answers::{AnswerSchemas, Described};
#[cfg(feature = "chat")]
pub use chat::{
    ChatAnswer, ChatRequest, FittedChat, FittedMessage, LogName, OpenChat, ProviderName,
    TranscriptJson, TrimmedChat, default_tokenizer,
};
pub use compare::CompareRequest;
pub use control::{Control, Decided, Limit, Notes, Sends};
pub use count::{CountAnswer, CountRequest, CountedText};
#[cfg(feature = "docs")]
pub use docs::*;
#[cfg(feature = "chat")]
pub use eval::{
    EvalSessionsAnswer, EvalSessionsRequest, FitCheck, FittedPolicy, PolicyFigures, ReplayBudget,
    ReplayedBudget, SessionFigures, SessionText,
};
#[cfg(feature = "memory")]
pub use memory::{
    EvalMemoryAnswer, EvalMemoryRequest, MemoryAnswer, MemoryCheckAnswer, MemoryCheckRequest,
    MemoryEntries, MemoryFormat, MemoryRequest, OpenMemory,
};
pub use pack::{PackAnswer, PackRequest, PackTotals};
pub use pool::{
    BudgetOptions, CountedPool, PackPool, PolicyName, PolicyOptions, PoolOptions, ReserveOptions,
};
#[cfg(feature = "chat")]
pub use recall::{RECALL_FOLDER, RecallAnswer, RecallRequest};
pub use request::{Answer, Group, Request};
#[cfg(feature = "snippets")]
pub use snippets::{
    SnippetFormat, SnippetGetAnswer, SnippetGetRequest, SnippetListRequest, SnippetOptions,
};
pub use values::{Count, Date, Slot, Tokens};
pub use whatif::{
    BudgetAnswer, BudgetRequest, LossAnswer, LossRequest, PoolItem, SweepAnswer, SweepRequest,
    SweptItem,
};
