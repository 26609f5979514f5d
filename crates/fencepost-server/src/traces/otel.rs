//! Spans, and where they go.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use fencepost_core::store::LockName;
use opentelemetry::context::FutureExt as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider};

use super::sender::Sender;
use crate::problem::Problem;
use crate::witness::known;

/// Spans wait so long for company.
const DELAY: Duration = Duration::from_secs(1);
/// What a collector has for one message.
const PATIENCE: Duration = Duration::from_secs(5);
const PATH: &str = "/v1/traces";

/// Where spans go, if anywhere.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    names: bool,
}

impl Traces {
    /// To the collector at this URL, by OTLP over HTTP (protobuf); without a path it is `/v1/traces`. It need not be up: what
    /// it does not take is dropped. What the environment says is kept to: `OTEL_SERVICE_NAME`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`. `Err` names the cure.
    pub fn to(collector: &str) -> Result<Self, String> {
        let url: http::Uri = collector.parse().map_err(|error| format!("{collector}: {error}"))?;
        if url.scheme_str() != Some("http") || url.host().is_none() {
            return Err(format!("{collector}: use http://HOST:4318, a collector near by; it can speak TLS beyond"));
        }
        let whole =
            if url.path() == "/" { format!("{}{PATH}", collector.trim_end_matches('/')) } else { collector.into() };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender::new(PATIENCE))
            .with_endpoint(whole)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| format!("{collector}: {error}"))?;
        let batches = BatchConfigBuilder::default().with_scheduled_delay(DELAY).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("fencepost");
        }
        let provider =
            SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource.build()).build();
        let tracer = provider.tracer("fencepost");
        Ok(Self(Some(Arc::new(Open { provider, tracer, propagator: TraceContextPropagator::new(), names: false }))))
    }

    /// Puts the names of locks into spans.
    #[must_use]
    pub fn names(self, names: bool) -> Self {
        let open = self.0.as_ref().map(|open| Open { names, ..open.copied() });
        Self(open.map(Arc::new))
    }

    /// The answer to a request, in a span. Whoever sent a `traceparent` finds it in that trace.
    pub(crate) async fn request(
        &self,
        route: Option<&str>,
        request: Request,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        let Some(open) = &self.0 else { return answer(request).await };
        let method = known(request.method()).unwrap_or("_OTHER");
        let name = route.map_or(Cow::Borrowed(method), |route| format!("{method} {route}").into());
        let mut attributes = vec![KeyValue::new("http.request.method", method)];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
        let parent = open.propagator.extract_with_context(&Context::new(), &HeaderExtractor(request.headers()));
        let span = open.tracer.span_builder(name).with_kind(SpanKind::Server).with_attributes(attributes);
        let around = parent.with_span(open.tracer.build_with_context(span, &parent));
        let response = answer(request).with_context(around.clone()).await;
        let (span, status) = (around.span(), response.status());
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_server_error() {
            span.set_status(Status::error(""));
        }
        span.end();
        response
    }

    /// A step at the store, within the span of its request.
    pub(crate) async fn step<T>(
        &self,
        what: &'static str,
        name: Option<&LockName>,
        step: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let parent = Context::current();
        let Some(open) = self.0.as_ref().filter(|_| parent.has_active_span()) else { return step.await };
        let name = name.filter(|_| open.names);
        let attributes = name.map(|name| KeyValue::new("fencepost.lock", name.as_str().to_owned()));
        let span = open.tracer.span_builder(what).with_kind(SpanKind::Client).with_attributes(attributes);
        // Dropped before its end, as when the client goes away, it ends then.
        let around = parent.with_span(open.tracer.build_with_context(span, &parent));
        let done = step.with_context(around.clone()).await;
        if let Err(problem) = &done {
            around.span().set_attribute(KeyValue::new("error.type", problem.code()));
            if problem.is_trouble() {
                around.span().set_status(Status::error(problem.code()));
            }
        }
        around.span().end();
        done
    }

    /// Sends what has not been sent.
    pub(crate) async fn end(&self, within: Duration) {
        let Some(open) = self.0.clone() else { return };
        let sent = tokio::task::spawn_blocking(move || open.provider.shutdown_with_timeout(within)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}

impl Open {
    fn copied(&self) -> Self {
        let Self { provider, tracer, names, .. } = self;
        let propagator = TraceContextPropagator::new();
        Self { provider: provider.clone(), tracer: tracer.clone(), propagator, names: *names }
    }
}
