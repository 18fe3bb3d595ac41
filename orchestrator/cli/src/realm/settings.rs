//! `allot conference settings`: prints the settings of a realm, or changes them.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::session::{Target, connect};
use crate::outcome::Outcome;
use crate::table::print_one;
use allot_client::{Placement, Policy, RealmChanges};
use allot_runtime::settings::Span;

/// Arguments of `allot conference settings`.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Licences of all conferences together; 0 for no limit.
    #[arg(long, value_name = "N")]
    licences: Option<u64>,
    /// The wait before a unit that could not create a conference is tried again.
    #[arg(long, value_name = "TIME")]
    retry: Option<Span>,
    /// The longest wait of a conference for recovery.
    #[arg(long, value_name = "TIME")]
    window: Option<Span>,
    /// Which copy of a conference continues when an older copy reports again.
    #[arg(long)]
    policy: Option<PolicyWord>,
    /// How long a unit may take to create a conference.
    #[arg(long, value_name = "TIME")]
    create_timeout: Option<Span>,
    /// How long a unit may take to end a conference.
    #[arg(long, value_name = "TIME")]
    release_timeout: Option<Span>,
    /// How long a unit may take to report after a new scheduler took over.
    #[arg(long, value_name = "TIME")]
    wait_timeout: Option<Span>,
    /// How long an ended conference, or a down unit without conferences, is on record.
    #[arg(long, value_name = "TIME")]
    tombstone: Option<Span>,
    /// What the placement of conferences compares.
    #[arg(long)]
    place: Option<PlaceWord>,
    #[command(flatten)]
    realm: Target,
}

/// A word of `--place`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlaceWord {
    /// The used share of each unit's capacity.
    Share,
    /// The greater of this share and the load that the unit reported.
    Load,
}

/// A word of `--policy`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PolicyWord {
    /// The copy that was created earliest.
    Earliest,
    /// The copy of the current owner.
    Keep,
}

impl From<PlaceWord> for Placement {
    fn from(word: PlaceWord) -> Self {
        match word {
            PlaceWord::Share => Self::Share,
            PlaceWord::Load => Self::Load,
        }
    }
}

impl From<PolicyWord> for Policy {
    fn from(word: PolicyWord) -> Self {
        match word {
            PolicyWord::Earliest => Self::Earliest,
            PolicyWord::Keep => Self::Keep,
        }
    }
}

/// Changes settings of the realm, if any are given, and prints its record.
pub(super) async fn run(arguments: Settings) -> Result<Outcome> {
    let store = connect(&arguments.realm.source).await?;
    let changes = RealmChanges {
        licences: arguments.licences,
        retry: arguments.retry.map(|time| time.0),
        window: arguments.window.map(|time| time.0),
        policy: arguments.policy.map(Policy::from),
        create_timeout: arguments.create_timeout.map(|time| time.0),
        release_timeout: arguments.release_timeout.map(|time| time.0),
        wait_timeout: arguments.wait_timeout.map(|time| time.0),
        tombstone: arguments.tombstone.map(|time| time.0),
        place: arguments.place.map(Placement::from),
    };
    if changes == RealmChanges::default() {
        // `CONF.REALM` creates a realm that does not exist; this request is refused in that case.
        store.stat().await?;
    }
    print_one(&store.configure(&changes).await?, arguments.realm.json).map(|()| Outcome::Done)
}
