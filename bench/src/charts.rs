//! A chart for each goal: a bar for each peer, from the file of figures.

use core::error::Error;
use std::path::Path;

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    goals::{self, Goal},
    peers::FILCH,
    report::Line,
    table::number,
};

/// A bar: its name, its label, and its length.
struct Bar {
    name: String,
    label: String,
    value: f64,
}

const WIDTH: u32 = 720;
const BAR: i32 = 20;
/// Where bars begin: the names are left of it.
const LEFT: i32 = 190;
/// The space right of the longest bar, for its label.
const RIGHT: i32 = 120;
const OURS: RGBColor = RGBColor(0x1b, 0x7f, 0x5c);
const THEIRS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);

/// Writes `WORKLOAD-METRIC.svg` for each goal that has figures; returns how many.
pub(crate) fn write(folder: &Path, lines: &[Line]) -> Result<usize, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let mut charts = 0;
    let mut drawn = Vec::new();
    for goal in lines.iter().flat_map(|line| goals::of(&line.workload, line.workers)) {
        let name = format!("{}-{}.svg", goal.workload, goal.metric).replace([' ', '/'], "_");
        if drawn.contains(&name) {
            continue;
        }
        let bars = bars(lines, goal);
        if !bars.is_empty() {
            draw(&folder.join(&name), goal, &bars)?;
            charts += 1;
        }
        drawn.push(name);
    }
    Ok(charts)
}

/// Shortest first within each number of workers.
fn bars(lines: &[Line], goal: &Goal) -> Vec<Bar> {
    let mut ours: Vec<&Line> = lines
        .iter()
        .filter(|line| line.workload == goal.workload && line.metric == goal.metric)
        .collect();
    ours.sort_by(|a, b| a.workers.cmp(&b.workers).then(a.median.total_cmp(&b.median)));
    let bar = |line: &&Line| Bar {
        name: format!("{}, W = {}", line.peer, line.workers),
        label: format!("{} {}", number(line.median), line.unit),
        value: line.median.max(0.0),
    };
    ours.iter().map(bar).collect()
}

fn draw(path: &Path, goal: &Goal, bars: &[Bar]) -> Result<(), Box<dyn Error>> {
    let height = 40 + BAR as u32 * bars.len() as u32;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!("{}: {}", goal.workload, goal.metric);
    area.draw(&Text::new(title, (10, 8), ("sans-serif", 16).into_font()))?;
    // The longest may be a thousand times the shortest: bars show the order, labels the values.
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    for (i, bar) in bars.iter().enumerate() {
        draw_bar(&area, 34 + BAR * i as i32, bar, bar.value / longest)?;
    }
    area.present()?;
    Ok(())
}

fn draw_bar(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    top: i32,
    bar: &Bar,
    share: f64,
) -> Result<(), Box<dyn Error>> {
    let color = if bar.name.starts_with(FILCH) { OURS } else { THEIRS };
    let right = LEFT + (share * f64::from(WIDTH as i32 - LEFT - RIGHT)).max(1.0) as i32;
    area.draw(&Rectangle::new([(LEFT, top), (right, top + BAR - 4)], color.filled()))?;
    let middle = top + BAR / 2 - 2;
    let text = |h| ("sans-serif", 12).into_font().color(&BLACK).pos(Pos::new(h, VPos::Center));
    area.draw(&Text::new(bar.name.clone(), (LEFT - 6, middle), text(HPos::Right)))?;
    area.draw(&Text::new(bar.label.clone(), (right + 6, middle), text(HPos::Left)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_bar_and_a_label_for_each_peer() {
        let line = |peer: &str, workers, median| Line {
            workload: "yield_many".into(),
            peer: peer.into(),
            workers,
            metric: "time".into(),
            unit: "ns".into(),
            median,
            min: median,
            max: median,
            allocs_per_op: None,
            bytes_per_op: None,
            limit: None,
        };
        let lines = [line(FILCH, 1, 17.0), line("tokio", 1, 90.5), line(FILCH, 2, 9.0)];
        let folder = std::env::temp_dir().join(format!("filch-charts-{}", std::process::id()));
        assert_eq!(write(&folder, &lines).unwrap(), 1);
        let chart = std::fs::read_to_string(folder.join("yield_many-time.svg")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        for text in ["filch, W = 1", "tokio, W = 1", "filch, W = 2", "90.5 ns"] {
            assert!(chart.contains(text), "{text} in {chart}");
        }
        assert_eq!(chart.matches("#1B7F5C").count(), 2);
    }
}
