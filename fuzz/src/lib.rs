//! What the fuzz targets share with the regression corpus.

#[path = "../../crates/hambo/tests/common/readers.rs"]
pub mod readers;
