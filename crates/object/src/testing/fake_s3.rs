//! The listing half of an S3 server, with any keys, encoded as Amazon encodes them. Real servers
//! that run here keep keys as file names and so cannot have the odd ones.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::ConnectOptions;

/// Answers ListObjectsV2 of any bucket on loopback until dropped.
pub struct FakeS3 {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl FakeS3 {
    /// Starts it with these keys, pages of `page_keys` at most. Whether it is out of order is for
    /// the caller to say: then it lists from the last key to the first.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(
        keys: BTreeSet<Vec<u8>>,
        page_keys: usize,
        backwards: bool,
    ) -> io::Result<FakeS3> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let listing = Arc::new(Listing { keys, page_keys, backwards });
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&listing)));
            }
        });
        Ok(FakeS3 { address, task })
    }

    /// Options that reach it.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            endpoint: Some(format!("http://{}", self.address)),
            access_key_id: Some("id".to_owned()),
            secret_access_key: Some("secret".to_owned()),
            ..ConnectOptions::default()
        }
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, listing: Arc<Listing>) {
    let mut buffer = Vec::new();
    loop {
        let end = buffer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        let head: Vec<u8> = buffer.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        let target = head.split(' ').nth(1).unwrap_or_default();
        let body = listing.answer(target.split_once('?').map_or("", |(_, query)| query));
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Listing {
    keys: BTreeSet<Vec<u8>>,
    page_keys: usize,
    backwards: bool,
}

impl Listing {
    fn answer(&self, query: &str) -> String {
        let value = |name: &str| {
            let pair = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pair.filter(|(have, _)| *have == name);
            values.next().map(|(_, value)| decoded(value))
        };
        let prefix = value("prefix").unwrap_or_default();
        let delimiter = value("delimiter").is_some();
        let most = value("max-keys").and_then(|n| String::from_utf8(n).ok()?.parse().ok());
        let most = self.page_keys.min(most.unwrap_or(1000));
        let token = value("continuation-token").map(|hex| decoded(&percents(&hex)));
        let after = token.or(value("start-after")).unwrap_or_default();
        let lower = Bound::Excluded(after.as_slice()).max_of(Bound::Included(&prefix));
        let below = self.keys.range::<[u8], _>((lower, Bound::Unbounded));
        let mut below = below.take_while(|key| key.starts_with(&prefix)).peekable();
        let (mut objects, mut directories, mut last) = (Vec::new(), Vec::new(), Vec::new());
        while objects.len() + directories.len() < most
            && let Some(key) = below.next()
        {
            last.clone_from(key);
            let rest = &key[prefix.len()..];
            match rest.iter().position(|byte| *byte == b'/').filter(|_| delimiter) {
                None => objects.push(object(key)),
                Some(at) => {
                    let directory = &key[..prefix.len() + at + 1];
                    while let Some(more) = below.next_if(|key| key.starts_with(directory)) {
                        last.clone_from(more);
                    }
                    let prefix = encoded(directory);
                    directories.push(format!(
                        "<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"
                    ));
                }
            }
        }
        if self.backwards {
            objects.reverse();
        }
        let truncated = below.peek().is_some();
        let hex: String = last.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("<NextContinuationToken>{hex}</NextContinuationToken>");
        let token = if truncated { token } else { String::new() };
        let (objects, directories) = (objects.concat(), directories.concat());
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult>\
             <EncodingType>url</EncodingType><IsTruncated>{truncated}</IsTruncated>{token}\
             {objects}{directories}</ListBucketResult>"
        )
    }
}

trait MaxOf {
    fn max_of(self, other: Self) -> Self;
}

impl MaxOf for Bound<&[u8]> {
    /// The bound that leaves less, of two lower ones.
    fn max_of(self, other: Self) -> Self {
        match (self, other) {
            (Bound::Excluded(a), Bound::Included(b)) if a < b => Bound::Included(b),
            _ => self,
        }
    }
}

fn object(key: &[u8]) -> String {
    let (key, size) = (encoded(key), key.len());
    format!(
        "<Contents><Key>{key}</Key><LastModified>2024-05-06T07:08:09.000Z</LastModified>\
         <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>{size}</Size>\
         <StorageClass>STANDARD</StorageClass></Contents>"
    )
}

/// As Amazon does it: `+` for a space, slashes as they are.
fn encoded(key: &[u8]) -> String {
    let mut out = String::new();
    for byte in key {
        match byte {
            b' ' => out.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' | b'/' => {
                out.push(char::from(*byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn percents(hex: &[u8]) -> String {
    hex.chunks(2).map(|two| format!("%{}", String::from_utf8_lossy(two))).collect()
}

/// Queries are signed with every odd byte as `%XX`.
fn decoded(value: &str) -> Vec<u8> {
    let mut parts = value.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(part.len().min(2));
        out.extend(u8::from_str_radix(hex, 16));
        out.extend_from_slice(rest.as_bytes());
    }
    out
}
