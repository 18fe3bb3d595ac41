//! One definition per setting: the macro `section!` makes of it the flag, the environment variable, the key in the file, the
//! default, the range, the help text and the lines of the example file. Each crate defines the sections that it reads.

mod checks;
mod span;
mod words;
mod zone;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum as _;
use jiff::tz::TimeZone;

use crate::telemetry::LogFormat;
pub use checks::{identity, path, secret};
pub use span::Span;
pub use words::Words;
pub use zone::{Zone, time_zone, zone_name};

/// A type that a setting can have.
pub trait Setting: Sized {
    /// The type of the setting in the resolved settings.
    type Value;

    /// Whether a flag without a value means `true`.
    const IS_SWITCH: bool = false;

    /// Reads a setting as it is written in a flag.
    fn read(text: &str) -> Result<Self, String>;

    /// The setting in the form of the resolved settings.
    fn value(self) -> Self::Value;

    /// A text as this type is written in the file.
    fn toml(text: &str) -> String {
        format!("\"{text}\"")
    }
}

macro_rules! plain {
    ($($type:ty, $toml:literal $(, switch $is_switch:literal)?;)*) => { $(
        impl Setting for $type {
            type Value = Self;

            $(const IS_SWITCH: bool = $is_switch;)?

            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error| format!("'{text}': {error}"))
            }

            fn value(self) -> Self {
                self
            }

            fn toml(text: &str) -> String {
                format!($toml, text)
            }
        }
    )* };
}

plain! {
    String, "\"{}\"";
    PathBuf, "\"{}\"";
    SocketAddr, "\"{}\"";
    u32, "{}";
    bool, "{}", switch true;
}

impl Setting for Span {
    type Value = Duration;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn value(self) -> Duration {
        self.0
    }
}

impl Setting for Words {
    type Value = Vec<String>;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn value(self) -> Vec<String> {
        self.0
    }
}

impl Setting for Zone {
    type Value = TimeZone;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn value(self) -> TimeZone {
        self.0
    }
}

impl Setting for LogFormat {
    type Value = Self;

    fn read(text: &str) -> Result<Self, String> {
        Self::from_str(text, false)
    }

    fn value(self) -> Self {
        self
    }
}

/// A list is written with commas or spaces between its items, as its setting says. Its default is the empty list.
impl<T> Setting for Vec<T> {
    type Value = Self;

    fn read(_: &str) -> Result<Self, String> {
        Ok(Self::new())
    }

    fn value(self) -> Self {
        self
    }
}

/// How many values a flag has. A switch may have one, behind `=`.
pub fn values_of<T: Setting>() -> RangeInclusive<usize> {
    if T::IS_SWITCH { 0..=1 } else { 1..=1 }
}

/// The value of a flag that is given without one.
pub fn bare_value<T: Setting>() -> Option<&'static str> {
    T::IS_SWITCH.then_some("true")
}

/// The default of a setting, which is written as in a flag.
pub fn default_of<T: Setting>(name: &str, default: &str) -> Result<T> {
    T::read(default).map_err(|error| anyhow!("default of {name}: {error}"))
}

/// Refuses a setting that is out of its range. The ends are written as in a flag.
pub fn check_range<T>(name: &str, value: &T, (least, most): (&str, &str)) -> Result<()>
where
    T: Setting + PartialOrd + std::fmt::Display,
{
    let range: RangeInclusive<T> = default_of(name, least)?..=default_of(name, most)?;
    ensure!(range.contains(value), "{name} is {value}; it may be {least} to {most}");
    Ok(())
}

/// A range in a help text. The range of most lengths of time, longer than zero, is obvious and not printed.
pub fn range_text(least: &str, most: &str) -> String {
    match (least, most) {
        ("1ns", _) => String::new(),
        (least, "4294967295") => format!(" [{least} or more]"),
        _ => format!(" [{least} to {most}]"),
    }
}

/// The lines of a doc comment as one text.
pub fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A text as comment lines of the example file.
pub fn comment(text: &str) -> String {
    const WIDTH: usize = 118;
    let mut lines = String::from("#");
    let mut length = 1;
    for word in text.split(' ') {
        if length + 1 + word.chars().count() > WIDTH {
            lines += "\n#";
            length = 1;
        }
        lines += " ";
        lines += word;
        length += 1 + word.chars().count();
    }
    lines + "\n"
}

