//! The rounds of one row: each peer in turn, then all again.

use crate::{
    args::{Allocator, Args, Order},
    catalogue::Row,
    child,
    meter::{Figure, percentile},
};

/// The result of the rounds for one peer with one allocator.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) peer: &'static str,
    pub(crate) allocator: Allocator,
    pub(crate) metrics: Vec<Metric>,
}

/// One metric over all rounds.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) allocs_per_op: Option<f64>,
    pub(crate) bytes_per_op: Option<f64>,
}

impl Summary {
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The peer's name, and the allocator's if it is not the default.
    pub(crate) fn name(&self) -> String {
        match self.allocator {
            Allocator::Malloc => self.peer.into(),
            Allocator::Mimalloc => format!("{}+mimalloc", self.peer),
        }
    }
}

/// Measures a row. A peer that cannot run it is left out; a peer that fails is reported, and left
/// out.
pub(crate) fn row(args: &Args, row: &Row) -> Result<Vec<Summary>, Box<dyn core::error::Error>> {
    let mut contenders: Vec<Contender> = contenders(args, row).collect();
    for _ in 0..args.rounds {
        let mut rest = Vec::new();
        for mut contender in contenders {
            let order = Order {
                workload: row.workload.into(),
                peer: contender.peer.into(),
                workers: row.workers,
                quick: args.quick,
            };
            match child::ask(args, &order, contender.allocator) {
                Ok(Some(figures)) => {
                    contender.rounds.push(figures);
                    rest.push(contender);
                }
                Ok(None) => {}
                Err(error) => eprintln!("filch-bench: {error}"),
            }
        }
        contenders = rest;
    }
    Ok(contenders.iter().map(Contender::summary).collect())
}

struct Contender {
    peer: &'static str,
    allocator: Allocator,
    rounds: Vec<Vec<Figure>>,
}

fn contenders<'a>(args: &'a Args, row: &'a Row) -> impl Iterator<Item = Contender> + 'a {
    let matters = |allocator: &Allocator| row.allocates || *allocator == args.allocators[0];
    args.allocators.iter().filter(move |allocator| matters(allocator)).flat_map(|&allocator| {
        row.peers.iter().map(move |&peer| Contender { peer, allocator, rounds: Vec::new() })
    })
}

impl Contender {
    fn summary(&self) -> Summary {
        let first = self.rounds.first().map_or(&[][..], Vec::as_slice);
        let metrics = (0..first.len()).map(|at| self.over_rounds(at)).collect();
        Summary { peer: self.peer, allocator: self.allocator, metrics }
    }

    fn over_rounds(&self, at: usize) -> Metric {
        let figures: Vec<&Figure> = self.rounds.iter().filter_map(|round| round.get(at)).collect();
        let median_of = |field: fn(&Figure) -> Option<f64>| {
            let mut values: Vec<f64> = figures.iter().filter_map(|f| field(f)).collect();
            (!values.is_empty()).then(|| percentile(&mut values, 50.0))
        };
        let mut values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
        Metric {
            name: figures[0].metric.clone(),
            unit: figures[0].unit.clone(),
            median: percentile(&mut values, 50.0),
            min: percentile(&mut values, 0.0),
            max: percentile(&mut values, 100.0),
            allocs_per_op: median_of(|figure| figure.allocs_per_op),
            bytes_per_op: median_of(|figure| figure.bytes_per_op),
        }
    }
}
