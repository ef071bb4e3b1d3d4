//! The file, and what is made of it: the orders by number, and the sum of each city.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use filch_linux::{JoinHandle, TaskOptions, spawn_with, task::Class};
use rayon::prelude::*;

use crate::Failure;

const CITIES: usize = 256;
/// Rows that one piece of a parallel iterator sees to, at most: urgent tasks run between two pieces.
const PIECE: usize = 2_048;

#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) city: u16,
    pub(crate) cents: u32,
}

/// What the file said when it was read last.
pub(crate) struct Table {
    orders: Vec<Order>,
    totals: Vec<u64>,
}

impl Table {
    pub(crate) fn order(&self, id: u64) -> Option<Order> {
        let at = self.orders.binary_search_by_key(&id, |order| order.id).ok()?;
        Some(self.orders[at])
    }

    pub(crate) fn total(&self, city: usize) -> Option<u64> {
        self.totals.get(city).copied()
    }
}

/// The table that queries see.
pub(crate) struct Store {
    table: RwLock<Arc<Table>>,
    rounds: AtomicU64,
}

impl Store {
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let table = make(&std::fs::read(file)?)?;
        Ok(Self { table: RwLock::new(Arc::new(table)), rounds: AtomicU64::new(0) })
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.table().orders.iter().map(|order| order.id).collect()
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Relaxed)
    }
}

/// Reads the file again and again, as a background task.
pub(crate) async fn refresh(store: Arc<Store>, file: PathBuf) -> Result<JoinHandle<()>, Failure> {
    let bulk = TaskOptions::new().name("refresh").class(Class::Background);
    let task = async move {
        loop {
            let file = file.clone();
            // What it spawns has its class.
            let text = filch_linux::spawn_blocking(move || std::fs::read(file)).await;
            let Ok(Ok(text)) = text else { return };
            let Ok(table) = make(&text) else { return };
            let table = Arc::new(table);
            let mut now = store.table.write().unwrap_or_else(PoisonError::into_inner);
            let old = core::mem::replace(&mut *now, table);
            // The queries go on before the old one is dropped.
            drop(now);
            drop(old);
            store.rounds.fetch_add(1, Relaxed);
        }
    };
    Ok(spawn_with(bulk, task)?)
}

/// Parses, sorts and sums up: rayon's iterators, on filch's workers.
fn make(text: &[u8]) -> Result<Table, Failure> {
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let orders = lines.par_iter().with_max_len(PIECE).map(|line| parse(line));
    let mut orders = orders.collect::<Option<Vec<Order>>>().ok_or("a line is not ID CITY CENTS")?;
    orders.par_sort_unstable_by_key(|order| order.id);
    let add = |mut totals: Vec<u64>, order: &Order| {
        totals[usize::from(order.city)] += u64::from(order.cents);
        totals
    };
    let sum = |mut a: Vec<u64>, b: Vec<u64>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    let none = || vec![0; CITIES];
    let totals = orders.par_iter().with_max_len(PIECE).fold(none, add).reduce(none, sum);
    Ok(Table { orders, totals })
}

fn parse(line: &[u8]) -> Option<Order> {
    let mut numbers = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let id = numbers.next()?.parse().ok()?;
    let city = numbers.next()?.parse().ok().filter(|city| usize::from(*city) < CITIES)?;
    let cents = numbers.next()?.parse().ok()?;
    numbers.next().is_none().then_some(Order { id, city, cents })
}

/// What order `id` says, in the files that are made here.
pub(crate) fn made_order(id: u64) -> (u16, u32) {
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    ((mixed % CITIES as u64) as u16, (mixed >> 40) as u32 % 100_000)
}

/// A file of random orders, which is removed at the end.
pub(crate) struct Made(PathBuf);

impl Made {
    pub(crate) fn new(rows: u64) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("filch-database-{}.txt", std::process::id()));
        let mut ids: Vec<u64> = (0..rows).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut ids);
        let made = Self(path);
        let mut file = BufWriter::new(File::create(&made.0)?);
        for id in ids {
            let (city, cents) = made_order(id);
            writeln!(file, "{id} {city} {cents}")?;
        }
        file.flush()?;
        Ok(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
