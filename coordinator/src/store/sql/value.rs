//! Values of parameters and columns.

use bytes::{BufMut, Bytes, BytesMut};
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A parameter of a statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value<'v> {
    Null,
    Integer(i64),
    Text(&'v str),
    Blob(&'v [u8]),
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Integer(number) if *ty == Type::INT4 => out.put_i32(i32::try_from(number)?),
            Self::Integer(number) if *ty == Type::INT8 => out.put_i64(number),
            // PostgreSQL refuses a zero byte in a text. It must not make a record unwritable.
            Self::Text(text) if is_text(ty) => out.put_slice(text.replace('\0', "\u{fffd}").as_bytes()),
            Self::Blob(bytes) if *ty == Type::BYTEA => out.put_slice(bytes),
            Self::Integer(_) | Self::Text(_) | Self::Blob(_) => {
                return Err(format!("the parameter has another type than {ty}").into());
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        is_text(ty) || [Type::INT4, Type::INT8, Type::BYTEA].contains(ty)
    }

    to_sql_checked!();
}

fn is_text(ty: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR].contains(ty)
}

/// A type that can be a parameter.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

macro_rules! to_value {
    ($($from:ty, $value:ident => $to:expr;)*) => {
        $(impl ToValue for $from {
            fn to_value(&self) -> Value<'_> {
                let $value = self;
                $to
            }
        })*
    };
}

to_value! {
    i64, number => Value::Integer(*number);
    u32, number => Value::Integer(i64::from(*number));
    bool, is => Value::Integer(i64::from(*is));
    str, text => Value::Text(text);
    String, text => Value::Text(text);
    [u8], bytes => Value::Blob(bytes);
    Bytes, bytes => Value::Blob(bytes);
    Vec<u8>, bytes => Value::Blob(bytes);
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

/// The stored value of a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Raw<'r> {
    Null,
    Integer(i64),
    Text(&'r str),
    Blob(&'r [u8]),
}

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT4 => Self::Integer(i64::from(i32::from_sql(ty, raw)?)),
            Type::INT8 => Self::Integer(i64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Blob(raw),
            _ => Self::Text(<&str>::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        <Value<'_> as ToSql>::accepts(ty)
    }
}

/// A type that a column can have.
pub(crate) trait Column: Sized {
    /// Returns `None` if the value has another type.
    fn from_raw(raw: Raw<'_>) -> Option<Self>;
}

macro_rules! column {
    ($($to:ty: $pattern:pat => $value:expr;)*) => {
        $(impl Column for $to {
            fn from_raw(raw: Raw<'_>) -> Option<Self> {
                match raw {
                    $pattern => $value,
                    _ => None,
                }
            }
        })*
    };
}

column! {
    i64: Raw::Integer(number) => Some(number);
    u32: Raw::Integer(number) => number.try_into().ok();
    bool: Raw::Integer(number) => Some(number != 0);
    String: Raw::Text(text) => Some(text.to_owned());
    Vec<u8>: Raw::Blob(bytes) => Some(bytes.to_vec());
}

impl<const N: usize> Column for [u8; N] {
    fn from_raw(raw: Raw<'_>) -> Option<Self> {
        if let Raw::Blob(bytes) = raw { bytes.try_into().ok() } else { None }
    }
}

impl<T: Column> Column for Option<T> {
    fn from_raw(raw: Raw<'_>) -> Option<Self> {
        if raw == Raw::Null { Some(None) } else { T::from_raw(raw).map(Some) }
    }
}
