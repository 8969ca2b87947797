//! `GET /metrics`, and nothing else, by HTTP/1.1.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::asked::Asked;
use super::metrics;

/// Connections at a time.
const CONNECTIONS: usize = 16;
/// How long the head of a request may take to come.
const HEAD: Duration = Duration::from_secs(5);
/// How long a connection may last.
const WHOLE: Duration = Duration::from_secs(60);

/// Answers every connection, for ever.
pub(super) async fn serve(listener: TcpListener, asked: Arc<Asked>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free, say: not for ever.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Beyond the limit connections are closed.
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue;
        };
        let asked = asked.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let asked = asked.clone();
                async move { Ok::<_, Infallible>(answer(&request, &asked).await) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off or speaks no HTTP gets no answer, and nobody waits.
            let _ = tokio::time::timeout(WHOLE, served).await;
            drop(place);
        });
    }
}

async fn answer(request: &Request<Incoming>, asked: &Asked) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match asked.counts().await {
            Ok(counts) => (
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                metrics::text(asked, &counts),
            ),
            Err(error) => (
                StatusCode::SERVICE_UNAVAILABLE,
                plain,
                format!("{}\n", error.message()),
            ),
        },
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, plain, "GET it\n".to_owned()),
        _ => (
            StatusCode::NOT_FOUND,
            plain,
            "there is /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
