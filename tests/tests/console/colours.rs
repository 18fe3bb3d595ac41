//! The colours of the map, as people with each common kind of colour blindness see them.

use std::fs;

use allot_tests::module::repository;

/// What a kind of colour vision makes of linear red, green and blue, at its full extent (Machado, Oliveira, Fernandes:
/// A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009).
const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

/// Smallest difference (CIEDE2000) between two tiers, and between a tier and a state.
const APART: f64 = 12.0;
/// Smallest contrast (WCAG) between blocked and sold seats, and between a tier and what it is drawn on.
const CONTRAST: f64 = 3.0;

type Colour = [f64; 3];

/// The value of a variable in the part of the style sheet for a scheme, in linear red, green and blue.
fn colour(part: &str, name: &str) -> Colour {
    let value = part.split(&format!("{name}: #")).nth(1).unwrap_or_else(|| panic!("{name}"));
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&value[2 * at..2 * at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    [channel(0), channel(1), channel(2)]
}

fn luminance([red, green, blue]: Colour) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(a: Colour, b: Colour) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

/// A colour as CIELAB, after a kind of colour vision.
fn lab(colour: Colour, vision: &[[f64; 3]; 3]) -> Colour {
    let times = |row: &[f64; 3], colour: Colour| row[0] * colour[0] + row[1] * colour[1] + row[2] * colour[2];
    let seen = vision.map(|row| times(&row, colour).clamp(0.0, 1.0));
    let [x, y, z] =
        [
            times(&[0.412_456_4, 0.357_576_1, 0.180_437_5], seen) / 0.950_47,
            times(&[0.212_672_9, 0.715_152_2, 0.072_175_0], seen),
            times(&[0.019_333_9, 0.119_192_0, 0.950_304_1], seen) / 1.088_83,
        ]
        .map(|value: f64| {
            if value > 216.0 / 24389.0 { value.cbrt() } else { (24389.0 / 27.0 * value + 16.0) / 116.0 }
        });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// The difference of two colours by CIEDE2000 (Sharma, Wu, Dalal, 2005).
fn difference([l1, a1, b1]: Colour, [l2, a2, b2]: Colour) -> f64 {
    let mean7 = (a1.hypot(b1).midpoint(a2.hypot(b2))).powi(7);
    let stretch = 1.0 + 0.5 * (1.0 - (mean7 / (mean7 + 25_f64.powi(7))).sqrt());
    let (a1, a2) = (a1 * stretch, a2 * stretch);
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let hue = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
    let (h1, h2) = (hue(a1, b1), hue(a2, b2));
    let turn = match h2 - h1 {
        turn if turn > 180.0 => turn - 360.0,
        turn if turn < -180.0 => turn + 360.0,
        turn => turn,
    };
    let (lightness, chroma) = (l2 - l1, c2 - c1);
    let hues = 2.0 * (c1 * c2).sqrt() * (turn / 2.0).to_radians().sin();
    let (l, c, h) = (l1.midpoint(l2), c1.midpoint(c2), (h1 + turn / 2.0).rem_euclid(360.0));
    let cos = |degrees: f64| degrees.to_radians().cos();
    let t = 1.0 - 0.17 * cos(h - 30.0) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0)
        - 0.2 * cos(4.0 * h - 63.0);
    let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
    let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
    let turned = 60.0 * (-((h - 275.0) / 25.0).powi(2)).exp();
    let rt = -2.0 * (c.powi(7) / (c.powi(7) + 25_f64.powi(7))).sqrt() * turned.to_radians().sin();
    let (lightness, chroma, hues) = (lightness / sl, chroma / sc, hues / sh);
    (lightness.powi(2) + chroma.powi(2) + hues.powi(2) + rt * chroma * hues).sqrt()
}

#[test]
fn difference_is_that_of_the_published_examples() {
    // Pairs 1, 7 and 25 of the paper's table of test data.
    for (a, b, published) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
    ] {
        let found = difference(a, b);
        assert!((found - published).abs() < 0.0001, "{found} and {published}");
    }
}

#[test]
fn tiers_and_states_differ_for_everybody() {
    let sheet = fs::read_to_string(repository().join("orchestrator/console/assets/style.css")).unwrap();
    let (light, dark) = sheet.split_once("@media (prefers-color-scheme: dark)").unwrap();
    for (scheme, part) in [("light", light), ("dark", dark)] {
        let tiers: Vec<(String, Colour)> = (0..8)
            .map(|tier| format!("--map-tier-{tier}"))
            .map(|name| (name.clone(), colour(part, &name)))
            .collect();
        let states = ["--held", "--map-sold", "--blocked"].map(|name| (name.to_owned(), colour(part, name)));
        for (vision, matrix) in &VISIONS {
            for (at, (name, tier)) in tiers.iter().enumerate() {
                for (other, colour) in tiers.iter().skip(at + 1).chain(&states) {
                    let apart = difference(lab(*tier, matrix), lab(*colour, matrix));
                    assert!(apart >= APART, "{scheme}, {vision}: {name} and {other} differ by {apart:.1}");
                }
            }
        }
        let between = contrast(colour(part, "--map-sold"), colour(part, "--blocked"));
        assert!(between >= CONTRAST, "{scheme}: sold and blocked have a contrast of {between:.2}");
        for (name, tier) in tiers {
            let on = contrast(tier, colour(part, "--panel"));
            assert!(on >= CONTRAST, "{scheme}: {name} has a contrast of {on:.2}");
        }
    }
}
