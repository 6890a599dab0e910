//! The port of the machine: whoever may connect may watch, and who has the token, where there is
//! one, may cancel actions. Nothing else can be changed. Watching needs no password, so that the port
//! must be asked by an address: a name that somebody else's page makes this machine's (DNS
//! rebinding) is refused.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use weir_types::{ErrorKind, FsError};

use super::routes::{Failed, Routes};
use super::{actions, bill, links, mount, page, prices, survey, throughput};
use crate::api::Refusal;
use crate::daemon::shared::DaemonState;
use crate::daemon::token::TokenFile;

/// What every answer tells browsers: to take nothing from elsewhere and to keep nothing.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The calls that change nothing.
pub(super) fn calls() -> Routes {
    let routes = mount::add_watching(Routes::default());
    let routes = throughput::add_watching(actions::add_watching(routes));
    let routes = survey::add_watching(links::add_watching(routes));
    bill::add_watching(prices::add_watching(routes))
}

/// The calls that change something, for who has the token.
pub(super) fn changing(token: Arc<TokenFile>) -> Router<Arc<DaemonState>> {
    authorized(actions::add_cancelling(Routes::default()).into_router(), token)
}

fn authorized<S>(router: Router<S>, token: Arc<TokenFile>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    router.route_layer(from_fn_with_state(token, authorize))
}

async fn authorize(State(token): State<Arc<TokenFile>>, request: Request, next: Next) -> Response {
    if !is_from_here(request.headers()) {
        let text = "another page than the daemon's own asks for that";
        return Failed::from(FsError::new(ErrorKind::Permission, text)).into_response();
    }
    match token.admits(request.headers()).await {
        Ok(true) => next.run(request).await,
        Ok(false) => {
            let error = "this needs the token that is in the file of --admin-token-file: another \
                         one, or none, was sent";
            let refusal = Json(Refusal { error: error.to_owned(), code: None });
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], refusal)
                .into_response()
        }
        Err(error) => {
            tracing::warn!("nobody can cancel actions by the port: {error}");
            let text = "the file of --admin-token-file cannot be used any more: the log says why";
            Failed::from(FsError::new(ErrorKind::Permission, text)).into_response()
        }
    }
}

/// Whether a browser sent it for the page of this port, or it was no browser. No page of somebody
/// else's has the token, nor may it send such a header here; this holds without either.
fn is_from_here(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => return true,
        (Some(origin), None) => origin.to_str().ok(),
        _ => None,
    };
    let from = origin.and_then(|origin| Some(origin.split_once("://")?.1));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    from.is_some() && from == host
}

/// A port with the page, these routes, and what keeps other people's pages out.
pub(super) fn guarded(router: Router<Arc<DaemonState>>) -> Router<Arc<DaemonState>> {
    page::add(router).layer(from_fn(guard))
}

async fn guard(request: Request, next: Next) -> Response {
    let mut answer = match is_ours(request.uri(), request.headers()) {
        true => next.run(request).await,
        false => {
            let text = "the Host of the request is no IP address and not localhost: ask by the \
                        address that --admin-listen has";
            Failed::from(FsError::new(ErrorKind::Permission, text)).into_response()
        }
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Whether this machine is asked by an address, wherever a request says whom it asks.
fn is_ours(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().is_ok_and(is_address),
        _ => false,
    };
    named && uri.authority().is_none_or(|authority| is_address(authority.as_str()))
}

/// Whether a host, maybe with a port, is an IP address or `localhost`.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        // The colons within brackets are the address's.
        Some((name, port)) if !port.contains(']') => {
            if !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return false;
            }
            name
        }
        _ => host,
    };
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().is_ok(),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_port_is_asked_by_its_address_or_as_localhost() {
        for host in
            ["127.0.0.1", "127.0.0.1:9464", "[::1]", "[::1]:9464", "localhost:80", "LOCALHOST"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "evil.example:9464",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.evil.example:9464",
            "evil@127.0.0.1",
            "127.0.0.1:80:80",
            "127.0.0.1:evil",
            "2130706433",
            "127.1",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "localhost.",
            "127.0.0.1, evil.example",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn no_host_or_several_or_another_one_in_the_line_is_refused() {
        let asked = |uri: &str, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_static(host));
            }
            is_ours(&uri.parse().expect("a URI"), &headers)
        };
        assert!(asked("/metrics", &["127.0.0.1:9464"]));
        assert!(asked("http://127.0.0.1:9464/metrics", &["127.0.0.1:9464"]));
        assert!(!asked("/metrics", &[]));
        assert!(!asked("/metrics", &["127.0.0.1", "evil.example"]));
        assert!(!asked("/metrics", &["127.0.0.1", "127.0.0.1"]));
        assert!(!asked("http://evil.example/metrics", &["127.0.0.1"]));
    }

    /// The first line and the body of what a port answers that cancels, if it may.
    async fn asked(token: &TokenFile, headers: &str) -> (String, String) {
        let cancel = Router::new().route("/v1/actions/cancel", post(|| async { "cancelled" }));
        let router = Router::new().route("/v1/status", get(|| async { "fine" }));
        let router = router.merge(authorized(cancel, Arc::new(token.clone())));
        let router = router.layer(from_fn(guard));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("bound");
        let served = tokio::spawn(async move { axum::serve(listener, router).await });
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let request = format!("{headers}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("asks");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answers");
        served.abort();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn who_has_the_token_may_cancel_and_nobody_else() {
        const SECRET: &str = "0123456789abcdef";
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, SECRET).expect("writes");
        let token = TokenFile::new(file.path().to_owned()).expect("a token");
        let post = "POST /v1/actions/cancel HTTP/1.1\r\nHost: 127.0.0.1:9464";
        let bearer = format!("Authorization: Bearer {SECRET}");
        for (more, wanted) in [
            (format!("\r\n{bearer}"), "200"),
            (format!("\r\n{bearer}\r\nOrigin: http://127.0.0.1:9464"), "200"),
            (String::new(), "401"),
            (format!("\r\nCookie: token={SECRET}"), "401"),
            (format!("\r\n{bearer}0"), "401"),
            (format!("\r\n{bearer}\r\nOrigin: http://evil.example"), "403"),
            (format!("\r\n{bearer}\r\nOrigin: http://127.0.0.1:9465"), "403"),
            (format!("\r\n{bearer}\r\nOrigin: null"), "403"),
        ] {
            let (line, body) = asked(&token, &format!("{post}{more}")).await;
            assert!(line.contains(wanted), "{more}: {line}, {body}");
            assert_eq!(body == "cancelled", wanted == "200", "{more}: {body}");
            assert!(!body.contains(SECRET), "{more}: {body}");
        }
        let renamed = format!("{post}\r\n{bearer}").replace("127.0.0.1:9464", "evil.example");
        assert!(asked(&token, &renamed).await.0.contains("403"), "by another name");
        let other = format!("{post}\r\n{bearer}").replace("POST", "GET");
        assert!(asked(&token, &other).await.0.contains("405"), "by another method");
        let watching = "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1";
        assert!(asked(&token, watching).await.0.contains("200"), "without a token");
        std::fs::write(&file, "").expect("writes");
        let (line, body) = asked(&token, &format!("{post}\r\n{bearer}")).await;
        assert!(line.contains("403") && !body.contains("/"), "no token any more: {line} {body}");
    }
}
