//! Schemas of texts with a fixed form. The document names them, so that a program can check a value before it sends it.

use utoipa::ToSchema;

/// Id of a job, or a unique prefix of it.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^([0-9A-Fa-f][0-9A-Fa-f-]{0,31}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$", example = "01a204df-0000-7000-8000-000000000000")]
pub(super) struct JobText(#[expect(dead_code, reason = "only its schema is used")] String);

/// Id of a build, as `request_id` of its jobs.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^build-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")]
pub(super) struct BuildText(#[expect(dead_code, reason = "only its schema is used")] String);

/// Place in a list of jobs: `next_cursor` of an earlier answer.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[0-9]{1,15}:[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")]
pub(super) struct ListCursor(#[expect(dead_code, reason = "only its schema is used")] String);

/// Place in a list of tests: `next_cursor` of an earlier answer.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[0-9]{1,18}:[0-9]{1,18}$")]
pub(super) struct TestCursor(#[expect(dead_code, reason = "only its schema is used")] String);

/// Id of an event of a log. An empty one is ignored.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^([0-9]{1,9}:[0-9]{1,15}(:[0-9]{1,9})?)?$")]
pub(super) struct LogPlace(#[expect(dead_code, reason = "only its schema is used")] String);

/// Place in a log: `next_cursor` of an earlier answer, or the id of an event.
#[derive(ToSchema)]
#[schema(
    value_type = String,
    pattern = "^[0-9]{1,9}:[0-9]{1,15}(:[0-9]{1,9}(:[0-9]{1,9}(:[0-9]{1,15}:[0-9]{1,9}:[0-9]{1,9})?)?)?(-[0-9]{1,15}:[0-9]{1,9}-[0-9]{1,15}:[0-9]{1,9})?$"
)]
pub(super) struct LogCursor(#[expect(dead_code, reason = "only its schema is used")] String);

/// Key of a request that must not take effect twice.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[!-~]{1,255}$")]
pub(super) struct RequestKey(#[expect(dead_code, reason = "only its schema is used")] String);

/// Id of a finding: `id` in the lists of findings.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[!-~]{1,128}$")]
pub(super) struct FindingText(#[expect(dead_code, reason = "only its schema is used")] String);

/// Id of a snapshot: `snapshot.id` of a job.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")]
pub(super) struct SnapshotText(#[expect(dead_code, reason = "only its schema is used")] String);

/// Label that a worker needs: `KEY`, or `KEY=VALUE`.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[A-Za-z0-9_./-]{1,128}(=[^\\x00]{0,256})?$")]
pub(super) struct LabelText(#[expect(dead_code, reason = "only its schema is used")] String);

/// Name of a resource, group or token: letters, digits, `_`, `-`, `.` and `/`.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[A-Za-z0-9_./-]{1,128}$")]
pub(super) struct Name(#[expect(dead_code, reason = "only its schema is used")] String);

/// Text for `sh -c`.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[^\\x00]+$")]
pub(super) struct ShellText(#[expect(dead_code, reason = "only its schema is used")] String);

/// A program and its arguments.
#[derive(ToSchema)]
#[schema(value_type = Vec<String>, min_items = 1)]
pub(super) struct Argv(#[expect(dead_code, reason = "only its schema is used")] Vec<String>);

/// Path or glob below the command's directory.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[^\\x00]+$")]
pub(super) struct Glob(#[expect(dead_code, reason = "only its schema is used")] String);

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(super) struct FileBytes(#[expect(dead_code, reason = "only its schema is used")] String);
