//! Templates: built-in ones, and those of a project's file.
