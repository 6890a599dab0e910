//! Fair queueing: who goes next.
//!
//! Start-time fair queueing (P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing", SIGCOMM 1996):
//! each item has a start tag, which is when its flow's service so far would end at the flow's
//! weight, and the least start tag goes first. Two flows that both wait have had the same for their
//! weights, but for one item of each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// Parts of a byte in tags, so that they are exact for any weight.
const TAG_PER_BYTE: f64 = (1_u64 << 20) as f64;

/// The least and the largest weight; what is outside is taken for the nearest.
const WEIGHTS: (f64, f64) = (1e-6, 1e6);

/// Service in `1 / TAG_PER_BYTE` of a byte over a weight.
type Tag = u128;

struct Item<T> {
    weight: f64,
    cost_bytes: u64,
    item: T,
}

struct Flow<T> {
    items: VecDeque<Item<T>>,
    /// The start tag of the first item; without items, the finish tag of the last one.
    tag: Tag,
    /// Its place among equal tags.
    order: u64,
}

/// Items of several flows, of which none can starve another.
pub struct FairQueue<K, T> {
    flows: HashMap<K, Flow<T>>,
    /// Flows with items, by start tag.
    waiting: BTreeMap<(Tag, u64), K>,
    /// Flows without items that have had more than others, by finish tag: they are forgotten when
    /// the others have caught up.
    ahead: BTreeMap<(Tag, u64), K>,
    /// The start tag of the last item that went.
    now: Tag,
    orders: u64,
    len: usize,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self {
            flows: HashMap::new(),
            waiting: BTreeMap::new(),
            ahead: BTreeMap::new(),
            now: 0,
            orders: 0,
            len: 0,
        }
    }
}

