//! The rows: a test for each crate, or part of a crate.

mod basic;
mod database;
mod http;
mod io;
mod rpc;
mod tls;
mod tokio_itself;
mod web;

use crate::Row;

/// A row: crate, part, test, advice; and what it says if it does not work.
macro_rules! row {
    ($name:literal, $what:literal, $test:path, $advice:literal) => {
        $crate::Row {
            name: $name,
            what: $what,
            test: || Box::pin($test()),
            refuses: None,
            advice: $advice,
        }
    };
    ($name:literal, $what:literal, $test:path, $advice:literal, refuses $words:literal) => {
        $crate::Row {
            name: $name,
            what: $what,
            test: || Box::pin($test()),
            refuses: Some($words),
            advice: $advice,
        }
    };
}

use row;

/// All of them, by name.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(basic::rows());
    rows.extend(io::rows());
    rows.extend(tokio_itself::rows());
    rows.extend(tls::rows());
    rows.extend(http::rows());
    rows.extend(web::rows());
    rows.extend(rpc::rows());
    rows.extend(database::rows());
    rows.sort_by_key(|row| (row.name, row.what));
    rows
}
