//! Words and numbers as people read them, in the terminal and in the report alike.

use crate::stats::normal_quantile;
use serde::Serialize;
use serde_json::{Value, json};

/// A number with as many digits as it deserves beside others of its size.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if !value.is_finite() {
        return if value < 0.0 { "-∞".to_owned() } else { "∞".to_owned() };
    }
    let digits = if value.abs() >= 1000.0 { 1 } else { 2 };
    let text =
        if value.abs() >= 1e7 { format!("{value:.3e}") } else { format!("{value:.digits$}") };
    // What rounds to nothing has no sign.
    if text.chars().all(|c| "-0.".contains(c)) { text.replace('-', "") } else { text }
}

/// Intervals of 95 % are this many standard errors to both sides.
pub(super) fn two_sided() -> f64 {
    normal_quantile(0.975)
}

/// Three significant digits, for coordinates.
pub(super) fn brief(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return number(value);
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if (-3..=6).contains(&digits) {
        format!("{value:.*}", digits.max(0) as usize)
    } else {
        format!("{value:.2e}")
    }
}

/// A share in percent: 5 %, 99.5 %.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let rounded = if (percent - percent.round()).abs() < 1e-9
        || percent.abs() >= 99.95 && percent.abs() < 100.0
    {
        format!("{percent}")
    } else {
        format!("{percent:.1}")
    };
    let short = match rounded.len() > 6 {
        true => format!("{percent:.3}"),
        false => rounded,
    };
    format!("{short} %")
}

/// Text from elsewhere as it may be printed: on one line, and nothing in it is a command to the terminal.
pub fn printable(text: &str) -> String {
    let harmless = |c: char| {
        !c.is_control()
            && !('\u{202a}'..='\u{202e}').contains(&c)
            && !('\u{2066}'..='\u{2069}').contains(&c)
    };
    text.chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// Text with everything that means something in HTML replaced, also for use in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text that is nothing but itself in Markdown, on one line.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => escaped.extend(['\\', c]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON that can stand in a script element, whatever is in its texts.
pub(super) fn embedded(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// With all numbers cut to six significant digits, which is more than a plot shows.
pub(super) fn shortened(value: &impl Serialize) -> Value {
    let mut value = json!(value);
    shorten(&mut value);
    value
}

fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Number(n) if n.is_f64() => {
            let short = n.as_f64().and_then(|x| format!("{x:.5e}").parse::<f64>().ok());
            *value = short.map_or(Value::Null, |x| match x == x.trunc() && x.abs() < 1e6 {
                true => Value::from(x as i64),
                false => Value::from(x),
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_they_deserve() {
        let cases = [
            (-124.182, "-124.18"),
            (1234.56, "1234.6"),
            (-0.001, "0.00"),
            (2.5e8, "2.500e8"),
            (f64::NEG_INFINITY, "-∞"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
        assert_eq!(
            [1.098, -0.00123, 12345.0, 1e-9].map(brief),
            ["1.10", "-0.00123", "12345", "1.00e-9"]
        );
        assert_eq!(
            [0.95, 0.05, 0.995, 0.99999, 0.3333].map(percent),
            ["95 %", "5 %", "99.5 %", "99.999 %", "33.3 %"]
        );
    }

    #[test]
    fn nothing_in_a_name_is_html() {
        assert_eq!(escape("<b a=\"'\">&\u{1}"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}");
        assert_eq!(escape_markdown("a|b*<i>\n"), "a\\|b\\*&lt;i&gt; ");
        let value = json!({"name": "</script><!--", "x": [0.1234567891, 3.0, 1]});
        assert!(!embedded(&value).contains('<'));
        assert_eq!(serde_json::from_str::<Value>(&embedded(&value)).unwrap(), value);
        assert_eq!(shortened(&value)["x"], json!([0.123457, 3, 1]));
    }
}
