//! Who runs what, until when, and why not yet: the pool as a pure state machine.
