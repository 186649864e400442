//! Evidence beyond the log: result bundles, crash files, test reports, memory.
