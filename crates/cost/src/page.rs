//! A page of HTML that needs nothing else: no script, no font, no picture from outside. It is
//! light or dark as its reader likes, fits a phone, and can be printed.

pub mod chart;

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--soft:#57606a;--rule:#d0d7de;\
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#4d5560}\
@media (prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--soft:#9198a1;--rule:#3d444d;\
--c0:#58a6ff;--c1:#f0883e;--c2:#56d364;--c3:#bc8cff;--c4:#ff7bba;--c5:#b1bac4}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);margin:0 auto;\
max-width:60rem;padding:1rem}\
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.2rem;margin-top:2rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;white-space:nowrap}\
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tr.best{font-weight:600}\
.soft{color:var(--soft)}svg{width:100%;max-width:32rem;height:auto;display:block}\
svg text{fill:var(--fg);font:12px system-ui,sans-serif}\
figure{margin:0 0 1.5rem}figcaption{font-weight:600}\
.names{margin:.2rem 0;padding:0;list-style:none;font-size:.85rem;overflow-wrap:anywhere}\
.names li{display:flex;gap:.5rem;align-items:baseline}.sample{flex:none;width:36px;height:12px}\
.grid{stroke:var(--rule)}.now{stroke:var(--soft);stroke-dasharray:3 3}.bar{fill:var(--c0)}\
.series{fill:none;stroke-width:2}circle,polygon{fill:var(--bg);stroke-width:2}\
.mark{stroke:var(--fg)}.marked{paint-order:stroke;stroke:var(--bg);stroke-width:4px}\
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}\
.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}\
@media print{:root{color-scheme:light;--fg:#000;--bg:#fff;--soft:#444;--rule:#999;\
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#4d5560}\
body{max-width:none;padding:0;font-size:11pt}.scroll{overflow:visible}\
table{white-space:normal;font-size:8pt}details::details-content{content-visibility:visible;display:block}svg,tr,h2{break-inside:avoid}h2{break-after:avoid}}";

/// A whole page: `style` is added to what all pages have, `body` is HTML.
pub fn document(title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n\
         <title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A table with its first row as the head; columns from `numbers` on are set to the right, and
/// the row `best` stands out.
pub fn grid(rows: &[Vec<String>], numbers: usize, best: Option<usize>) -> String {
    let mut text = "<div class=\"scroll\" tabindex=\"0\"><table>\n".to_owned();
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th scope=\"col\"" } else { "td" };
        let class = if best == Some(at) { " class=\"best\"" } else { "" };
        text.push_str(&format!("<tr{class}>"));
        for (column, cell) in row.iter().enumerate() {
            let class = if column >= numbers { " class=\"n\"" } else { "" };
            text.push_str(&format!("<{tag}{class}>{}</{}>", escape(cell), &tag[..2]));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table></div>\n");
    text
}

/// Text that may stand in HTML and in its attributes, whatever people called their things.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no place for control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_people_write_is_markup() {
        assert_eq!(escape("<b a='1'>&\"\u{1}"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;\u{fffd}");
    }
}
