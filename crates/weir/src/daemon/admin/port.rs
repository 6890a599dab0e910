//! The port of the machine: whoever may connect may watch, and nobody may change anything. It has no
//! password, so that it must be asked by an address: a name that somebody else's page makes this
//! machine's (DNS rebinding) is refused.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use weir_types::{ErrorKind, FsError};

use super::routes::{Failed, Routes};
use super::{actions, bill, links, mount, page, prices, throughput};
use crate::daemon::shared::DaemonState;

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
    bill::add_watching(prices::add_watching(links::add_watching(routes)))
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
}
