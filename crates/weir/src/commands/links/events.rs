//! Event notifications of S3, however they come: as S3 writes them, and as SQS, SNS, Lambda and
//! EventBridge wrap them.
//!
//! Only the object's name is taken. What became of it is asked of the bucket: events may come late,
//! twice and out of order.

use serde_json::{Deserializer, Value};
use weir_types::{ErrorKind, FsError, Result};

/// Wrappings inside of wrappings: an event in SNS in SQS in Lambda has four.
const DEEPEST: usize = 16;

/// Objects that changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Bucket and key of each, in the order of the events.
    pub(super) objects: Vec<(String, String)>,
    /// Events whose key is no UTF-8.
    pub(super) unreadable: usize,
}

/// Reads one or several JSON documents.
pub(super) fn read(text: &str) -> Result<Changes> {
    let mut changes = Changes::default();
    for document in Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| {
            FsError::new(ErrorKind::Invalid, format!("--events: this is not JSON: {error}"))
        })?;
        let before = (changes.objects.len(), changes.unreadable);
        collect(&document, 0, &mut changes);
        if before == (changes.objects.len(), changes.unreadable) && !is_empty(&document) {
            let start: String = document.to_string().chars().take(80).collect();
            let text = format!(
                "--events: no event notification of S3 is in {start}: it has neither Records nor a \
                 detail with bucket and object"
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    }
    Ok(changes)
}

/// What rightly tells of no object: the test event that S3 sends first, and an answer of SQS
/// without messages.
fn is_empty(document: &Value) -> bool {
    let is_test = |value: &Value| value.get("Event").is_some_and(|e| e == "s3:TestEvent");
    let parsed = |name: &str| {
        let text = document.get(name).and_then(Value::as_str)?;
        serde_json::from_str::<Value>(text).ok()
    };
    let none = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let lists = ["Messages", "Records"].map(|name| document.get(name));
    none(document)
        || is_test(document)
        || lists.into_iter().flatten().any(none)
        || ["Body", "body", "Message"].into_iter().filter_map(parsed).any(|v| is_empty(&v))
}

fn collect(value: &Value, depth: usize, changes: &mut Changes) {
    if depth > DEEPEST {
        return;
    }
    if let Value::Array(items) = value {
        for item in items {
            collect(item, depth + 1, changes);
        }
    }
    let Value::Object(fields) = value else {
        return;
    };
    // S3's own form encodes keys as HTML forms do; EventBridge does not.
    if let Some(s3) = fields.get("s3") {
        name(s3, decoded, changes);
    } else if fields.get("source").is_some_and(|source| source == "aws.s3")
        && let Some(detail) = fields.get("detail")
    {
        name(detail, |key| Some(key.to_owned()), changes);
    }
    // Lists, and the message inside of SNS's record.
    for inner in ["Records", "Messages", "Sns"].into_iter().filter_map(|name| fields.get(name)) {
        collect(inner, depth + 1, changes);
    }
    // SQS: Body, from Lambda body; SNS: Message. JSON as text.
    let texts = ["Body", "body", "Message"].into_iter().filter_map(|name| fields.get(name));
    for text in texts.filter_map(Value::as_str) {
        if let Ok(inner) = serde_json::from_str::<Value>(text) {
            collect(&inner, depth + 1, changes);
        }
    }
}

fn name(of: &Value, read_key: impl Fn(&str) -> Option<String>, changes: &mut Changes) {
    let text = |pointer: &str| of.pointer(pointer).and_then(Value::as_str);
    if let (Some(bucket), Some(key)) = (text("/bucket/name"), text("/object/key")) {
        match read_key(key) {
            Some(key) => changes.objects.push((bucket.to_owned(), key)),
            None => changes.unreadable += 1,
        }
    }
}

/// A key as HTML forms encode it: `+` is a space, `%2F` a slash.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok());
        match (first, after) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high)? << 4 | hex(*low)?);
                rest = after;
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As in "Event message structure" of the Amazon S3 user guide.
    fn record(key: &str) -> Value {
        json!({"Records": [{
            "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-west-2",
            "eventName": "ObjectCreated:Put",
            "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": "b", "arn": "arn:aws:s3:::b"},
                   "object": {"key": key, "size": 1024, "eTag": "d41d8cd9"}},
        }]})
    }

    fn keys(document: &Value) -> Vec<String> {
        let changes = read(&document.to_string()).expect("events");
        assert!(changes.objects.iter().all(|(bucket, _)| bucket == "b"));
        changes.objects.into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn every_wrapping_is_taken_off() {
        let s3 = record("p/nt.00+%28a%29.nsq");
        let sns = json!({"Type": "Notification", "TopicArn": "arn", "Message": s3.to_string()});
        let sqs =
            |body: &Value| json!({"Messages": [{"MessageId": "1", "Body": body.to_string()}]});
        let lambda_sqs = json!({"Records": [{"eventSource": "aws:sqs", "body": sns.to_string()}]});
        let lambda_sns = json!({"Records": [{"EventSource": "aws:sns", "Sns": sns.clone()}]});
        let message = json!({"MessageId": "1", "Body": s3.to_string()});
        for wrapped in [
            s3.clone(),
            json!([s3]),
            sns.clone(),
            sqs(&s3),
            sqs(&sns),
            lambda_sqs,
            lambda_sns,
            message,
        ] {
            assert_eq!(keys(&wrapped), ["p/nt.00 (a).nsq"], "{wrapped}");
        }
    }

    /// As in "EventBridge event message structure" of the same guide: its keys are not encoded.
    #[test]
    fn keys_of_eventbridge_are_as_they_are() {
        let event = json!({
            "version": "0", "detail-type": "Object Deleted", "source": "aws.s3",
            "detail": {"version": "0", "bucket": {"name": "b"}, "object": {"key": "p/a+b%20"}},
        });
        assert_eq!(keys(&event), ["p/a+b%20"]);
        let sqs = json!({"Messages": [{"Body": event.to_string()}]});
        assert_eq!(keys(&sqs), ["p/a+b%20"]);
    }

    #[test]
    fn several_documents_are_read_one_after_the_other() {
        let text = format!("{}\n{}\n", record("1"), record("2"));
        let changes = read(&text).expect("events");
        assert_eq!(changes.objects.len(), 2);
        assert_eq!(read("").expect("nothing"), Changes::default());
    }

    #[test]
    fn what_names_no_object_is_nothing_or_an_error() {
        let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"});
        let in_sqs = json!({"Messages": [{"Body": test.to_string()}]});
        for nothing in [test, in_sqs, json!({"Messages": []}), json!({}), json!([])] {
            assert_eq!(keys(&nothing), [""; 0], "{nothing}");
        }
        for wrong in [json!({"hello": 1}), json!("x"), json!({"Records": [{"x": 1}]})] {
            let error = read(&wrong.to_string()).expect_err("no event");
            assert!(error.to_string().contains("Records"), "{error}");
        }
        assert!(read("{").expect_err("cut").to_string().contains("not JSON"));
        assert_eq!(read(&record("%ff").to_string()).expect("one").unreadable, 1);
    }

    #[test]
    fn keys_are_decoded_as_forms_are() {
        for (text, key) in
            [("a+b", "a b"), ("a%2Bb", "a+b"), ("%e2%82%ac", "€"), ("100%", "100%"), ("%zz", "%zz")]
        {
            assert_eq!(decoded(text).as_deref(), Some(key));
        }
        assert_eq!(decoded("%ff"), None);
    }
}
