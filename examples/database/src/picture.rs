//! Both distributions side by side.

use std::path::Path;

use plotters::prelude::*;

use crate::{Failure, Outcome};

const SIZE: (u32, u32) = (760, 420);
const WITH: RGBColor = RGBColor(0x1b, 0x7f, 0x5c);
const WITHOUT: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
/// Of the curve, from the median to the slowest of a thousand.
const POINTS: usize = 300;

/// Draws how many of all answers took longer than so many milliseconds; both scales are logarithmic.
pub(crate) fn draw(path: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let slowest = outcomes.iter().map(|outcome| outcome.times.quantile(1.0)).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption("Point queries beside a sort: answers that took longer", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (0.05_f64..slowest * 1.2).log_scale(),
            (0.000_5_f64..1.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("milliseconds")
        .y_desc("share of all answers")
        .y_label_formatter(&|share| format!("{:.1} %", share * 100.0))
        .draw()?;
    for outcome in outcomes {
        let (color, name) =
            if outcome.classes { (WITH, "with classes") } else { (WITHOUT, "without classes") };
        let curve = (0..=POINTS).map(|i| {
            let share = 0.001_f64.powf(i as f64 / POINTS as f64);
            (outcome.times.quantile(1.0 - share), share)
        });
        chart
            .draw_series(LineSeries::new(curve, color.stroke_width(3)))?
            .label(format!("{name}: p99 {:.2} ms", outcome.times.quantile(0.99)))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .border_style(BLACK.mix(0.2))
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}
