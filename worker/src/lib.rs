//! The worker: runs processes, spools and streams their output, explains how they ended.
