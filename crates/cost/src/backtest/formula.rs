//! Sums as people write them: `209/3600*6.048+10.93`, or with prices by name: `254*{efs.standard}`.

use crate::Prices;

/// The value of a formula at list prices; `None` when it is none, or a price is not known.
pub(super) fn at_prices(text: &str, prices: Prices<'_>) -> Option<f64> {
    let mut sum = String::new();
    let mut rest = text;
    while let Some((before, named)) = rest.split_once('{') {
        let (name, after) = named.split_once('}')?;
        let price = prices.of(&name.parse().ok()?)?;
        sum.push_str(&format!("{before}{}", price.usd.0 as f64 / 1e9));
        rest = after;
    }
    evaluate(&(sum + rest))
}

/// The value of a formula of numbers, `+ - * /` and brackets; `None` when it is none.
pub(super) fn evaluate(text: &str) -> Option<f64> {
    // A unit is no part of the sum.
    let text: String = text.replace("MiB/s", "").split_whitespace().collect();
    let mut rest = text.as_str();
    let value = sum(&mut rest)?;
    rest.is_empty().then_some(value)
}

fn sum(rest: &mut &str) -> Option<f64> {
    let mut value = product(rest)?;
    while let Some(sign) = take(rest, &['+', '-']) {
        let next = product(rest)?;
        value += if sign == '+' { next } else { -next };
    }
    Some(value)
}

fn product(rest: &mut &str) -> Option<f64> {
    let mut value = number(rest)?;
    while let Some(sign) = take(rest, &['*', '/']) {
        let next = number(rest)?;
        value = if sign == '*' { value * next } else { value / next };
    }
    Some(value)
}

fn number(rest: &mut &str) -> Option<f64> {
    if take(rest, &['(']).is_some() {
        let value = sum(rest)?;
        take(rest, &[')'])?;
        return Some(value);
    }
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

fn take(rest: &mut &str, wanted: &[char]) -> Option<char> {
    let first = rest.chars().next().filter(|first| wanted.contains(first))?;
    *rest = &rest[first.len_utf8()..];
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_names() {
        let book = crate::PriceBook::built_in();
        let seoul = |text| at_prices(text, book.at("ap-northeast-2"));
        assert_eq!(seoul("254*{efs.standard}+1"), Some(254.0 * 0.33 + 1.0));
        for text in ["254*{s3-files.read}", "254*{gold}", "254*{efs.standard"] {
            assert_eq!(seoul(text), None, "{text}");
        }
    }

    #[test]
    fn products_bind_more_than_sums_and_brackets_more_than_both() {
        assert_eq!(evaluate("1+2*3-4/2"), Some(5.0));
        assert_eq!(evaluate("(168 - 91.56) / 10"), Some((168.0 - 91.56) / 10.0));
        assert_eq!(evaluate("100 MiB/s*6.60"), Some(660.0));
        for text in ["", "1+", "(1", "1)", "two"] {
            assert_eq!(evaluate(text), None, "{text}");
        }
    }
}
