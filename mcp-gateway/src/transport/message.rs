//! Parses incoming JSON-RPC messages and builds the error reply for invalid ones.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use serde_json::{Value, json};

/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is not a message.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the method exists, but the parameters are invalid.
const INVALID_PARAMS: i32 = -32602;
/// Methods and their valid parameters. A message with one of these methods and invalid parameters
/// would otherwise be treated as an unknown method.
const PARAMETERS: [(&str, &str); 5] = [
    ("tools/call", "`name`, a text, and `arguments`, an object"),
    ("resources/read", "`uri`, a text"),
    ("tasks/get", "`taskId`, a text"),
    ("tasks/update", "`taskId`, a text, and `inputResponses`, an object"),
    ("tasks/cancel", "`taskId`, a text"),
];

/// A message from a client.
pub(super) type Incoming = RxJsonRpcMessage<RoleServer>;

/// Reason why a text is not a valid message.
#[derive(Debug)]
pub(super) struct Broken {
    code: i32,
    id: Value,
    why: String,
    /// Whether it is a notification or a response, which gets no answer.
    is_one_way: bool,
}

/// Parses one message.
///
/// # Errors
/// The reason why it is invalid.
pub(super) fn read(bytes: &[u8]) -> Result<Incoming, Broken> {
    let error = match serde_json::from_slice::<Incoming>(bytes) {
        Ok(message) => return with_parameters(message),
        Err(error) => error,
    };
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => Err(odd(&value, &error)),
        Err(error) => Err(Broken {
            code: PARSE_ERROR,
            id: Value::Null,
            why: format!("this is not JSON: {error}"),
            is_one_way: false,
        }),
    }
}

fn with_parameters(message: Incoming) -> Result<Incoming, Broken> {
    let JsonRpcMessage::Request(request) = &message else { return Ok(message) };
    let ClientRequest::CustomRequest(custom) = &request.request else { return Ok(message) };
    let Some((method, valid)) = PARAMETERS.into_iter().find(|(method, _)| *method == custom.method) else {
        return Ok(message);
    };
    Err(Broken {
        code: INVALID_PARAMS,
        id: serde_json::to_value(&request.id).unwrap_or_default(),
        why: format!("the parameters of {method} can't be read; valid are {valid}"),
        is_one_way: false,
    })
}

fn odd(value: &Value, error: &serde_json::Error) -> Broken {
    let id = value.get("id").filter(|id| id.is_string() || id.is_number());
    let is_response = value.get("result").is_some() || value.get("error").is_some();
    let is_notification = value.get("method").is_some() && value.get("id").is_none();
    Broken {
        code: INVALID_REQUEST,
        id: id.filter(|_| !is_response).cloned().unwrap_or_default(),
        why: format!("this is JSON and no message of JSON-RPC 2.0: {error}"),
        is_one_way: is_response || is_notification,
    }
}

impl Broken {
    /// Returns the error for a message over the size limit.
    pub(super) fn too_long(most: usize) -> Self {
        Self {
            code: INVALID_REQUEST,
            id: Value::Null,
            why: format!("a message has at most {most} bytes"),
            is_one_way: false,
        }
    }

    /// Returns true if the message gets no answer.
    pub(super) const fn is_one_way(&self) -> bool {
        self.is_one_way
    }

    /// Returns the error reply of JSON-RPC 2.0.
    pub(super) fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.why}})
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_is_no_message_is_told_apart() {
        for (text, code, id, is_one_way) in [
            ("{\"jsonrpc\": \"2.0\",", -32700, "null", false),
            ("nonsense", -32700, "null", false),
            ("", -32700, "null", false),
            ("{} {}", -32700, "null", false),
            ("{}", -32600, "null", false),
            ("[]", -32600, "null", false),
            ("7", -32600, "null", false),
            (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, -32600, "3", false),
            (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32600, "\"a\"", false),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, "null", false),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_jobs","arguments":[1]}}"#,
                -32602,
                "4",
                false,
            ),
            (r#"{"jsonrpc":"2.0","id":5,"method":"tools/call"}"#, -32602, "5", false),
            (r#"{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":7}}"#, -32602, "6", false),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{}}"#, -32602, "7", false),
            (r#"{"jsonrpc":"1.0","method":"notifications/x"}"#, -32600, "null", true),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, -32600, "null", true),
        ] {
            let broken = read(text.as_bytes()).unwrap_err();
            let answer = broken.answer();
            assert_eq!(answer["error"]["code"], code, "{text}: {answer}");
            assert_eq!(answer["id"].to_string(), id, "{text}: {answer}");
            assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
            assert_eq!(broken.is_one_way(), is_one_way, "{text}");
        }
        assert!(read(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).is_ok());
        assert!(read(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#).is_ok());
        assert!(read(br#"{"jsonrpc":"2.0","method":"notifications/of-another-kind","params":{}}"#).is_ok());
    }
}
