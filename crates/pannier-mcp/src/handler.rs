//! Requests of the protocol, and which of the server's parts answers them.
//!
//! Mistakes in what a call asks for are answers with `isError`, which a model reads and mends. Mistakes in the protocol, such
//! as a tool or a resource that does not exist, are errors of JSON-RPC.

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
use crate::tool_error::ToolError;
use crate::work::Workers;
use crate::{ServeError, prompt, resource, tool};

/// For how long clients may keep the list of tools, which changes with a new start only, and that of resources.
const TOOLS_FRESH_MS: u64 = 300_000;
const RESOURCES_FRESH_MS: u64 = 5_000;

/// What a model is told about the tools that there are.
fn instructions(tools: &[Tool]) -> String {
    const ABOUT: [(&str, &str); 3] = [
        (
            "assemble_context",
            " Before you answer from documents, call assemble_context with the question.",
        ),
        (
            "get_context",
            " Before you write code, call get_context without snippet_ids, then with those you need.",
        ),
        ("memory_packet", " At the beginning of work on a project, call memory_packet."),
    ];
    let mut text = "Pannier packs the right context into a token budget.".to_owned();
    for (name, told) in ABOUT {
        if tools.iter().any(|tool| tool.name == name) {
            text.push_str(told);
        }
    }
    text
}

/// Answers requests.
pub(crate) struct Handler {
    shelf: Arc<Shelf>,
    pub(crate) limits: Limits,
    workers: Workers,
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
        let (shelf, limits) = config.open()?;
        let (tools, prompts) = (tool::tools(&shelf), prompt::prompts(&shelf));
        Ok(Self { shelf: Arc::new(shelf), limits, workers: Workers::new(&limits), tools, prompts })
    }
}

/// A list that is told whole has no cursors.
fn refuse_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => {
            Err(ErrorData::invalid_params("this list has one page; leave the cursor out", None))
        }
    }
}

fn protocol_error(problem: &ToolError) -> ErrorData {
    let message = format!("{}; {}", problem.message, problem.hint);
    let data = Some(json!({ "code": problem.code }));
    match problem.code {
        "invalid_cursor" | "invalid_input" => ErrorData::invalid_params(message, data),
        _ => ErrorData::internal_error(message, data),
    }
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
        // What follows is answered in the version that was agreed on, not in the one that was asked for.
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut result = DiscoverResult::from_server_info(versions, self.get_info());
        result.ttl_ms = TOOLS_FRESH_MS;
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        refuse_cursor(request)?;
        let mut result = ListToolsResult::with_all_items(self.tools.clone());
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_FRESH_MS), Some(CacheScope::Private));
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
        let Some(call) = Call::of(&request.name) else {
            let name: String = request.name.chars().take(80).collect();
            let message = format!("there is no tool '{name}'; see tools/list for those there are");
            return Err(ErrorData::invalid_params(message, None));
        };
        let (shelf, most) = (Arc::clone(&self.shelf), self.limits.output);
        let arguments = request.arguments;
        let work = move |watch: &_| {
            call.run(arguments, &shelf, watch, most).map(|answer| answer.into_result())
        };
        let result = self.workers.run(&context, work).await;
        Ok(result.unwrap_or_else(ToolError::into_result).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let shelf = Arc::clone(&self.shelf);
        let work = move |watch: &_| resource::list(&shelf, cursor.as_deref(), watch);
        let page =
            self.workers.run(&context, work).await.map_err(|problem| protocol_error(&problem))?;
        let mut result = ListResourcesResult::with_all_items(page.resources);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = (Some(RESOURCES_FRESH_MS), Some(CacheScope::Private));
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        refuse_cursor(request)?;
        let templates = resource::templates(&self.shelf);
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_FRESH_MS), Some(CacheScope::Private));
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (shelf, most, uri) = (Arc::clone(&self.shelf), self.limits.output, request.uri);
        let named = uri.clone();
        let work = move |_: &_| Ok(resource::read(&shelf, &named, most));
        let read =
            self.workers.run(&context, work).await.map_err(|problem| protocol_error(&problem))?;
        let contents = read.map_err(|unread| unread.into_error(&uri))?;
        let result = ReadResourceResult::new(vec![contents])
            .with_ttl_ms(RESOURCES_FRESH_MS)
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
        refuse_cursor(request)?;
        let mut result = ListPromptsResult::with_all_items(self.prompts.clone());
        (result.ttl_ms, result.cache_scope) = (Some(TOOLS_FRESH_MS), Some(CacheScope::Private));
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
            let message =
                format!("there is no prompt '{name}'; see prompts/list for those there are");
            return Err(ErrorData::invalid_params(message, None));
        }
        let (shelf, most, arguments) =
            (Arc::clone(&self.shelf), self.limits.output, request.arguments);
        let work = move |watch: &_| Call::Packet.run(arguments, &shelf, watch, most);
        let answer =
            self.workers.run(&context, work).await.map_err(|problem| protocol_error(&problem))?;
        Ok(prompt::message(answer.into_text()).into())
    }

    // What is not declared is not there, and does not pretend to be empty.

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// A request that could not be read as any that is known: its method is another, or its parameters are wrong.
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
        // There is no handshake in the new era.
        let is_old = context.protocol_version().is_none_or(|version| version.has_initialize());
        let is_known = KNOWN.contains(&method.as_str()) || (is_old && method == "initialize");
        Err(match is_known {
            true => {
                let message =
                    format!("the parameters of {method} are not as the protocol has them");
                ErrorData::invalid_params(message, None)
            }
            false => {
                let message = format!("there is no method '{method}'");
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
            }
        })
    }
}
