//! From log bytes, an ending and reports to a verdict, findings and budgeted text: pure and incremental.
