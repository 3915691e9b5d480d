//! Pages: one file each, with nothing from elsewhere.

const STYLE: &str = "\
:root { --paper: #fbfaf8; --card: #fff; --ink: #1d2228; --quiet: #5c6670; --rule: #dcdfe3; --bad: #b3261e; --good: #157a4b; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --card: #1c2024; --ink: #e7eaed; --quiet: #a3adb6; --rule: #363c42; --bad: #ff7b72; --good: #58c796; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, -apple-system, \"Segoe UI\", Roboto, \"DejaVu Sans\", sans-serif; }
main { max-width: 92rem; margin: 0 auto; padding: 1.2rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .6rem; }
h2 { font-size: 1.2rem; margin: 0 0 .5rem; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 1rem 1.2rem; margin: 0 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
td.long { white-space: normal; min-width: 14rem; }
tr.bad td { color: var(--bad); font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
.caption { color: var(--quiet); font-size: .85rem; max-width: 60rem; }
.picture { background: #fff; border-radius: 6px; overflow-x: auto; }
.picture svg { max-width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, \"DejaVu Sans\", sans-serif; }
";

/// Text within HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A whole page; `title` is text, `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n{body}</main></body></html>\n"
    )
}

/// A part of a page; `title` and `caption` are text, `body` is HTML.
pub fn section(title: &str, caption: &str, body: &str) -> String {
    let caption = match caption {
        "" => String::new(),
        text => format!("<p class=\"caption\">{}</p>\n", escape(text)),
    };
    format!("<section><h2>{}</h2>\n{caption}{body}</section>\n", escape(title))
}

/// A table of texts; rows that are bad stand out.
pub fn table(head: &[&str], rows: &[Vec<String>], bad: &[bool]) -> String {
    let head: String = head.iter().map(|cell| format!("<th>{}</th>", escape(cell))).collect();
    let cell = |text: &String| match text.chars().count() > 60 {
        true => format!("<td class=\"long\">{}</td>", escape(text)),
        false => format!("<td>{}</td>", escape(text)),
    };
    let row = |(i, row): (usize, &Vec<String>)| {
        let class = if bad.get(i) == Some(&true) { " class=\"bad\"" } else { "" };
        format!("<tr{class}>{}</tr>\n", row.iter().map(cell).collect::<String>())
    };
    let rows: String = rows.iter().enumerate().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_markup() {
        let page = page("a < b", &table(&["x"], &[vec!["<script>".to_owned()]], &[true]));
        assert!(page.contains("a &lt; b") && page.contains("<tr class=\"bad\"><td>&lt;script&gt;"));
        assert!(!page.contains("<script>"));
    }
}
