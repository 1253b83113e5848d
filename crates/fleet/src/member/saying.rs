//! What a member says when it refuses: told to people, so cut, and without anything that a terminal would obey.

use bytes::Bytes;
use http::StatusCode;
use koinon_control::words::{SENTENCE, clean};
use kube::core::Status;
use serde::Deserialize;

/// So many causes of one refusal are worth reading.
const CAUSES: usize = 32;
/// No name in Kubernetes is longer.
const NAME: usize = 253;

/// The body of a refusal as roles may show it.
pub(super) fn tidied(body: &Bytes) -> Bytes {
    let Ok(mut status) = serde_json::from_slice::<Status>(body) else {
        return clean(&String::from_utf8_lossy(&body[..body.len().min(4 * SENTENCE)]), SENTENCE).into();
    };
    status.message = clean(&status.message, SENTENCE);
    status.reason = clean(&status.reason, NAME);
    if let Some(details) = &mut status.details {
        for text in [&mut details.name, &mut details.group, &mut details.kind, &mut details.uid] {
            *text = clean(text, NAME);
        }
        details.causes.truncate(CAUSES);
        for cause in &mut details.causes {
            for text in [&mut cause.reason, &mut cause.message, &mut cause.field] {
                *text = clean(text, SENTENCE);
            }
        }
    }
    serde_json::to_vec(&status).map_or_else(|_| Bytes::new(), Bytes::from)
}

/// Why a probe was refused.
pub(super) fn refusal(status: StatusCode, body: &Bytes) -> String {
    #[derive(Deserialize)]
    struct Told {
        message: String,
    }
    let told = serde_json::from_slice::<Told>(body).map(|told| clean(&told.message, SENTENCE));
    let told = told.unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED => {
            "it refuses our credentials: put fresh ones into the member's Secret".to_owned()
        }
        StatusCode::FORBIDDEN => format!("it does not let us see who it is: {told}"),
        _ if told.is_empty() => format!("it answered {status}"),
        _ => format!("it answered {status}: {told}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_cut_and_cleaned_and_still_says_what_it_said() {
        let said = json!({"kind": "Status", "code": 404, "status": "Failure", "reason": "NotFound",
            "message": format!("\u{1b}[2Jpods {}", "x".repeat(1 << 20)),
            "details": {"name": "a", "kind": "pods", "causes": vec![json!({"message": "\u{7}"}); 1000]}});
        let body = tidied(&Bytes::from(said.to_string()));
        assert!(body.len() < 8 * SENTENCE, "{}", body.len());
        let status: Status = serde_json::from_slice(&body).unwrap();
        assert!(status.message.starts_with("[2Jpods xxx"), "{}", &status.message[..20]);
        assert_eq!((status.code, status.details.unwrap().name.as_str()), (404, "a"));
        assert_eq!(tidied(&Bytes::from("<h1>\u{1b}[31mBad gateway</h1>\n")), "<h1> [31mBad gateway</h1>");
        let told = refusal(StatusCode::IM_A_TEAPOT, &Bytes::from(said.to_string()));
        assert!(told.len() < 2 * SENTENCE && !told.contains('\u{1b}'));
    }
}
