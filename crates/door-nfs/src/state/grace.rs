//! The time after a start in which clients claim what they held before, and nobody else takes it.
//!
//! Who may come back is a row for each client in the metadata. It is there before the client can hold anything, and
//! gone before another gets what it held (RFC 8881, 8.4.2.1 and 8.4.3).

use std::collections::HashSet;

use bytes::Bytes;
use tokio::time::Instant;

/// Rows of clients begin so.
pub(crate) const CLIENT_ROWS: &str = "nfs/client/";

/// The row of a client of this name.
pub(crate) fn row_of(owner: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, owner);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("{CLIENT_ROWS}{}", hex.collect::<String>())
}

/// Who may claim what, and until when.
pub(crate) struct Grace {
    until: Option<Instant>,
    /// Those of the last life, by name, who did not say yet that they have all.
    awaited: HashSet<Bytes>,
    /// Rows of those who did not come are being removed: they may not come any more.
    is_ending: bool,
}

impl Grace {
    /// Begins where clients of the last life are known.
    pub(crate) fn new(of_before: HashSet<Bytes>, until: Instant) -> Self {
        let until = (!of_before.is_empty()).then_some(until);
        Self { until, awaited: of_before, is_ending: false }
    }

    /// Whether it is on: nobody gets anything new.
    pub(crate) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a client of this name may claim what it held.
    pub(crate) fn may_claim(&self, owner: &Bytes) -> bool {
        self.is_on() && !self.is_ending && self.awaited.contains(owner)
    }

    /// A client has claimed all.
    pub(crate) fn complete(&mut self, owner: &Bytes) {
        self.awaited.remove(owner);
    }

    /// If it is to end, because all have come or its time is over: the names of those who did not come. Their rows
    /// go first, then it ends.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Vec<Bytes>> {
        let is_due = self.until.is_some_and(|until| self.awaited.is_empty() || now >= until);
        self.is_ending |= is_due;
        is_due.then(|| self.awaited.iter().cloned().collect())
    }

    /// It is over.
    pub(crate) fn end(&mut self) {
        self.until = None;
        self.awaited.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_all_have_come_or_its_time_is_over() {
        let names = |names: &[&'static str]| -> HashSet<Bytes> {
            names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
        };
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        let mut grace = Grace::new(names(&["a", "b"]), until);
        assert!(grace.may_claim(&a) && !grace.may_claim(&Bytes::from_static(b"c")));
        grace.complete(&a);
        assert!(!grace.may_claim(&a), "it said that it has all");
        assert_eq!(grace.due(now), None);
        grace.complete(&b);
        assert_eq!(grace.due(now), Some(vec![]));
        assert!(grace.is_on(), "until their rows are gone");
        grace.end();
        assert!(!grace.is_on());
        let mut grace = Grace::new(names(&["a"]), until);
        assert_eq!(grace.due(until), Some(vec![a.clone()]));
        assert!(grace.is_on() && !grace.may_claim(&a), "it is too late");
        assert_eq!(grace.due(until), Some(vec![a]), "asked again where removing the row failed");
        assert!(!Grace::new(names(&[]), until).is_on(), "nobody is waited for");
    }
}