/// Makes a section. Each setting is one entry:
///
/// `/// meaning` `name: Type = "flag", "VARIABLE", kind value [, in "least"..="most"];`
///
/// The kind determines the value if the setting is absent: `default` a value; `shown` the same, and the example file
/// sets it; `example` nothing, and the value is an example in TOML; `given` the same, and the example file sets it;
/// `list` an empty list.
#[macro_export]
macro_rules! section {
    ($(#[$meta:meta])* $name:ident $section:literal => $resolved:ident {
        $( $(#[doc = $doc:literal])+ $(#[arg($($arg:tt)*)])? $field:ident: $type:ty = $flag:literal, $env:literal,
           $kind:ident $value:expr $(, in $least:literal..=$most:literal)?; )*
    }) => {
        $(#[$meta])*
        /// The section as given. A setting that is neither in a flag nor in the environment nor in the file is `None`.
        #[derive(Debug, Clone, Default, PartialEq, clap::Args, serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        #[group(skip)]
        pub struct $name {
            $( $(#[doc = $doc])+
            #[arg(id = $flag, long = $flag, env = $env, hide_env_values = true)]
            #[arg(num_args = $crate::settings::values_of::<$type>())]
            #[arg(require_equals = <$type as $crate::settings::Setting>::IS_SWITCH)]
            #[arg(default_missing_value = $crate::settings::bare_value::<$type>(), $($($arg)*)?)]
            #[arg(help = $crate::section!(@help $kind, $crate::settings::joined(&[$($doc),+]), $value
                $(, $least, $most)?))]
            pub $field: Option<$type>, )*
        }

        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[allow(dead_code, reason = "the definition has all settings, and not every process uses each")]
        pub struct $resolved {
            $( $(#[doc = $doc])+ pub $field: $crate::section!(@type $kind $type), )*
        }

        impl $name {
            /// These settings; an absent setting is taken from `under`.
            #[must_use]
            pub fn over(self, under: Self) -> Self {
                Self { $( $field: self.$field.or(under.$field), )* }
            }

            /// These settings with their defaults.
            ///
            /// # Errors
            /// A setting that is out of its range.
            pub fn resolve(&self) -> anyhow::Result<$resolved> {
                $( let $field = {
                    let name = concat!($section, ".", stringify!($field)).replace('_', "-");
                    let given: Option<$type> = match self.$field.clone() {
                        None => $crate::section!(@default $kind $type, &name, $value),
                        given => given,
                    };
                    $( if let Some(value) = &given {
                        $crate::settings::check_range(&name, value, ($least, $most))?;
                    } )?
                    $crate::section!(@resolve $kind given)
                }; )*
                Ok($resolved { $($field),* })
            }

            /// The section in the example file.
            pub fn example() -> String {
                let mut text = concat!("[", $section, "]\n").to_owned();
                $( {
                    let about = $crate::settings::joined(&[$($doc),+]);
                    text += &$crate::settings::comment(&about);
                    let mark = $crate::section!(@mark $kind);
                    let key = stringify!($field).replace('_', "-");
                    text += &format!("{mark}{key} = {}\n", $crate::section!(@toml $kind $type, $value));
                } )*
                text
            }
        }
    };

    (@type default $type:ty) => { <$type as $crate::settings::Setting>::Value };
    (@type shown $type:ty) => { <$type as $crate::settings::Setting>::Value };
    (@type list $type:ty) => { <$type as $crate::settings::Setting>::Value };
    (@type $kind:ident $type:ty) => { Option<<$type as $crate::settings::Setting>::Value> };

    (@default default $type:ty, $name:expr, $value:expr) => {
        Some($crate::settings::default_of::<$type>($name, &$value.to_string())?)
    };
    (@default shown $type:ty, $name:expr, $value:expr) => {
        Some($crate::settings::default_of::<$type>($name, &$value.to_string())?)
    };
    (@default $kind:ident $type:ty, $name:expr, $value:expr) => {{
        let _ = $name;
        None
    }};

    (@resolve default $given:ident) => {
        $given.map($crate::settings::Setting::value).ok_or_else(|| anyhow::anyhow!("a setting without its default"))?
    };
    (@resolve shown $given:ident) => { $crate::section!(@resolve default $given) };
    (@resolve list $given:ident) => { $given.map($crate::settings::Setting::value).unwrap_or_default() };
    (@resolve $kind:ident $given:ident) => { $given.map($crate::settings::Setting::value) };

    (@help default, $about:expr, $value:expr) => { format!("{} [default: {}]", $about, $value) };
    (@help default, $about:expr, $value:expr, $least:literal, $most:literal) => {
        format!("{}{} [default: {}]", $about, $crate::settings::range_text($least, $most), $value)
    };
    (@help shown, $($rest:tt)*) => { $crate::section!(@help default, $($rest)*) };
    (@help $kind:ident, $about:expr, $value:expr $(, $least:literal, $most:literal)?) => { $about };

    (@mark shown) => { "" };
    (@mark given) => { "" };
    (@mark $kind:ident) => { "#:" };

    (@toml default $type:ty, $value:expr) => {
        <$type as $crate::settings::Setting>::toml(&$value.to_string())
    };
    (@toml shown $type:ty, $value:expr) => { $crate::section!(@toml default $type, $value) };
    (@toml $kind:ident $type:ty, $value:expr) => { $value };
}
