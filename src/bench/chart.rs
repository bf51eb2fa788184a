//! Line charts as SVG, for the report.
//! Pure: from points to text, drawn by `plotters`.
//! Always: a chart without points is a chart with a word that says so.
//! What is drawn is `report`'s.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::text;

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// Which run it is of: they have their colours.
    pub run: usize,
    pub stroke: Stroke,
    pub points: Vec<(f64, f64)>,
}

/// How a line looks, besides the colour of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stroke {
    Strong,
    Thin,
    Dashed,
}

/// What an axis counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// `log10(1 / (1 - quantile))`.
    Percentile,
    Seconds,
    /// Nanoseconds, on a logarithmic scale.
    Latency,
    PerSecond,
}

/// Told apart by people who see no red or green, too.
const COLOURS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];
const SIZE: (u32, u32) = (900, 380);
const FONT: &str = "sans-serif";
const GREY: RGBColor = RGBColor(225, 225, 225);
const INK: RGBColor = RGBColor(60, 60, 60);

/// A chart of these lines.
pub fn draw(title: &str, x: Axis, y: Axis, series: &[Series]) -> Result<String, String> {
    let mut svg = String::new();
    let failed = |error: &dyn std::fmt::Display| format!("chart {title:?}: {error}");
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let points = || series.iter().flat_map(|one| &one.points);
        let (xs, ys) = (points().map(|p| p.0), points().map(|p| p.1));
        let drawn = match bounds(xs, x).zip(bounds(ys, y)) {
            None => area
                .titled(&format!("{title}: nothing to show"), (FONT, 16))
                .map(drop),
            Some((across, up)) if y == Axis::Latency => {
                chart(&area, title, (x, across), (y, up.log_scale()), series)
            }
            Some((across, up)) => chart(&area, title, (x, across), (y, up), series),
        };
        drawn.map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

/// What an axis spans; `None` without a point.
fn bounds(values: impl Iterator<Item = f64>, axis: Axis) -> Option<Range<f64>> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return None;
    }
    Some(match axis {
        // Whole decades, so that there are labels.
        Axis::Latency => decade(low, f64::floor)..decade(high, f64::ceil).max(10.0),
        Axis::PerSecond => 0.0..(high * 1.1).max(1.0),
        Axis::Percentile | Axis::Seconds => 0.0..high.max(1.0),
    })
}

fn decade(value: f64, round: fn(f64) -> f64) -> f64 {
    10f64.powf(round(value.max(1.0).log10()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn chart<'a, Y>(
    area: &Area<'a>,
    title: &str,
    (x, across): (Axis, Range<f64>),
    (y, up): (Axis, Y),
    series: &[Series],
) -> Drawn<'a>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let ticks = match x {
        Axis::Percentile => across.end.floor() as usize + 1,
        Axis::Seconds | Axis::Latency | Axis::PerSecond => 12,
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 17, &INK))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(36)
        .y_label_area_size(86)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY)
        .axis_style(INK)
        .label_style((FONT, 13, &INK))
        .x_labels(ticks)
        .x_label_formatter(&|value| label(x, *value))
        .y_labels(8)
        .y_label_formatter(&|value| label(y, *value))
        .draw()?;
    for one in series {
        let colour = COLOURS[one.run % COLOURS.len()];
        let style = match one.stroke {
            Stroke::Strong => colour.stroke_width(2),
            Stroke::Thin => colour.mix(0.55).stroke_width(1),
            Stroke::Dashed => colour.mix(0.75).stroke_width(1),
        };
        let points = one.points.iter().copied();
        let drawn = match one.stroke {
            Stroke::Strong | Stroke::Thin => chart.draw_series(LineSeries::new(points, style))?,
            Stroke::Dashed => chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?,
        };
        drawn
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(match y {
            Axis::PerSecond => SeriesLabelPosition::LowerLeft,
            Axis::Percentile | Axis::Seconds | Axis::Latency => SeriesLabelPosition::UpperLeft,
        })
        .background_style(WHITE.mix(0.85))
        .border_style(GREY)
        .label_font((FONT, 13, &INK))
        .draw()
}

fn label(axis: Axis, value: f64) -> String {
    match axis {
        Axis::Percentile => {
            let percent = 100.0 - 100.0 / 10f64.powf(value);
            let digits = (value.round() as usize).saturating_sub(2);
            format!("{percent:.digits$} %")
        }
        Axis::Seconds if value.fract() == 0.0 => format!("{value:.0} s"),
        Axis::Seconds => format!("{value:.1} s"),
        Axis::Latency => text::duration(value as u64),
        Axis::PerSecond => text::count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_lines_and_labels() {
        let series = [Series {
            name: "p99 of A".to_owned(),
            run: 0,
            stroke: Stroke::Strong,
            points: vec![(0.0, 1e6), (1.0, 2e6), (2.0, 5e7)],
        }];
        let svg = draw("latency", Axis::Percentile, Axis::Latency, &series).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("p99 of A"), "{svg}");
        assert!(svg.contains("99 %"), "{svg}");
        let empty = draw("latency", Axis::Seconds, Axis::Latency, &[]).unwrap();
        assert!(empty.contains("nothing to show"));
    }

    #[test]
    fn percentiles_are_written_as_people_say_them() {
        let labels = [0.0, 1.0, 2.0, 3.0, 4.0].map(|value| label(Axis::Percentile, value));
        assert_eq!(labels, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }
}
