//! A case, measured beside its baseline.

use allot_tests::RedisServer;

use crate::load::{self, PIPELINE, Rate, encode};

/// One measurement: the commands, and the preparation.
pub(crate) struct Case<'a> {
    pub(crate) name: String,
    pub(crate) requests: usize,
    /// Requests in flight on each connection.
    pub(crate) depth: usize,
    /// Called before each run, off the clock.
    pub(crate) prepare: Box<dyn Fn() + 'a>,
    /// The batches that each connection sends.
    pub(crate) batches: Box<dyn Fn(usize) -> Vec<Vec<u8>> + 'a>,
    /// Number of runs; `None` for the default of [`Bench`].
    pub(crate) runs: Option<usize>,
}

impl<'a> Case<'a> {
    /// A case that needs no preparation.
    pub(crate) fn new(name: &str, requests: usize, batches: impl Fn(usize) -> Vec<Vec<u8>> + 'a) -> Self {
        Self {
            name: name.to_owned(),
            requests,
            depth: PIPELINE,
            prepare: Box::new(|| ()),
            batches: Box::new(batches),
            runs: None,
        }
    }

    /// A case that repeats one request.
    pub(crate) fn repeated(name: &str, requests: usize, arguments: &'static [&'static str]) -> Self {
        Self::new(name, requests, |_| vec![encode(arguments).repeat(PIPELINE)])
    }

    fn run(&self, server: &RedisServer) -> Rate {
        (self.prepare)();
        let rate = load::run(server, self.requests, self.depth, &self.batches);
        assert_eq!(rate.errors, 0, "{}: error replies", self.name);
        assert_eq!(rate.nulls, 0, "{}: null replies", self.name);
        rate
    }
}

/// The figures of a case, all medians.
pub(crate) struct Figures {
    per_second: f64,
    cpu_us: f64,
    ratio: f64,
    cpu_ratio: f64,
}

/// The measurements to run, and the number of runs.
pub(crate) struct Bench {
    runs: usize,
    only: Option<String>,
}

impl Bench {
    /// Measures the cases with the text `only` in their names, or all, `runs` times each.
    pub(crate) fn new(runs: usize, only: Option<String>) -> Self {
        Self { runs, only }
    }

    /// Whether the measurement of this name was requested.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Number of runs of each case.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// Measures a case beside its baseline and prints its line.
    pub(crate) fn measure(&self, server: &RedisServer, case: &Case<'_>, baseline: &Case<'_>) {
        if !self.wants(&case.name) {
            return;
        }
        let (mut rates, mut cpus, mut ratios, mut cpu_ratios) = (vec![], vec![], vec![], vec![]);
        for _ in 0..case.runs.unwrap_or(self.runs) {
            let before = baseline.run(server);
            let rate = case.run(server);
            let after = baseline.run(server);
            rates.push(rate.per_second);
            cpus.push(rate.cpu_us);
            ratios.push(rate.per_second / f64::midpoint(before.per_second, after.per_second));
            cpu_ratios.push(f64::midpoint(before.cpu_us, after.cpu_us) / rate.cpu_us);
        }
        let figures = Figures {
            per_second: median(rates),
            cpu_us: median(cpus),
            ratio: median(ratios),
            cpu_ratio: median(cpu_ratios),
        };
        println!(
            "| {} | {:.2} | {} x {} | {} x | {:.0} |",
            case.name,
            figures.cpu_us,
            ratio(figures.ratio),
            baseline.name,
            ratio(figures.cpu_ratio),
            figures.per_second
        );
    }
}

/// A ratio as text, with more digits if it is small.
fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.4}") } else { format!("{value:.2}") }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
