//! What `weir top` shows.

use std::collections::VecDeque;

use weir_cost::Prices;

use super::rates::{Rates, Sample};
use crate::client::Client;

/// Intervals that a plot shows.
const HISTORY_MAX: usize = 240;

/// What is shown: how the daemon is, the rates of the last interval, and those before it.
pub(super) struct View {
    pub(super) sample: Sample,
    pub(super) rates: Rates,
    pub(super) history: VecDeque<Rates>,
    pub(super) every_ms: u64,
    pub(super) paused: bool,
    /// Why there is nothing newer.
    pub(super) gone: Option<String>,
}

impl View {
    /// Looks anew. A daemon that does not answer is shown as it was.
    pub(super) async fn look(&mut self, client: &Client, prices: Prices<'_>) {
        match Sample::take(client).await {
            Ok(sample) => {
                self.rates = Rates::between(&self.sample, &sample, prices);
                self.sample = sample;
                self.gone = None;
                self.history.push_back(self.rates.clone());
                if self.history.len() > HISTORY_MAX {
                    self.history.pop_front();
                }
            }
            Err(error) => self.gone = Some(error.to_string()),
        }
    }
}
