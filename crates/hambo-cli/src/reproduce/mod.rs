//! The experiments of the paper, each with its table, its picture, and what it says of the paper's claims.

pub mod estimates;
pub mod fig1;
pub mod fig2;
pub mod page;

use crate::plane::Plane;
use crate::plot::{Drawing, Drawn, Panel};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The outcome of an experiment.
pub struct Reproduced {
    /// Table with an introduction, for people.
    pub text: String,
    /// Everything that was measured, for programs.
    pub numbers: Value,
    pub picture: Picture,
    pub claims: Vec<Claim>,
}

/// What is drawn of it.
pub enum Picture {
    Charts(Vec<Panel>),
    Planes(Vec<Plane>),
}

/// What the paper says, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub claim: String,
    pub found: String,
    /// None where nothing here can tell.
    pub confirmed: Option<bool>,
}

impl Drawing for Picture {
    fn size(&self) -> (u32, u32) {
        match self {
            Picture::Charts(panels) => panels[..].size(),
            Picture::Planes(planes) => planes[..].size(),
        }
    }

    fn draw<B: DrawingBackend>(&self, root: DrawingArea<B, Shift>, scale: u32) -> Drawn<B> {
        match self {
            Picture::Charts(panels) => panels[..].draw(root, scale),
            Picture::Planes(planes) => planes[..].draw(root, scale),
        }
    }
}
