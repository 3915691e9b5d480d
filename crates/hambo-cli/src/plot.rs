//! Plots as SVG and PNG. Charts are panels side by side, each with lines, bands around them, and a reference line.

use hambo::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::sync::Once;

/// The letters of DejaVu Sans that plots need; license in `assets/LICENSE.DejaVu`.
const FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");
const FAMILY: &str = "sans-serif";
const PANEL: (u32, u32) = (520, 380);
/// Lines whose legend would cover them.
const MANY: usize = 4;
/// Multiples of the reference beyond which a line leaves the picture.
pub const FAR: f64 = 1.5;
/// Pixels of the PNG per pixel of the SVG.
const SHARPNESS: u32 = 2;
const COLORS: [RGBColor; 8] = [
    RGBColor(31, 98, 168),
    RGBColor(200, 90, 20),
    RGBColor(40, 130, 60),
    RGBColor(120, 60, 150),
    RGBColor(110, 115, 120),
    RGBColor(190, 150, 20),
    RGBColor(20, 150, 150),
    RGBColor(200, 70, 130),
];

/// What can be drawn.
pub trait Drawing {
    /// Width and height in pixels of the SVG.
    fn size(&self) -> (u32, u32);
    /// Draws it; lengths are `scale` times those of the SVG.
    fn draw<B: DrawingBackend>(&self, root: DrawingArea<B, Shift>, scale: u32) -> Drawn<B>;
}

/// Whether it could be drawn.
pub type Drawn<B> = std::result::Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// The font, in the size of the SVG.
pub fn font(size: u32, scale: u32) -> FontDesc<'static> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| drop(plotters::style::register_font(FAMILY, FontStyle::Normal, FONT)));
    (FAMILY, size * scale).into_font()
}

/// One chart; the x axis is logarithmic, with a tick at every point.
pub struct Panel {
    pub title: String,
    pub x_name: String,
    pub y_name: String,
    pub lines: Vec<Line>,
    /// What the lines are compared with: x and y. A single point is a horizontal line.
    pub reference: Vec<[f64; 2]>,
    pub reference_name: String,
}

/// A line and the band around it.
pub struct Line {
    pub name: String,
    /// x, y, and the band's lower and upper edge.
    pub points: Vec<[f64; 4]>,
}

/// A drawing as an SVG document.
pub fn svg<D: Drawing + ?Sized>(drawing: &D) -> Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, drawing.size()).into_drawing_area();
    drawing.draw(root, 1).map_err(|e| problem(&e))?;
    Ok(text)
}

/// A drawing as a PNG file.
pub fn png<D: Drawing + ?Sized>(drawing: &D) -> Result<Vec<u8>> {
    let (width, height) = drawing.size();
    let (width, height) = (width * SHARPNESS, height * SHARPNESS);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    drawing.draw(root, SHARPNESS).map_err(|e| problem(&e))?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder
        .write_header()
        .and_then(|mut w| w.write_image_data(&pixels))
        .map_err(|e| problem(&e))?;
    Ok(file)
}

fn problem(e: &dyn std::fmt::Display) -> Error {
    Error::Numeric(format!("cannot draw the plot: {e}"))
}

impl Drawing for [Panel] {
    fn size(&self) -> (u32, u32) {
        (self.len() as u32 * PANEL.0, PANEL.1)
    }

    fn draw<B: DrawingBackend>(&self, root: DrawingArea<B, Shift>, scale: u32) -> Drawn<B> {
        draw(root, self, scale)
    }
}