impl<K: Eq + Hash + Clone, T> FairQueue<K, T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an item behind those of its flow. A flow of twice the weight gets twice the service.
    pub fn push(&mut self, flow: K, weight: f64, cost_bytes: u64, item: T) {
        let (now, order) = (self.now, self.next_order());
        let new = || Flow { items: VecDeque::new(), tag: now, order };
        let queue = self.flows.entry(flow.clone()).or_insert_with(new);
        if queue.items.is_empty() {
            self.ahead.remove(&(queue.tag, queue.order));
            queue.tag = queue.tag.max(now);
            queue.order = order;
            self.waiting.insert((queue.tag, order), flow);
        }
        queue.items.push_back(Item { weight, cost_bytes, item });
        self.len += 1;
    }

    /// Takes the next item, with its flow and its cost.
    pub fn pop(&mut self) -> Option<(K, u64, T)> {
        let ((start, _), key) = self.waiting.pop_first()?;
        self.now = start;
        let order = self.next_order();
        let flow = self.flows.get_mut(&key)?;
        let Item { weight, cost_bytes, item } = flow.items.pop_front()?;
        let weight = weight.max(WEIGHTS.0).min(WEIGHTS.1);
        flow.tag = start + (cost_bytes as f64 * TAG_PER_BYTE / weight) as Tag;
        flow.order = order;
        let list = if flow.items.is_empty() { &mut self.ahead } else { &mut self.waiting };
        list.insert((flow.tag, order), key.clone());
        self.len -= 1;
        self.forget();
        Some((key, cost_bytes, item))
    }

    /// What the next item costs.
    pub fn peek_cost(&self) -> Option<u64> {
        let (_, key) = self.waiting.first_key_value()?;
        Some(self.flows.get(key)?.items.front()?.cost_bytes)
    }

    /// Items that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops the items that do not `keep`. Their flows are not charged for them.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for (key, flow) in &mut self.flows {
            let before = flow.items.len();
            flow.items.retain(|item| keep(&item.item));
            self.len -= before - flow.items.len();
            if before > 0 && flow.items.is_empty() {
                let at = (flow.tag, flow.order);
                self.waiting.remove(&at);
                self.ahead.insert(at, key.clone());
            }
        }
        self.forget();
    }

    /// Forgets the flows that are no longer ahead of the others: all of them once nothing waits.
    fn forget(&mut self) {
        while let Some(first) = self.ahead.first_entry() {
            let (finish, _) = *first.key();
            if finish > self.now && !self.waiting.is_empty() {
                return;
            }
            self.now = self.now.max(finish);
            self.flows.remove(&first.remove());
        }
    }

    fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn pop_flow(queue: &mut FairQueue<&'static str, u32>) -> &'static str {
        queue.pop().expect("an item").0
    }

    #[test]
    fn a_greedy_flow_does_not_delay_another() {
        let mut queue = FairQueue::new();
        for item in 0..1000 {
            queue.push("greedy", 1.0, 1 << 20, item);
        }
        assert_eq!(queue.pop(), Some(("greedy", 1 << 20, 0)));
        queue.push("modest", 1.0, 4096, 0);
        assert_eq!(queue.peek_cost(), Some(4096));
        assert_eq!(pop_flow(&mut queue), "modest");
        // One who always has but one item waiting gets its share too, and no more than that.
        let mut modest_bytes = 0;
        for item in 0..512 {
            queue.push("modest", 1.0, 4096, item);
            while pop_flow(&mut queue) != "modest" {}
            modest_bytes += 4096;
        }
        let greedy_bytes = (1000 - (queue.len() as u64)) << 20;
        assert!(greedy_bytes.abs_diff(modest_bytes) <= 2 << 20, "{greedy_bytes} {modest_bytes}");
    }

    #[test]
    fn flows_without_items_are_forgotten() {
        let mut queue = FairQueue::new();
        for flow in 0..10_000 {
            queue.push(flow, 1.0, 1000, ());
            queue.push(flow + 1, 1.0, 1000, ());
            queue.pop().expect("an item");
            queue.pop().expect("an item");
            assert!(queue.is_empty() && queue.flows.is_empty() && queue.ahead.is_empty());
        }
        // While some items wait, those who are ahead are known until the others have caught up.
        queue.push(0, 1.0, 1000, ());
        queue.push(1, 1.0, 10, ());
        queue.push(1, 1.0, 10, ());
        queue.pop().expect("the first of 0");
        assert_eq!(queue.flows.len(), 2);
        queue.push(0, 1.0, 1, ());
        assert_eq!(queue.pop().expect("an item").0, 1, "0 is ahead by its 1000 bytes");
    }

    #[test]
    fn what_is_dropped_is_not_charged() {
        let mut queue = FairQueue::new();
        for item in 0..10 {
            queue.push("a", 1.0, 1 << 30, item);
            queue.push("b", 1.0, 10, item);
        }
        queue.retain(|item| *item == 9);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.pop(), Some(("a", 1 << 30, 9)));
        queue.push("a", 1.0, 10, 10);
        assert_eq!(pop_flow(&mut queue), "b");
        assert_eq!(pop_flow(&mut queue), "a");
        queue.push("a", 1.0, 10, 1);
        queue.retain(|_| false);
        assert!(queue.is_empty() && queue.pop().is_none() && queue.flows.is_empty());
    }

    /// Flow, weight, cost, and whether an item is taken after.
    fn any_push() -> impl Strategy<Value = (u8, f64, u64, bool)> {
        (0_u8..5, 0.0_f64..4.0, 0_u64..5000, any::<bool>())
    }

    proptest! {
        /// Theorem 1 of the paper: between two flows that wait all the time, the service over the
        /// weight differs by one item of each at most.
        #[test]
        fn shares_follow_weights_within_an_item(
            flows in proptest::collection::vec((0.1_f64..10.0, 1_u64..1 << 20), 2..6),
            pops in 1_usize..400,
        ) {
            let mut queue = FairQueue::new();
            for (flow, (weight, cost)) in flows.iter().enumerate() {
                for _ in 0..2 {
                    queue.push(flow, *weight, *cost, ());
                }
            }
            let mut served: BTreeMap<usize, u64> = BTreeMap::new();
            for _ in 0..pops {
                let (flow, cost, ()) = queue.pop().expect("all of them wait");
                *served.entry(flow).or_default() += cost;
                queue.push(flow, flows[flow].0, cost, ());
            }
            let bytes = |flow: usize| served.get(&flow).copied().unwrap_or(0) as f64;
            let share = |flow: usize| bytes(flow) / flows[flow].0;
            let item = |flow: usize| flows[flow].1 as f64 / flows[flow].0;
            for a in 0..flows.len() {
                for b in 0..a {
                    let apart = (share(a) - share(b)).abs();
                    prop_assert!(apart <= (item(a) + item(b)) * 1.001, "{a} {b} {apart}");
                }
            }
        }

        #[test]
        fn nothing_is_lost_and_a_flow_keeps_its_order(
            pushes in proptest::collection::vec(any_push(), 0..200),
        ) {
            let mut queue = FairQueue::new();
            let (mut pushed, mut popped) = (vec![Vec::new(); 5], vec![Vec::new(); 5]);
            for (at, (flow, weight, cost, pop)) in pushes.iter().enumerate() {
                queue.push(*flow, *weight, *cost, at);
                pushed[usize::from(*flow)].push((*cost, at));
                if *pop {
                    let (flow, cost, item) = queue.pop().expect("just pushed one");
                    popped[usize::from(flow)].push((cost, item));
                }
            }
            while let Some((flow, cost, item)) = queue.pop() {
                popped[usize::from(flow)].push((cost, item));
            }
            prop_assert_eq!(pushed, popped);
            prop_assert!(queue.is_empty() && queue.flows.is_empty());
        }
    }
}
