//! A closed queueing network: customers who think, and stations that serve one at a time.

/// Customers up to whom the exact algorithm is worth its steps; with more, the bounds are as good.
const EXACT_CUSTOMERS: u64 = 4096;

/// Operations a second of `customers` who each wait `think_s` and then visit every station once,
/// for the seconds in `service_s`: exact mean value analysis (M. Reiser, S. Lavenberg, "Mean-Value
/// Analysis of Closed Multichain Queuing Networks", J. ACM 27(2), 1980). An arriving customer finds
/// the queues that are there with one customer less.
pub(super) fn throughput(service_s: &[f64], think_s: f64, customers: u64) -> f64 {
    let slowest_s = service_s.iter().copied().fold(0.0, f64::max);
    if customers > EXACT_CUSTOMERS {
        let alone_s: f64 = think_s + service_s.iter().sum::<f64>();
        return (customers as f64 / alone_s).min(1.0 / slowest_s);
    }
    let mut queued = vec![0.0; service_s.len()];
    let mut per_s = 0.0;
    for present in 1..=customers.max(1) {
        let stays: Vec<f64> = service_s
            .iter()
            .zip(&queued)
            .map(|(service, before)| service * (1.0 + before))
            .collect();
        per_s = present as f64 / (think_s + stays.iter().sum::<f64>());
        queued = stays.iter().map(|stay| per_s * stay).collect();
    }
    per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_customer_waits_for_nobody_and_many_fill_the_slowest_station() {
        assert_eq!(throughput(&[0.25, 0.5], 0.25, 1), 1.0);
        let many = throughput(&[0.25, 0.5], 0.25, 200);
        assert!((many - 2.0).abs() < 1e-3, "{many}");
        assert_eq!(throughput(&[0.25, 0.5], 0.25, 5000), 2.0);
        // Two customers, one station, no thinking: it is always busy.
        assert!((throughput(&[0.5], 0.0, 2) - 2.0).abs() < 1e-12);
        // A balanced network of K stations serves N / (N + K - 1) of its rate: the textbook case.
        let balanced = throughput(&[1.0, 1.0, 1.0], 0.0, 4);
        assert!((balanced - 4.0 / 6.0).abs() < 1e-12, "{balanced}");
    }
}
