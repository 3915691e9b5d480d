//! What the fuzz targets share with the regression corpora.

#[path = "../../crates/hambo/tests/common/readers.rs"]
pub mod readers;

#[path = "../../crates/hambo-cli/tests/common/written.rs"]
pub mod written;
