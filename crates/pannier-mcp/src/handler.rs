//! The handler of protocol requests.
//!
//! An invalid argument of a call is a result with `isError`, which the model reads and corrects. A violation of the protocol,
//! such as an unknown tool or resource, is a JSON-RPC error.

use std::fmt;
use std::sync::Arc;

use pannier::Shelf;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    ErrorData, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    Prompt, PromptsCapability, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig as ServerInfo, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use crate::call::Call;
use crate::config::{Limits, ServerConfig};
use crate::executor::CallExecutor;
use crate::telemetry::Operation;
use crate::tool_error::ToolError;
use crate::{ServeError, prompt, resource, tool};

/// The time for which clients may cache the list of tools, which changes only with a restart.
const TOOLS_TTL_MS: u64 = 300_000;
/// The time for which clients may cache the list of resources.
const RESOURCES_TTL_MS: u64 = 5_000;

/// Returns the instructions for the model about these tools.
fn instructions(tools: &[Tool]) -> String {
    const SENTENCES: [(&str, &str); 3] = [
        ("get_memory", " Call get_memory once per task."),
        ("search_docs", " Call search_docs before answering about the project."),
        (
            "get_context",
            " Call get_context (first without, then with snippet_ids) before writing code.",
        ),
    ];
    let mut text = "Pannier returns project context within a token budget.".to_owned();
    for (name, sentence) in SENTENCES {
        if tools.iter().any(|tool| tool.name == name) {
            text.push_str(sentence);
        }
    }
    text
}

/// The handler of all requests.
pub(crate) struct Handler {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) limits: Limits,
    pub(crate) executor: CallExecutor,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.name).collect();
        f.debug_struct("Handler").field("tools", &names).field("limits", &self.limits).finish()
    }
}

impl Handler {
    pub(crate) fn open(config: ServerConfig) -> Result<Self, ServeError> {
        let (lists_specified, telemetry) = (config.spec_names, config.telemetry.clone());
        let (shelf, limits) = config.open()?;
        let (tools, prompts) = (tool::tools(&shelf, lists_specified), prompt::prompts(&shelf));
        Ok(Self {
            shelf: Arc::new(shelf),
            limits,
            executor: CallExecutor::new(&limits, telemetry),
            tools,
            prompts,
        })
    }

    fn protocol_error(&self, error: ToolError) -> ErrorData {
        let error = error.without_paths(&self.shelf);
        let ErrorData { message, data, .. } = internal_error(&error);
        match error.code {
            "invalid_cursor" | "invalid_input" => ErrorData::invalid_params(message, data),
            _ => ErrorData::internal_error(message, data),
        }
    }
}

/// Rejects a cursor for a list of one page.
fn reject_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("this list has one page; omit the cursor", None)),
    }
}

