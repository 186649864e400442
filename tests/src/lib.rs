//! What needs more than one part: harness for simulation, end-to-end, fault and conformance tests.
