use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use weir_types::SegmentId;

use super::*;
use crate::connection::{Connection, Lost};
use crate::frame;

#[derive(Default)]
struct Known(Mutex<HashSet<Fingerprint>>);

/// Finds whoever calls when it looks, a moment later.
#[derive(Default)]
struct Looks(Known);

#[async_trait]
impl Members for Looks {
    fn has(&self, who: &Fingerprint) -> bool {
        self.0.has(who)
    }

    async fn meet(&self, who: &Fingerprint) -> bool {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        self.0.0.lock().insert(*who)
    }
}

#[async_trait]
impl Members for Known {
    fn has(&self, who: &Fingerprint) -> bool {
        self.0.lock().contains(who)
    }
}

/// Gives as many bytes as the range has, each the last digit of the segment.
#[derive(Default)]
struct Gives {
    asked: AtomicUsize,
}

#[async_trait]
impl Handler for Gives {
    async fn answer(&self, _from: &Fingerprint, ask: Ask) -> Answer {
        let Ask::Bytes(range) = ask else { return Answer::Refused(Refusal::Unknown) };
        self.asked.fetch_add(1, Ordering::Relaxed);
        match range.object {
            Object::Segment(SegmentId(0)) => Answer::Refused(Refusal::NotHere),
            Object::Segment(id) => {
                Answer::Given(vec![id.0 as u8; (range.end - range.start) as usize].into())
            }
            Object::Native { .. } => std::future::pending().await,
        }
    }
}

fn segment(id: u128, bytes: u64) -> Ask {
    Ask::Bytes(ObjectRange { object: Object::Segment(SegmentId(id)), start: 5, end: 5 + bytes })
}

