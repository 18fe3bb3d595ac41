//! The points of a chart: the last fifteen minutes, one point for each read.

use std::collections::VecDeque;

use serde::Serialize;

/// Points of a chart: fifteen minutes, one each second.
const POINTS: usize = 900;

/// A point of a chart.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Point<T> {
    /// Milliseconds since 1970.
    at: u64,
    value: T,
}

/// The points of a chart, from old to new.
#[derive(Serialize, Default)]
#[serde(transparent)]
pub(super) struct Points<T>(VecDeque<Point<T>>);

impl<T> Points<T> {
    pub(super) fn add(&mut self, at: u64, value: T) {
        if self.0.len() >= POINTS {
            self.0.pop_front();
        }
        self.0.push_back(Point { at, value });
    }
}

impl<const N: usize> Points<[f64; N]> {
    /// Adds what has happened since the point before, as rates a second. The first point has no rates.
    pub(super) fn add_rates(&mut self, at: u64, done: [f64; N]) {
        let seconds = match self.0.back() {
            Some(last) if last.at < at => (at - last.at) as f64 / 1000.0,
            Some(_) => return,
            None => f64::INFINITY,
        };
        self.add(at, done.map(|done| done / seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_second_and_the_oldest_points_go() {
        let mut points = Points::default();
        points.add_rates(1000, [7.0]);
        points.add_rates(1000, [7.0]);
        points.add_rates(3000, [7.0]);
        let values: Vec<f64> = points.0.iter().map(|point| point.value[0]).collect();
        assert_eq!(values, [0.0, 3.5]);
        for at in 4000..6000 {
            points.add_rates(at, [0.0]);
        }
        assert_eq!((points.0.len(), points.0.front().map(|point| point.at)), (POINTS, Some(5100)));
    }
}
