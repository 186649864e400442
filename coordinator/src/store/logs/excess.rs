//! Records that one submitter has too many of. A record has the whole spec of its job, so a submitter of large jobs that
//! end at once would fill the disk long before the records are old.

use crate::store::sql::{Connection, Result, Row, params};

/// Key of a job's record: its row and its id.
pub(super) type RecordKey = (i64, [u8; 16]);

/// Records that one call returns.
const AT_ONCE: u32 = 10_000;

/// Returns the oldest records of ended jobs beyond this size for each submitter, in bytes.
pub(super) fn excess(connection: &Connection, most: u64) -> Result<Vec<RecordKey>> {
    let sql = "SELECT seq, id FROM (
                   SELECT j.seq AS seq, j.id AS id, sum(octet_length(j.body) + octet_length(s.spec))
                       OVER (PARTITION BY j.principal ORDER BY j.finished_at_ms DESC, j.seq DESC) AS kept
                   FROM jobs j JOIN specs s ON s.seq = j.seq
                   WHERE j.body IS NOT NULL AND j.finished_at_ms IS NOT NULL
               ) AS sizes WHERE kept > ?1 LIMIT ?2";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    connection.prepare_cached(sql)?.query_map(params![most, AT_ONCE], rows)?.collect()
}