fn draw<B: DrawingBackend>(root: DrawingArea<B, Shift>, panels: &[Panel], scale: u32) -> Drawn<B> {
    let font = |size: u32| font(size, scale);
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((1, panels.len())).iter().zip(panels) {
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values
                .filter(|v| v.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        };
        let x = range(&mut points().map(|p| p[0]));
        let mut y = range(&mut points().flat_map(|p| p[1..].to_vec()));
        if !panel.reference.is_empty() {
            let (low, high) = range(&mut panel.reference.iter().map(|at| at[1]));
            // What is far away leaves the picture, so that the others can be told apart.
            let far = FAR * low.abs().max(high.abs());
            y = (y.0.min(low).max(low - far), y.1.max(high).min(high + far));
        }
        let margin = 0.06 * (y.1 - y.0).max(1e-9);
        let mut ticks: Vec<f64> = points().map(|p| p[0]).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        // A long legend has its place beside the lines.
        let room = if panel.lines.len() > MANY { (x.1 / x.0).powf(0.6).max(1.1) } else { 1.1 };
        let mut chart = ChartBuilder::on(area)
            .margin(12 * scale)
            .caption(&panel.title, font(17))
            .x_label_area_size(42 * scale)
            .y_label_area_size(64 * scale)
            .build_cartesian_2d(
                (x.0 * 0.9..x.1 * room).log_scale().with_key_points(ticks),
                y.0 - margin..y.1 + margin,
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(&panel.x_name)
            .y_desc(&panel.y_name)
            .axis_desc_style(font(14))
            .label_style(font(13))
            .x_label_formatter(&|x| format!("{x:.0}"))
            .draw()?;
        let floor = y.0 - margin;
        for (line, color) in panel.lines.iter().zip(COLORS.iter().cycle()) {
            let within = |value: f64| value.clamp(floor, y.1 + margin);
            let lower = line.points.iter().map(|p| (p[0], within(p[2])));
            let upper = line.points.iter().rev().map(|p| (p[0], within(p[3])));
            let band: Vec<(f64, f64)> = lower.chain(upper).collect();
            chart.draw_series([Polygon::new(band, color.mix(0.18))])?;
            let style = color.stroke_width(2 * scale);
            let path = || line.points.iter().map(|p| (p[0], within(p[1])));
            chart.draw_series(LineSeries::new(path(), style))?.label(&line.name).legend(
                move |(x, y)| PathElement::new([(x, y), (x + 20 * scale as i32, y)], style),
            );
            chart.draw_series(path().map(|at| Circle::new(at, 3 * scale, color.filled())))?;
        }
        if let (Some(first), Some(last)) = (panel.reference.first(), panel.reference.last()) {
            let style = BLACK.stroke_width(scale);
            let ends =
                |at: &[f64; 2], x: f64| (if panel.reference.len() == 1 { x } else { at[0] }, at[1]);
            let between = panel.reference.iter().map(|at| (at[0], at[1]));
            let path: Vec<(f64, f64)> =
                [ends(first, x.0)].into_iter().chain(between).chain([ends(last, x.1)]).collect();
            chart
                .draw_series([PathElement::new(path, style)])?
                .label(&panel.reference_name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20 * scale as i32, y)], style)
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .legend_area_size(26 * scale)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .label_font(font(13))
            .draw()?;
    }
    root.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_drawn() {
        let line = Line {
            name: "J̃".to_owned(),
            points: vec![[25.0, -3.0, -4.0, -2.0], [100.0, -1.0, -1.2, -0.9]],
        };
        let panel = Panel {
            title: "point".to_owned(),
            x_name: "n".to_owned(),
            y_name: "return".to_owned(),
            lines: vec![line],
            reference: vec![[25.0, -0.5]],
            reference_name: "J".to_owned(),
        };
        let text = svg(std::slice::from_ref(&panel)).unwrap();
        assert!(
            text.starts_with("<svg") && text.contains("point") && text.contains("<polygon"),
            "{text}"
        );
        for tick in ["25", "100"] {
            assert!(text.contains(&format!("\n{tick}\n")), "no {tick} at the axis:\n{text}");
        }
        let file = png(&[panel][..]).unwrap();
        let image = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        assert_eq!(image.info().size(), (PANEL.0 * SHARPNESS, PANEL.1 * SHARPNESS));
    }
}
