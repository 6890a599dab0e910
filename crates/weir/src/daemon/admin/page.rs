//! The page for browsers: files that are in the program, which ask the port for all that they show.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;

use crate::daemon::shared::DaemonState;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Paths, what is there, and its type.
const FILES: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", STYLE, include_str!("page/style.css")),
    ("/icon.svg", IMAGE, include_str!("page/icon.svg")),
    ("/page.js", SCRIPT, include_str!("page/page.js")),
    ("/words.js", SCRIPT, include_str!("page/words.js")),
    ("/draw.js", SCRIPT, include_str!("page/draw.js")),
    ("/bill.js", SCRIPT, include_str!("page/bill.js")),
    ("/cancel.js", SCRIPT, include_str!("page/cancel.js")),
    ("/map.js", SCRIPT, include_str!("page/map.js")),
    ("/health.js", SCRIPT, include_str!("page/health.js")),
    ("/panels.js", SCRIPT, include_str!("page/panels.js")),
];

pub(super) fn add(router: Router<Arc<DaemonState>>) -> Router<Arc<DaemonState>> {
    FILES.into_iter().fold(router, |router, (path, kind, text)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
    })
}
