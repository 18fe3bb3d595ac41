//! The declaration of endpoints: what each takes and answers, for its route and for the OpenAPI document.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::path::{OperationBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{
    ComponentsBuilder, Content, HttpMethod, InfoBuilder, OpenApiBuilder, Paths, Ref, RefOr, Required,
    ResponseBuilder, Schema,
};
use utoipa::{IntoParams, PartialSchema as _, ToSchema};

use crate::problem::{PROBLEM_JSON, Problem};
use crate::security::Caller;
use crate::state::Console;

/// Longest body of a request, in bytes: some thousand seats.
const BODY: usize = 256 * 1024;

/// No parameters.
#[derive(Deserialize, IntoParams)]
pub(super) struct Nothing {}

/// Parameters that name a key.
#[derive(Deserialize, IntoParams)]
pub(super) struct AtKey {
    /// The key.
    pub(super) key: String,
}

/// The outcome of an action or a command.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// The result: of a command its reply, in which a record is an object.
    #[schema(value_type = Object)]
    result: Value,
}

impl Done {
    pub(super) fn new(result: impl Into<Value>) -> Json<Self> {
        Json(Self { result: result.into() })
    }
}

/// The body of an action.
pub(super) trait Action: DeserializeOwned + ToSchema + Send + 'static {
    /// Longest body, in bytes.
    const LONGEST: usize = BODY;

    /// What the action changes, for the log.
    fn target(&self) -> String;
}

/// What an endpoint takes and answers.
pub(super) struct Endpoint {
    operation: OperationBuilder,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Endpoint {
    pub(super) fn new(summary: &str) -> Self {
        let problem = Content::new(Some(Ref::from_schema_name(Problem::name())));
        let problem = ResponseBuilder::new().description("a refusal").content(PROBLEM_JSON, problem);
        Self {
            operation: OperationBuilder::new().summary(Some(summary)).response("default", problem),
            schemas: vec![(Problem::name().into_owned(), Problem::schema())],
        }
    }

    /// The content of a body, whose schema becomes a part of the document.
    fn content<T: ToSchema>(&mut self) -> Content {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        Content::new(Some(Ref::from_schema_name(T::name())))
    }

    /// The endpoint takes these parameters.
    pub(super) fn with<Q: IntoParams>(mut self) -> Self {
        self.operation = self.operation.parameters(Some(Q::into_params(|| Some(ParameterIn::Query))));
        self
    }

    /// The endpoint takes this body.
    pub(super) fn takes<B: ToSchema>(mut self) -> Self {
        let body = self.content::<B>();
        let body = RequestBodyBuilder::new().content("application/json", body).required(Some(Required::True));
        self.operation = self.operation.request_body(Some(body.build()));
        self
    }

    /// The endpoint answers with this body.
    pub(super) fn answers<A: ToSchema>(mut self) -> Self {
        // Not every answer has a name, such as a list.
        A::schemas(&mut self.schemas);
        let answer = Content::new(Some(A::schema()));
        let answer = ResponseBuilder::new().description("the answer").content("application/json", answer);
        self.operation = self.operation.response("200", answer);
        self
    }

    /// The endpoint answers with a stream of events.
    pub(super) fn streams(mut self) -> Self {
        let events = Content::new(None::<RefOr<Schema>>);
        let events = ResponseBuilder::new().description("events").content("text/event-stream", events);
        self.operation = self.operation.response("200", events);
        self
    }
}

/// The endpoints that were declared.
#[derive(Default)]
pub(super) struct Api {
    router: Router<Arc<Console>>,
    paths: Paths,
    components: ComponentsBuilder,
}

impl Api {
    /// Declares an endpoint.
    pub(super) fn add(
        &mut self,
        path: &str,
        method: HttpMethod,
        endpoint: Endpoint,
        serve: MethodRouter<Arc<Console>>,
    ) {
        self.paths.add_path_operation(format!("/api/v1{path}"), vec![method], endpoint.operation);
        self.components = std::mem::take(&mut self.components).schemas_from_iter(endpoint.schemas);
        self.router = std::mem::take(&mut self.router).route(path, serve);
    }

    /// Declares an endpoint that reads.
    pub(super) fn read<Q, A, F>(
        &mut self,
        path: &'static str,
        summary: &str,
        read: impl Fn(Arc<Console>, Q) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: DeserializeOwned + IntoParams + Send + 'static,
        A: Serialize + ToSchema,
        F: Future<Output = Result<A, Problem>> + Send,
    {
        let serve = async move |State(console): State<Arc<Console>>,
                                query: Result<Query<Q>, QueryRejection>| {
            let answer = read(Arc::clone(&console), query?.0);
            Ok::<_, Problem>(Json(console.serve(answer).await?))
        };
        let endpoint = Endpoint::new(summary).with::<Q>().answers::<A>();
        self.add(path, HttpMethod::Get, endpoint, get(serve));
    }

    /// Declares an endpoint by which an operator acts.
    pub(super) fn act<B, T, F>(
        &mut self,
        path: &'static str,
        summary: &str,
        act: impl Fn(Arc<Console>, B) -> F + Clone + Send + Sync + 'static,
    ) where
        B: Action,
        T: Into<Value>,
        F: Future<Output = Result<T, Problem>> + Send,
    {
        let serve = async move |State(console): State<Arc<Console>>,
                                Extension(caller): Extension<Caller>,
                                body: Result<Json<B>, JsonRejection>| {
            let Json(body) = body?;
            let target = body.target();
            let acted = act(Arc::clone(&console), body);
            let acted = console.actions.recorded(&caller, path, &target, acted);
            Ok::<_, Problem>(Done::new(console.serve(acted).await?))
        };
        let endpoint = Endpoint::new(summary).takes::<B>().answers::<Done>();
        self.add(path, HttpMethod::Post, endpoint, post(serve).layer(DefaultBodyLimit::max(B::LONGEST)));
    }

    /// All routes, and one for the document.
    pub(super) fn finish(self) -> Router<Arc<Console>> {
        let info = InfoBuilder::new().title("Allot console").version(env!("CARGO_PKG_VERSION"));
        let info = info.description(Some("What the pages of the console show, and what operators do there."));
        let document = OpenApiBuilder::new().info(info.build()).paths(self.paths);
        let document = Json(document.components(Some(self.components.build())).build());
        let router = self.router.route("/openapi.json", get(async move || document));
        router.layer(DefaultBodyLimit::max(BODY))
    }
}
