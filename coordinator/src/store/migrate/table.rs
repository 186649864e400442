//! One table, as SQLite describes it, and the copy of its rows between two databases.

use crate::store::sql::{Column, Connection, Kind, Raw, Result, Row, Value, params};

/// Rows of one transaction. A short log is up to 64 KiB.
const ROWS: u32 = 200;

/// A table that both databases have.
pub(super) struct Table {
    pub(super) name: String,
    columns: Vec<Field>,
}

struct Field {
    name: String,
    is_text: bool,
    /// Place in the primary key, from 1 on. 0 for other columns.
    key: i64,
}

/// Rows and an order-free checksum of them.
#[derive(PartialEq, Eq, Default, Debug)]
pub(super) struct Sum {
    pub(super) rows: u64,
    hash: [u8; 32],
}

/// The value of any column.
#[derive(Clone, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Column for Cell {
    fn from_raw(raw: Raw<'_>) -> Option<Self> {
        Some(match raw {
            Raw::Null => Self::Null,
            Raw::Integer(number) => Self::Integer(number),
            // A server has no zero byte in a text. It keeps this character in its place.
            Raw::Text(text) => Self::Text(text.replace('\0', "\u{fffd}")),
            Raw::Blob(bytes) => Self::Blob(bytes.to_vec()),
        })
    }
}

impl Cell {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }

    fn hash(&self, hasher: &mut blake3::Hasher) {
        let (kind, bytes): (u8, &[u8]) = match self {
            Self::Null => (0, &[]),
            Self::Integer(number) => (1, &number.to_le_bytes()),
            Self::Text(text) => (2, text.as_bytes()),
            Self::Blob(bytes) => (3, bytes),
        };
        hasher.update(&[kind]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
}

impl Table {
    /// Returns the tables of a SQLite database.
    pub(super) fn all(sqlite: &Connection) -> Result<Vec<Self>> {
        let names =
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        let names = sqlite.prepare_cached(names)?.query_map(&[], |row| row.get::<String>(0))?;
        names.map(|name| Self::read(sqlite, name?)).collect()
    }

    fn read(sqlite: &Connection, name: String) -> Result<Self> {
        let columns = "SELECT name, type = 'TEXT', pk FROM pragma_table_info(?1) ORDER BY cid";
        let columns = sqlite.prepare_cached(columns)?.query_map(params![name], |row| {
            Ok(Field { name: row.get(0)?, is_text: row.get(1)?, key: row.get(2)? })
        })?;
        Ok(Self { columns: columns.collect::<Result<_>>()?, name })
    }

    fn key(&self) -> Vec<usize> {
        let mut key: Vec<usize> =
            (0..self.columns.len()).filter(|index| self.columns[*index].key > 0).collect();
        key.sort_by_key(|index| self.columns[*index].key);
        key
    }

    fn names(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Passes all rows to `each`, some at a time, in the order of the key.
    fn pages(&self, from: &Connection, mut each: impl FnMut(&[Vec<Cell>]) -> Result<()>) -> Result<()> {
        let key = self.key();
        // Both databases compare the bytes then.
        let collate = if from.kind() == Kind::Server { " COLLATE \"C\"" } else { "" };
        let ordered = |index: &usize| {
            let column = &self.columns[*index];
            format!("{}{}", column.name, if column.is_text { collate } else { "" })
        };
        let order = key.iter().map(ordered).collect::<Vec<_>>().join(", ");
        let marks = (1..=key.len()).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let (names, table) = (self.names(), &self.name);
        let first = format!("SELECT {names} FROM {table} ORDER BY {order} LIMIT {ROWS}");
        let next =
            format!("SELECT {names} FROM {table} WHERE ({order}) > ({marks}) ORDER BY {order} LIMIT {ROWS}");
        let row = |row: &Row<'_>| (0..self.columns.len()).map(|index| row.get::<Cell>(index)).collect();
        let mut after: Option<Vec<Cell>> = None;
        loop {
            let values: Vec<Value<'_>> = after.iter().flatten().map(Cell::value).collect();
            let sql = if after.is_some() { &next } else { &first };
            let rows: Vec<Vec<Cell>> =
                from.prepare_cached(sql)?.query_map(&values, row)?.collect::<Result<_>>()?;
            let Some(last) = rows.last() else { return Ok(()) };
            let end = key.iter().map(|index| last[*index].clone()).collect();
            each(&rows)?;
            after = Some(end);
        }
    }

    /// Copies the rows that the target lacks.
    pub(super) fn copy(&self, from: &Connection, to: &Connection) -> Result<()> {
        let marks =
            (1..=self.columns.len()).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let (names, table) = (self.names(), &self.name);
        // A number of a start may be there already: the mark of the migration has made the table.
        let insert = format!("INSERT INTO {table}({names}) VALUES({marks}) ON CONFLICT DO NOTHING");
        self.pages(from, |rows| {
            let transaction = to.transaction()?;
            for row in rows {
                let values: Vec<Value<'_>> = row.iter().map(Cell::value).collect();
                transaction.execute(&insert, &values)?;
            }
            transaction.commit()
        })?;
        self.count_on(to)
    }

    /// Makes a server number the next row after the copied ones, as SQLite does.
    fn count_on(&self, to: &Connection) -> Result<()> {
        let [index] = self.key()[..] else { return Ok(()) };
        let column = &self.columns[index].name;
        if to.kind() == Kind::Sqlite || self.columns[index].is_text {
            return Ok(());
        }
        let table = &self.name;
        let sequence = format!("SELECT pg_get_serial_sequence('{table}', '{column}')");
        let sequence: Option<String> = to.query_row(&sequence, &[], |row| row.get(0))?;
        let Some(sequence) = sequence else { return Ok(()) };
        let set = format!("SELECT setval('{sequence}', GREATEST((SELECT MAX({column}) FROM {table}), 1))");
        to.query_row(&set, &[], |row| row.get::<i64>(0)).map(drop)
    }

    pub(super) fn sum(&self, connection: &Connection) -> Result<Sum> {
        let mut sum = Sum::default();
        self.pages(connection, |rows| {
            // The numbers of starts and the mark differ.
            for row in rows.iter().filter(|_| self.name != "meta") {
                let mut hasher = blake3::Hasher::new();
                row.iter().for_each(|cell| cell.hash(&mut hasher));
                for (sum, byte) in sum.hash.iter_mut().zip(hasher.finalize().as_bytes()) {
                    *sum ^= byte;
                }
                sum.rows += 1;
            }
            Ok(())
        })?;
        Ok(sum)
    }
}
