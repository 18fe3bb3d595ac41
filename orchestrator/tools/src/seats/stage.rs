//! Finds what all look at among the shapes of a pretix plan.

use serde::Deserialize;

use super::places::Place;

/// What a drawn stage, screen or pitch is called.
const NAMES: [&str; 21] = [
    "stage",
    "scène",
    "scene",
    "escenario",
    "palco",
    "podium",
    "podio",
    "toneel",
    "scena",
    "сцена",
    "screen",
    "écran",
    "ecran",
    "pantalla",
    "schermo",
    "экран",
    "pitch",
    "field",
    "terrain",
    "campo",
    "court",
];

/// The same in languages that join words: a longer word may end so.
const ENDINGS: [&str; 6] = ["bühne", "buehne", "leinwand", "spielfeld", "舞台", "银幕"];

/// A shape of the drawing.
#[derive(Deserialize)]
pub(super) struct Shape {
    #[serde(default)]
    position: Point,
    #[serde(default)]
    text: Text,
    /// In degrees, around the position.
    #[serde(default)]
    rotation: f64,
    #[serde(default, rename = "shape")]
    kind: String,
    rectangle: Option<Size>,
    polygon: Option<Polygon>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Text {
    text: String,
    position: Point,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Size {
    width: f64,
    height: f64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Polygon {
    points: Vec<Point>,
}

impl Shape {
    fn names_a_stage(&self) -> bool {
        let text = self.text.text.to_lowercase();
        text.split(|c: char| !c.is_alphanumeric())
            .any(|word| NAMES.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending)))
    }

    /// The middle of the shape. Circles and ellipses have it at their position, rectangles their upper left corner there; what
    /// consists of a text only has it where the text is.
    fn middle(&self) -> Place {
        let Point { x, y } = self.position;
        let [dx, dy] = match (&self.rectangle, &self.polygon) {
            (Some(Size { width, height }), _) => [width / 2.0, height / 2.0],
            (None, Some(Polygon { points })) if !points.is_empty() => {
                let middle = |of: fn(&Point) -> f64| {
                    let least = points.iter().map(of).fold(f64::INFINITY, f64::min);
                    f64::midpoint(least, points.iter().map(of).fold(f64::NEG_INFINITY, f64::max))
                };
                [middle(|point| point.x), middle(|point| point.y)]
            }
            _ if matches!(self.kind.as_str(), "circle" | "ellipse") => [0.0, 0.0],
            _ => [self.text.position.x, self.text.position.y],
        };
        let (sine, cosine) = self.rotation.to_radians().sin_cos();
        [x + dx * cosine - dy * sine, y + dx * sine + dy * cosine]
    }
}

/// The stage among these shapes, each with the place of its zone, and what it was known by: the only shape whose text names
/// one, or the only shape, if it has no text.
pub(super) fn find(shapes: &[(Point, Shape)]) -> Option<(Place, String)> {
    let place = |(zone, shape): &(Point, Shape)| {
        let [x, y] = shape.middle();
        [x + zone.x, y + zone.y]
    };
    let shown = |[x, y]: Place| format!("{x:.0},{y:.0}");
    let other = "--focus X,Y names another place";
    let mut named = shapes.iter().filter(|(_, shape)| shape.names_a_stage());
    match (named.next(), named.next()) {
        (Some(stage), None) => {
            let (at, text) = (place(stage), stage.1.text.text.trim());
            Some((at, format!("seats near '{text}' at {} are the best; {other}", shown(at))))
        }
        (Some(_), Some(_)) => None,
        (None, _) => match shapes {
            [only] if only.1.text.text.trim().is_empty() => {
                let at = place(only);
                let why = "the only shape of the plan, which has no text, is taken for the stage";
                Some((at, format!("{why}: seats near {} are the best; {other}", shown(at))))
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(json: &str) -> Vec<(Point, Shape)> {
        let shapes: Vec<Shape> = serde_json::from_str(json).unwrap();
        shapes.into_iter().map(|shape| (Point { x: 100.0, y: 0.0 }, shape)).collect()
    }

    fn found(json: &str) -> Option<Place> {
        find(&shapes(json)).map(|(at, _)| at)
    }

    const BAR: &str = r#"{"shape":"rectangle","position":{"x":0,"y":0},"rectangle":{"width":2,"height":2},"text":{"text":"Bar"}}"#;

    #[test]
    fn stage_is_known_by_its_name_in_many_languages() {
        for name in ["STAGE", "Große Bühne", "Hauptbühne", "Scène", "Spielfeld", "ice court 1", "主舞台"]
        {
            let stage = format!(
                r#"{{"position":{{"x":10,"y":20}},"rectangle":{{"width":40,"height":10}},"text":{{"text":"{name}"}}}}"#
            );
            assert_eq!(found(&format!("[{BAR},{stage}]")), Some([130.0, 25.0]), "{name}");
        }
    }

    #[test]
    fn middle_of_every_shape_is_found() {
        let text = r#""text":{"text":"stage","position":{"x":1,"y":2}}"#;
        let at = |rest: &str| found(&format!(r#"[{{"position":{{"x":10,"y":20}},{text}{rest}}}]"#));
        assert_eq!(at(""), Some([111.0, 22.0]));
        let triangle = at(r#","polygon":{"points":[{"x":0,"y":0},{"x":30,"y":0},{"x":0,"y":30}]}"#);
        assert_eq!(triangle, Some([125.0, 35.0]));
        assert_eq!(at(r#","shape":"circle","circle":{"radius":9}"#), Some([110.0, 20.0]));
        let turned = at(r#","rotation":90,"rectangle":{"width":8,"height":4}"#);
        assert_eq!(turned.map(|at| at.map(f64::round)), Some([108.0, 24.0]));
        assert_eq!(at(r#","rectangle":{"width":4,"height":4}"#), Some([112.0, 22.0]));
    }

    #[test]
    fn two_stages_or_shapes_with_other_texts_are_none() {
        assert_eq!(found(&format!("[{BAR}]")), None);
        assert_eq!(found(&format!("[{}]", BAR.replace("Bar", "Courtyard, Backstage"))), None);
        assert_eq!(found("[]"), None);
        let stage = r#"{"text":{"text":"Stage"}}"#;
        assert_eq!(found(&format!("[{stage},{stage}]")), None);
        assert_eq!(found(r#"[{"position":{"x":1,"y":1}}]"#), Some([101.0, 1.0]));
    }
}