struct Two {
    server: Server,
    node: Node,
    members: Arc<Known>,
    gives: Arc<Gives>,
    client: Arc<Client>,
    asker: Fingerprint,
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

async fn two() -> Two {
    let (asked, asking) = (Identity::new().expect("makes"), Identity::new().expect("makes"));
    let (members, gives) = (Arc::new(Known::default()), Arc::new(Gives::default()));
    members.0.lock().insert(asking.fingerprint());
    let listening = Server::listen(loopback(), &asked, members.clone(), gives.clone());
    let server = listening.await.expect("listens");
    let node = Node { fingerprint: asked.fingerprint(), address: server.address().to_string() };
    let asker = asking.fingerprint();
    Two { server, node, members, gives, client: Arc::new(Client::new(asking)), asker }
}

#[tokio::test]
async fn many_questions_are_answered_on_one_connection() {
    let two = two().await;
    let mut asking = JoinSet::new();
    for id in 1..=30_u8 {
        let (client, node) = (two.client.clone(), two.node.clone());
        asking.spawn(async move {
            let bytes = u64::from(id) * 100_000;
            let answer = client.ask(&node, &segment(id.into(), bytes)).await;
            assert_eq!(answer, Ok(Answer::Given(vec![id; bytes as usize].into())));
        });
    }
    while let Some(done) = asking.join_next().await {
        done.expect("as asked");
    }
    let largest = two.client.ask(&two.node, &segment(7, GIVEN_BYTES)).await;
    assert!(matches!(largest, Ok(Answer::Given(bytes)) if bytes.len() as u64 == GIVEN_BYTES));
    let larger = two.client.ask(&two.node, &segment(7, GIVEN_BYTES + 1)).await;
    assert_eq!(larger, Ok(Answer::Refused(Refusal::Unknown)), "that would be too much");
    let none = two.client.ask(&two.node, &segment(0, 1)).await;
    assert_eq!(none, Ok(Answer::Refused(Refusal::NotHere)));
}

#[tokio::test]
async fn as_many_as_there_are_turns_wait_and_those_who_give_up_make_room() {
    let two = two().await;
    let object =
        || Object::Native { link: weir_types::LinkId(1), key: String::new(), etag: String::new() };
    let never = Ask::Bytes(ObjectRange { object: object(), start: 0, end: 1 });
    let asks: Vec<_> = (0..32)
        .map(|_| {
            let (client, node, never) = (two.client.clone(), two.node.clone(), never.clone());
            tokio::spawn(async move { client.ask(&node, &never).await })
        })
        .collect();
    while two.gives.asked.load(Ordering::Relaxed) < 32 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let asked = segment(7, 1);
    let late =
        || tokio::time::timeout(Duration::from_millis(100), two.client.ask(&two.node, &asked));
    assert!(late().await.is_err(), "it waits for a turn");
    assert_eq!(two.gives.asked.load(Ordering::Relaxed), 32, "and is not sent before");
    asks.iter().for_each(|ask| ask.abort());
    for ask in asks {
        assert!(ask.await.expect_err("it was given up").is_cancelled());
    }
    // The other side answers none of these, ever: what is free here is not free there.
    assert!(late().await.is_err());
}

#[tokio::test]
async fn who_is_not_the_one_that_was_meant_is_not_asked() {
    let two = two().await;
    let other = Identity::new().expect("makes").fingerprint();
    let wrong = Node { fingerprint: other, ..two.node.clone() };
    assert_eq!(two.client.ask(&wrong, &segment(7, 1)).await, Err(Failure::Away));
    assert_eq!(two.gives.asked.load(Ordering::Relaxed), 0);
    assert!(two.client.ask(&two.node, &segment(7, 1)).await.is_ok(), "the right one is");
}

#[tokio::test]
async fn strangers_and_those_whose_session_has_ended_get_nothing() {
    let two = two().await;
    let stranger = Arc::new(Client::new(Identity::new().expect("makes")));
    assert!(stranger.ask(&two.node, &segment(7, 1)).await.is_err());
    assert_eq!(two.gives.asked.load(Ordering::Relaxed), 0);
    assert!(two.client.ask(&two.node, &segment(7, 1)).await.is_ok());
    two.members.0.lock().remove(&two.asker);
    let shut_out = two.client.ask(&two.node, &segment(7, 1)).await;
    assert_eq!(shut_out, Err(Failure::Broken), "its connection is of before");
    assert!(two.client.ask(&two.node, &segment(7, 1)).await.is_err(), "nor by a new one");
    assert_eq!(two.gives.asked.load(Ordering::Relaxed), 1);
    two.members.0.lock().insert(two.asker);
    assert!(two.client.ask(&two.node, &segment(7, 1)).await.is_ok(), "it came back");
}

#[tokio::test]
async fn who_has_just_come_is_looked_for_and_answered() {
    let asked = Identity::new().expect("makes");
    let (members, gives) = (Arc::new(Looks::default()), Arc::new(Gives::default()));
    let server = Server::listen(loopback(), &asked, members, gives).await.expect("listens");
    let node = Node { fingerprint: asked.fingerprint(), address: server.address().to_string() };
    let client = Arc::new(Client::new(Identity::new().expect("makes")));
    let answer = client.ask(&node, &segment(7, 3)).await;
    assert_eq!(answer, Ok(Answer::Given(vec![7; 3].into())), "with the first question");
}

#[tokio::test]
async fn plain_text_and_tls_without_a_key_get_nothing() {
    let two = two().await;
    let mut plain = tokio::net::TcpStream::connect(two.server.address()).await.expect("connects");
    let asked = frame::ask(1, &[0, 0, 7, 0, 1]);
    plain.write_all(&asked).await.expect("sends");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    // An alert of TLS at most.
    assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    assert_eq!(two.gives.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn one_that_goes_is_left_alone_for_a_while_and_found_again() {
    let two = two().await;
    assert!(two.client.ask(&two.node, &segment(7, 1)).await.is_ok());
    let identity = Identity::new().expect("makes");
    let address = two.server.address();
    drop(two.server);
    assert_eq!(two.client.ask(&two.node, &segment(7, 1)).await, Err(Failure::Broken));
    assert_eq!(two.client.ask(&two.node, &segment(7, 1)).await, Err(Failure::Away));
    // It came back with a session of its own.
    let back = Node { fingerprint: identity.fingerprint(), ..two.node.clone() };
    let _server = Server::listen(address, &identity, two.members.clone(), two.gives.clone())
        .await
        .expect("listens");
    assert_eq!(two.client.ask(&two.node, &segment(7, 1)).await, Err(Failure::Away));
    assert!(two.client.ask(&back, &segment(7, 1)).await.is_ok());
    two.client.keep(&[]);
    assert!(two.client.ask(&back, &segment(7, 1)).await.is_ok(), "by a new connection");
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_that_names_it() {
    let two = two().await;
    let identity = Identity::new().expect("makes");
    let (address, members) = (two.server.address(), two.members.clone());
    let taken = Server::listen(address, &identity, members, two.gives.clone()).await;
    let error = taken.map(|_| ()).expect_err("it is taken").to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn who_gives_up_waiting_has_the_connection_made_all_the_same() {
    // Somebody listens and says nothing.
    let silent = TcpListener::bind(loopback()).await.expect("listens");
    let identity = Identity::new().expect("makes");
    let address = silent.local_addr().expect("it has one").to_string();
    let node = Node { fingerprint: identity.fingerprint(), address };
    let client = Arc::new(Client::new(Identity::new().expect("makes")));
    for _ in 0..3 {
        let asked = segment(7, 1);
        let ask = client.ask(&node, &asked);
        assert!(tokio::time::timeout(Duration::from_millis(50), ask).await.is_err());
    }
    let (_called, _) = silent.accept().await.expect("it was called");
    let again = tokio::time::timeout(Duration::from_millis(50), silent.accept()).await;
    assert!(again.is_err(), "once");
}

/// A connection to one who answers by hand.
fn by_hand() -> (Arc<Connection>, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Arc::new(Connection::over(ours)), theirs)
}

async fn one_answer(wire: &[u8]) -> Result<Answer, Lost> {
    let (connection, mut theirs) = by_hand();
    let asking = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.ask(b"?").await })
    };
    let asked = frame::read(&mut theirs, 10).await.expect("reads").expect("a question");
    assert_eq!(asked, (0, Bytes::from_static(b"?")));
    theirs.write_all(wire).await.expect("sends");
    drop(theirs);
    let answer = asking.await.expect("ends");
    if answer.is_err() {
        assert_eq!(connection.ask(b"?").await, Err(Lost), "it is not used again");
        assert!(connection.is_lost());
    }
    answer
}

#[tokio::test]
async fn an_answer_that_is_cut_off_too_large_or_of_no_kind_is_none() {
    let frame = |length: u32, id: u64, body: &[u8]| {
        [&length.to_le_bytes()[..], &id.to_le_bytes(), body].concat()
    };
    let given = Answer::Given(Bytes::from_static(b"ab"));
    assert_eq!(one_answer(&frame(11, 0, b"\0ab")).await, Ok(given.clone()));
    let strange = [frame(11, 9, b"\0xy"), frame(11, 0, b"\0ab")].concat();
    assert_eq!(one_answer(&strange).await, Ok(given), "one that nobody asked for is passed over");
    let later = Ok(Answer::Refused(Refusal::Unknown));
    assert_eq!(one_answer(&frame(9, 0, &[200])).await, later, "a refusal of a later build");
    for (wire, why) in [
        (frame(11, 0, b"\0a"), "cut off"),
        (frame(11, 0, b"\0ab")[..7].to_vec(), "cut off in its number"),
        (vec![11, 0], "cut off in its length"),
        (Vec::new(), "nothing"),
        (frame(u32::MAX, 0, b"\0ab"), "of 4 GiB"),
        (frame(8 + 1 + GIVEN_BYTES as u32 + 1, 0, b"\0ab"), "a byte too large"),
        (frame(3, 0, b""), "without a number"),
        (frame(8, 0, b""), "empty"),
        (frame(11, 0, &[BUSY_WITH_BYTES, 1, 2]), "a refusal with bytes"),
    ] {
        assert_eq!(one_answer(&wire).await, Err(Lost), "{why}");
    }
}

const BUSY_WITH_BYTES: u8 = 1;

#[tokio::test]
async fn a_question_that_is_too_large_is_not_read() {
    let huge = [&(1_u32 << 30).to_le_bytes()[..], &[0; 64]].concat();
    let error = frame::read(&mut &huge[..], frame::ASK_BYTES).await.expect_err("too large");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(frame::read(&mut &b""[..], 10).await.expect("an end").is_none());
}

#[test]
fn what_a_later_build_asks_is_not_known() {
    let ask = segment(7, 9);
    let body = ask.encode().expect("encodes");
    assert_eq!(Ask::decode(&body), Some(ask));
    assert_eq!(Ask::decode(&[9, 1, 2, 3]), None);
    assert_eq!(Ask::decode(&[&body[..], &[0]].concat()), None, "bytes too many");
    assert_eq!(Ask::decode(&[]), None);
}

#[test]
fn pauses_grow_and_end() {
    let pauses: Vec<_> = [1, 2, 3, 40].map(|n| crate::backoff::pause(n).as_millis()).into();
    assert_eq!(pauses, [200, 400, 800, 30_000]);
}
