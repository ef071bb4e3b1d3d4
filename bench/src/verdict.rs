//! The result of filch in a row: against the best peer, against tokio, against its goals.

use crate::{
    args::Allocator,
    catalogue::{self, Row},
    goals::{self, Bound, Goal},
    peers::FILCH,
    rounds::Summary,
    table::number,
    workloads::BARE_THREAD,
};

pub(crate) fn print(row: &Row, summaries: &[Summary]) {
    for filch in summaries.iter().filter(|summary| summary.peer == FILCH) {
        let same = |other: &&Summary| {
            other.allocator == filch.allocator && catalogue::is_rival(other.peer)
        };
        let peers: Vec<&Summary> = summaries.iter().filter(same).collect();
        for goal in goals::of(row.workload, row.workers) {
            if let Some(line) = line(filch, &peers, summaries, goal) {
                println!("  {line}");
            }
        }
    }
}

fn line(filch: &Summary, peers: &[&Summary], all: &[Summary], goal: &Goal) -> Option<String> {
    let ours = filch.metric(goal.metric)?.median;
    let lower_wins = matches!(goal.bound, Bound::AtMost(_) | Bound::OfPeer(..));
    let lead = |theirs: f64| if lower_wins { theirs / ours } else { ours / theirs };
    let theirs = |peer: &Summary| peer.metric(goal.metric).map(|metric| lead(metric.median));
    let best = peers
        .iter()
        .filter_map(|peer| Some((theirs(peer)?, peer.peer)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let against = match best {
        Some((lead, name)) if lead >= 1.0 => format!("ahead of {name} x {lead:.2}"),
        Some((lead, name)) if lead < 1.0 => format!("BEHIND {name} x {lead:.2}"),
        Some((_, name)) => format!("level with {name}"),
        None => "alone".into(),
    };
    let tokio = peers.iter().find(|peer| peer.peer == "tokio").and_then(|peer| theirs(peer));
    let tokio = match tokio {
        Some(lead) if lead.is_finite() => format!(", tokio x {lead:.2}"),
        _ => String::new(),
    };
    let with = match filch.allocator {
        Allocator::Malloc => "",
        Allocator::Mimalloc => " (mimalloc)",
    };
    let goal_text = against_goal(ours, all, filch, goal);
    Some(format!("{}{with}: {against}{tokio}; {goal_text}", goal.metric))
}

fn against_goal(ours: f64, all: &[Summary], filch: &Summary, goal: &Goal) -> String {
    let of_peer = |times: f64, name| {
        let is_it = |other: &&Summary| {
            other.peer == name && (other.allocator == filch.allocator || name == BARE_THREAD)
        };
        Some(times * all.iter().find(is_it)?.metric(goal.metric)?.median)
    };
    let bound = match goal.bound {
        Bound::AtMost(bound) | Bound::AtLeast(bound) => Some(bound),
        Bound::OfPeer(times, name) | Bound::AtLeastOfPeer(times, name) => of_peer(times, name),
    };
    let Some(bound) = bound else { return "goal: its peer was not measured".into() };
    let (sign, met) = match goal.bound {
        Bound::AtMost(_) | Bound::OfPeer(..) => ("<=", ours <= bound),
        Bound::AtLeast(_) | Bound::AtLeastOfPeer(..) => (">=", ours >= bound),
    };
    let met = if met { "met" } else { "MISSED" };
    format!("goal {sign} {}: {met}, {}", number(bound), number(ours))
}
