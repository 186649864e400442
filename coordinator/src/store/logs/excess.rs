//! Records that one submitter has too many of. A record has the whole spec of its job, so a submitter of large jobs that
//! end at once would fill the disk long before the records are old.

use crate::store::sql::{Connection, Result, Row, params};
use std::collections::HashMap;

/// Key of a job's record: its row and its id.
pub(super) type RecordKey = (i64, [u8; 16]);

/// Number of records at which one call returns, at the end of a page.
pub(super) const EXCESS_AT_ONCE: usize = 10_000;
/// Records that one query reads.
const PAGE: u32 = 1_000;

/// Reads the sizes of records, newest first, in the order of an index. A window function of SQL would sort all records, in
/// memory.
const NEWEST_FIRST: &str = "SELECT j.seq, j.id, j.principal, j.finished_at_ms,
        octet_length(j.body) + octet_length(s.spec)
    FROM jobs j JOIN specs s ON s.seq = j.seq
    WHERE j.body IS NOT NULL AND j.finished_at_ms IS NOT NULL AND (j.finished_at_ms, j.seq) < (?1, ?2)
    ORDER BY j.finished_at_ms DESC, j.seq DESC LIMIT ?3";

struct RecordSize {
    key: RecordKey,
    submitter: String,
    finished_at_ms: i64,
    bytes: i64,
}

/// Returns records of ended jobs beyond this size for each submitter, in bytes. The newest records within the size stay.
pub(super) fn excess(connection: &Connection, most: u64) -> Result<Vec<RecordKey>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let (mut kept, mut found) = (HashMap::<String, i64>::new(), Vec::new());
    let mut before = (i64::MAX, i64::MAX);
    while found.len() < EXCESS_AT_ONCE {
        let page = page(connection, before)?;
        let is_last = page.len() < PAGE as usize;
        for record in page {
            before = (record.finished_at_ms, record.key.0);
            let kept = kept.entry(record.submitter).or_default();
            *kept = kept.saturating_add(record.bytes);
            if *kept > most {
                found.push(record.key);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

fn page(connection: &Connection, before: (i64, i64)) -> Result<Vec<RecordSize>> {
    let size = |row: &Row<'_>| {
        Ok(RecordSize {
            key: (row.get(0)?, row.get(1)?),
            submitter: row.get(2)?,
            finished_at_ms: row.get(3)?,
            bytes: row.get(4)?,
        })
    };
    connection.prepare_cached(NEWEST_FIRST)?.query_map(params![before.0, before.1, PAGE], size)?.collect()
}

#[cfg(test)]
mod tests {
    use super::{NEWEST_FIRST, PAGE, excess};
    use crate::store::sql::params;
    use crate::store::tests::support::scratch;
    use crate::store::{Store, sql};

    #[test]
    fn no_pass_over_the_records_sorts_them() {
        let directory = scratch();
        let store = Store::open(directory.path()).unwrap();
        let connection = store.reader().writing().unwrap();
        let plan: Vec<String> = connection
            .prepare_cached(&format!("EXPLAIN QUERY PLAN {NEWEST_FIRST}"))
            .unwrap()
            .query_map(params![i64::MAX, i64::MAX, PAGE], |row| row.get(3))
            .unwrap()
            .collect::<sql::Result<_>>()
            .unwrap();
        assert!(plan.iter().any(|step| step.contains("jobs_finished")), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }

    #[test]
    fn each_submitter_keeps_its_newest_records_over_many_pages() {
        let directory = scratch();
        let store = Store::open(directory.path()).unwrap();
        let connection = store.reader().writing().unwrap();
        let records = i64::from(PAGE) * 2 + 10;
        let transaction = connection.transaction().unwrap();
        for seq in 0..records {
            let id = uuid::Uuid::from_u128(seq as u128).into_bytes();
            let submitter = if seq % 2 == 0 { "one" } else { "two" };
            // Ends at the same time, on both sides of a page's end.
            let finished_at_ms = seq / 7;
            transaction
                .execute(
                    "INSERT INTO jobs(seq, id, created_at_ms, finished_at_ms, principal, body) VALUES(?1, ?2, 0, ?3, ?4, '12345')",
                    params![seq, id, finished_at_ms, submitter],
                )
                .unwrap();
            transaction.execute("INSERT INTO specs(seq, spec) VALUES(?1, '12345')", params![seq]).unwrap();
        }
        transaction.commit().unwrap();
        let mut found: Vec<i64> = excess(&connection, 50).unwrap().into_iter().map(|(seq, _)| seq).collect();
        found.sort_unstable();
        assert_eq!(found, (0..records - 10).collect::<Vec<_>>());
        assert_eq!(excess(&connection, u64::MAX).unwrap(), []);
    }
}
