//! OpenTelemetry receivers on real sockets, for HTTP and for gRPC. They parse with the messages of the OTLP specification.

use crate::wait_for;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A received span.
#[derive(Clone, Debug)]
pub struct Spanned {
    /// Attributes of the process.
    pub resource: BTreeMap<String, String>,
    /// Name of the span.
    pub name: String,
    /// Id of its trace.
    pub trace: String,
    /// Id of the span.
    pub id: String,
    /// Id of its parent; empty without one.
    pub parent: String,
    /// Start and end in nanoseconds since 1970.
    pub times: (u64, u64),
    /// 2 for an error.
    pub status: i32,
    /// Attributes of the span.
    pub attributes: BTreeMap<String, String>,
}

impl Spanned {
    /// Returns the name of the program that sent it.
    pub fn service(&self) -> &str {
        self.resource.get("service.name").map_or("", String::as_str)
    }
}

/// A receiver. It serves until the end of the test process.
#[derive(Clone, Debug)]
pub struct OtlpReceiver {
    url: String,
    spans: Arc<Mutex<Vec<Spanned>>>,
    headers: Arc<Mutex<Vec<String>>>,
}

impl OtlpReceiver {
    /// Starts a receiver of `http/protobuf`.
    pub fn http() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self::at(&listener);
        let shared = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.answer(BufReader::new(stream.unwrap())));
            }
        });
        receiver
    }

    /// Starts a receiver of `grpc`.
    pub fn grpc() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self::at(&listener);
        let service = TraceServiceServer::new(receiver.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
                tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await
            })
        });
        receiver
    }

    fn at(listener: &TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, spans: Arc::default(), headers: Arc::default() }
    }

    /// Returns the variables of a program that sends its spans here without delay.
    pub fn variables(&self, protocol: &str) -> Vec<(String, String)> {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", self.url.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=team"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Waits until the spans that arrived satisfy the condition, and returns them.
    pub fn wait(&self, description: &str, condition: impl Fn(&[Spanned]) -> bool) -> Vec<Spanned> {
        wait_for(description, || {
            let spans = self.spans();
            condition(&spans).then_some(spans)
        })
    }

    /// Returns the spans that have arrived.
    pub fn spans(&self) -> Vec<Spanned> {
        self.spans.lock().unwrap().clone()
    }

    /// Returns the header lines of all requests over HTTP.
    pub fn headers(&self) -> Vec<String> {
        self.headers.lock().unwrap().clone()
    }

    /// Answers one request.
    fn answer(&self, mut stream: impl BufRead + Answered) -> Option<()> {
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            match line.trim() {
                "" => break,
                line => headers.push(line.to_ascii_lowercase()),
            }
        }
        let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        self.headers.lock().unwrap().extend(headers);
        self.take(&ExportTraceServiceRequest::decode(body.as_slice()).unwrap());
        stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
    }

    fn take(&self, request: &ExportTraceServiceRequest) {
        let mut spans = self.spans.lock().unwrap();
        for group in &request.resource_spans {
            let resource =
                group.resource.as_ref().map(|resource| texts(&resource.attributes)).unwrap_or_default();
            let found = group.scope_spans.iter().flat_map(|scope| &scope.spans);
            spans.extend(found.map(|span| spanned(&resource, span)));
        }
    }
}

/// A stream that an answer can be written to.
trait Answered {
    fn send(&mut self, bytes: &[u8]) -> Option<()>;
}

impl<S: Read + Write> Answered for BufReader<S> {
    fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.get_mut().write_all(bytes).ok()
    }
}

#[tonic::async_trait]
impl TraceService for OtlpReceiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let tenant = request.metadata().get("x-tenant").and_then(|value| value.to_str().ok());
        self.headers.lock().unwrap().extend(tenant.map(|tenant| format!("x-tenant: {tenant}")));
        self.take(request.get_ref());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn spanned(resource: &BTreeMap<String, String>, span: &Span) -> Spanned {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Spanned {
        resource: resource.clone(),
        name: span.name.clone(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        times: (span.start_time_unix_nano, span.end_time_unix_nano),
        status: span.status.as_ref().map_or(0, |status| status.code),
        attributes: texts(&span.attributes),
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}
