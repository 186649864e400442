//! Where a counted line stands, and which task printed it.

use crate::hashing::hashed;

/// Position of a line in its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinePosition {
    /// Line number.
    pub(crate) number: u64,
    pub(crate) after_blank: bool,
    /// Task that printed it, if the log names one.
    pub(crate) task: Option<Task>,
}

/// A task whose name begins a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Hash of its name.
    pub(super) name: u64,
    /// It is a script of a package, such as `web:test` or `packages/a test`. A container or a numbered step may run
    /// any commands.
    pub(super) is_script: bool,
}

impl Task {
    /// Returns the task with this name, or `None` if it is empty.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let is_script = name.trim_ascii_end().iter().any(|byte| matches!(byte, b':' | b' '));
        (!name.is_empty()).then(|| Self { name: hashed(name), is_script })
    }
}
