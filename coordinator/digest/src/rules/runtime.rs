//! Placeholder table.

use super::Rule;

pub(super) const RULES: &[Rule] = &[];