fn internal_error(error: &ToolError) -> ErrorData {
    let message = format!("{}; {}", error.message, error.hint);
    ErrorData::internal_error(message, Some(json!({ "code": error.code })))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerInfo {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().build();
        capabilities.prompts = (!self.prompts.is_empty()).then(PromptsCapability::default);
        let server = Implementation::new("pannier", env!("CARGO_PKG_VERSION"))
            .with_title("Pannier")
            .with_description("Packs the right context into a model's window");
        ServerInfo::new(capabilities)
            .with_server_info(server)
            .with_instructions(instructions(&self.tools))
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        // Later responses use the negotiated version, not the requested one.
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut result = DiscoverResult::from_server_info(versions, self.get_info());
        result.ttl_ms = TOOLS_TTL_MS;
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        reject_cursor(request)?;
        let mut result = ListToolsResult::with_all_items(self.tools.clone());
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_TTL_MS), Some(CacheScope::Private));
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_served = |call: &Call| *call == Call::Recall || self.shelf.recall_folder().is_none();
        let Some(call) = Call::from_name(&request.name).filter(is_served) else {
            let name: String = request.name.chars().take(80).collect();
            let message = format!("there is no tool '{name}'; see tools/list for the names");
            return Err(ErrorData::invalid_params(message, None));
        };
        let (shelf, max_bytes) = (Arc::clone(&self.shelf), self.limits.output);
        let (name, arguments) = (request.name, request.arguments);
        let work = move |control: &_| {
            call.run(arguments, &shelf, control, max_bytes).map(|output| output.into_result())
        };
        let operation = Operation { method: "tools/call", tool: Some(call.name()) };
        let result = self.executor.run(&context, operation, work).await;
        Ok(result
            .map_err(|error| error.without_paths(&self.shelf))
            .unwrap_or_else(|error| match tool::is_specified(&name) {
                true => error.into_specified_result(),
                false => error.into_result(),
            })
            .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let shelf = Arc::clone(&self.shelf);
        let work = move |control: &_| resource::list(&shelf, cursor.as_deref(), control);
        let operation = Operation::method("resources/list");
        let page = self.executor.run(&context, operation, work).await;
        let page = page.map_err(|error| self.protocol_error(error))?;
        let mut result = ListResourcesResult::with_all_items(page.resources);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = (Some(RESOURCES_TTL_MS), Some(CacheScope::Private));
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        reject_cursor(request)?;
        let templates = resource::templates(&self.shelf);
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_TTL_MS), Some(CacheScope::Private));
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (shelf, max_bytes, uri) = (Arc::clone(&self.shelf), self.limits.output, request.uri);
        let requested = uri.clone();
        let work = move |_: &_| Ok(resource::read(&shelf, &requested, max_bytes));
        let operation = Operation::method("resources/read");
        let read = self.executor.run(&context, operation, work).await;
        let read = read.map_err(|error| self.protocol_error(error))?;
        let contents = read
            .map_err(|error| internal_error(&error.without_paths(&self.shelf)))?
            .ok_or_else(|| {
                let message = "there is no such resource; see resources/list for the URIs";
                ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
            })?;
        let result = ReadResourceResult::new(vec![contents])
            .with_ttl_ms(RESOURCES_TTL_MS)
            .with_cache_scope(CacheScope::Private);
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if self.prompts.is_empty() {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        }
        reject_cursor(request)?;
        let mut result = ListPromptsResult::with_all_items(self.prompts.clone());
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_TTL_MS), Some(CacheScope::Private));
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if self.prompts.is_empty() {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        if request.name != prompt::NAME {
            let name: String = request.name.chars().take(80).collect();
            let message = format!("there is no prompt '{name}'; see prompts/list for the names");
            return Err(ErrorData::invalid_params(message, None));
        }
        let (shelf, max_bytes, arguments) =
            (Arc::clone(&self.shelf), self.limits.output, request.arguments);
        let work = move |control: &_| Call::Memory.run(arguments, &shelf, control, max_bytes);
        let operation = Operation::method("prompts/get");
        let output = self.executor.run(&context, operation, work).await;
        let output = output.map_err(|error| self.protocol_error(error))?;
        Ok(prompt::message(output.into_text()).into())
    }

    // Capabilities that are not declared are absent, not empty.

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// Rejects a request with an unknown method, or with invalid parameters of a known one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 8] = [
            "server/discover",
            "prompts/get",
            "prompts/list",
            "tools/call",
            "tools/list",
            "resources/list",
            "resources/read",
            "resources/templates/list",
        ];
        let method: String = request.method.chars().take(80).collect();
        // The protocol has no handshake since 2026.
        let is_old = context.protocol_version().is_none_or(|version| version.has_initialize());
        let is_known = KNOWN.contains(&method.as_str()) || (is_old && method == "initialize");
        Err(match is_known {
            true => {
                let message = format!("the parameters of {method} are invalid");
                ErrorData::invalid_params(message, None)
            }
            false => {
                let message = format!("there is no method '{method}'");
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
            }
        })
    }
}
