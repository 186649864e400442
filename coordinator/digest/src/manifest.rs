//! A build of several jobs as one manifest.
