//! The sum of a balanced tree. Nodes are allocated in the order in which they are visited: a node, its left side, its right side.

use core::hint::black_box;

use super::{Fork, figures};
use crate::{
    meter::{Figure, passes},
    workloads::Run,
};

pub(crate) struct Node {
    pub(crate) value: u64,
    pub(crate) sides: Option<(Box<Node>, Box<Node>)>,
}

impl Node {
    fn new(depth: u32) -> Box<Self> {
        let mut node = Box::new(Self { value: 1, sides: None });
        if depth > 1 {
            let left = Self::new(depth - 1);
            node.sides = Some((left, Self::new(depth - 1)));
        }
        node
    }

    fn plain(&self) -> u64 {
        match &self.sides {
            Some((left, right)) => self.value + left.plain() + right.plain(),
            None => self.value,
        }
    }
}

/// 1,023 nodes.
pub(crate) fn small<F: Fork>(run: Run) -> Vec<Figure> {
    sum::<F>(run, 10)
}

/// 16,777,215 nodes, more than any cache holds; a 64th of them for a quick run.
pub(crate) fn large<F: Fork>(run: Run) -> Vec<Figure> {
    sum::<F>(run, if run.effort.quick { 18 } else { 24 })
}

fn sum<F: Fork>(run: Run, depth: u32) -> Vec<Figure> {
    let pool = F::start(run.workers);
    let tree = Node::new(depth);
    let nodes = (1 << depth) - 1;
    let plain = passes(run.effort, 1, || assert_eq!(black_box(&tree).plain(), nodes))[0].value;
    let forked = passes(run.effort, 1, || {
        assert_eq!(pool.sum(black_box(&tree)), nodes);
    });
    // A join for each node that has sides.
    figures(run.workers, nodes as usize / 2, plain, forked[0].value)
}
