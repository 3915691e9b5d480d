//! Trajectories in a plane as SVG and PNG: two panels a row.

use crate::plot::{Drawing, Drawn, font};
use plotters::coord::Shift;
use plotters::prelude::*;

const PANEL: (u32, u32) = (520, 360);
const COLUMNS: usize = 2;
const DANGER: RGBColor = RGBColor(200, 60, 50);
const SET: RGBColor = RGBColor(31, 98, 168);
const LOGGED: RGBColor = RGBColor(150, 155, 160);
const COLORS: [RGBColor; 3] = [RGBColor(40, 130, 60), RGBColor(31, 98, 168), RGBColor(200, 90, 20)];

/// One map.
pub struct Plane {
    pub title: String,
    /// Logged states.
    pub logged: Vec<[f64; 2]>,
    /// The true, the neutral and the adversarial trajectory: a name and states.
    pub trajectories: [(&'static str, Vec<[f64; 2]>); 3],
    /// The confidence set of each step of the adversarial one: its middle, and half its width and height.
    pub sets: Vec<[[f64; 2]; 2]>,
    /// Radius of the danger zone around the origin.
    pub danger: f64,
}

impl Drawing for [Plane] {
    fn size(&self) -> (u32, u32) {
        (COLUMNS as u32 * PANEL.0, self.len().div_ceil(COLUMNS) as u32 * PANEL.1)
    }

    fn draw<B: DrawingBackend>(&self, root: DrawingArea<B, Shift>, scale: u32) -> Drawn<B> {
        root.fill(&WHITE)?;
        let areas = root.split_evenly((self.len().div_ceil(COLUMNS), COLUMNS));
        areas.iter().zip(self).try_for_each(|(area, plane)| plane.draw(area, scale))?;
        root.present()
    }
}

impl Plane {
    /// Smallest and largest value in one direction, with a margin.
    fn range(&self, axis: usize) -> std::ops::Range<f64> {
        let states = self.trajectories.iter().flat_map(|(_, states)| states);
        let points = states.chain(&self.logged).map(|s| s[axis]);
        let ends = [-self.danger, self.danger].into_iter().chain(points).filter(|v| v.is_finite());
        let (low, high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let margin = 0.08 * (high - low).max(1e-9);
        low - margin..high + margin
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn<B> {
        let mut chart = ChartBuilder::on(area)
            .margin(10 * scale)
            .caption(&self.title, font(16, scale))
            .x_label_area_size(26 * scale)
            .y_label_area_size(34 * scale)
            .build_cartesian_2d(self.range(0), self.range(1))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.08))
            .label_style(font(12, scale))
            .draw()?;
        let edge: Vec<(f64, f64)> = (0..90)
            .map(|i| (f64::from(i) * std::f64::consts::TAU / 90.0).sin_cos())
            .map(|(y, x)| (self.danger * x, self.danger * y))
            .collect();
        chart
            .draw_series([Polygon::new(edge, DANGER.mix(0.18))])?
            .label("danger zone")
            .legend(swatch(DANGER.mix(0.3), scale));
        let dot = |at: &[f64; 2]| Circle::new((at[0], at[1]), scale, LOGGED.mix(0.6).filled());
        chart.draw_series(self.logged.iter().map(dot))?;
        let set = |[middle, half]: &[[f64; 2]; 2]| {
            let corner = |sign: f64| (middle[0] + sign * half[0], middle[1] + sign * half[1]);
            Rectangle::new([corner(-1.0), corner(1.0)], SET.mix(0.16).filled())
        };
        chart
            .draw_series(self.sets.iter().map(set))?
            .label("confidence sets")
            .legend(swatch(SET.mix(0.25), scale));
        for ((name, states), color) in self.trajectories.iter().zip(COLORS) {
            let style = color.stroke_width(2 * scale);
            let path = || states.iter().map(|s| (s[0], s[1]));
            chart.draw_series(LineSeries::new(path(), style))?.label(*name).legend(
                move |(x, y)| PathElement::new([(x, y), (x + 18 * scale as i32, y)], style),
            );
            chart.draw_series(path().map(|at| Circle::new(at, 2 * scale, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .legend_area_size(24 * scale)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .label_font(font(12, scale))
            .draw()
    }
}

/// Pixels from the left and from the top.
type BackendCoord = (i32, i32);

/// A filled field in a legend.
fn swatch<B: DrawingBackend>(
    color: RGBAColor,
    scale: u32,
) -> impl Fn(BackendCoord) -> DynElement<'static, B, BackendCoord> {
    move |(x, y)| {
        let half = 4 * scale as i32;
        let corners = [(x, y - half), (x + 18 * scale as i32, y + half)];
        Rectangle::new(corners, color.filled()).into_dyn()
    }
}
