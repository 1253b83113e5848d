//! Who may look at the dashboard: those with its token, under a name that is the server's own.
//!
//! A page of somebody else in the user's browser must get nothing: it knows no token, the browser does not send the cookie
//! for it, and a name of its own that it has lead here (DNS rebinding) is not answered.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use koinon_apiserver::auth::identity::bearer;
use koinon_context::Context;

const COOKIE: &str = "koinon-dashboard";

/// What the browser may do with the page: load its own parts, and nothing from or to anywhere else.
pub(super) const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    // The token is in the address that the user opens.
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// The door of one dashboard.
pub(super) struct Door {
    token: String,
    /// Cookies are for a host and all its ports, so each port has a name of its own.
    cookie: String,
    /// Names under which it may be asked for, beside addresses.
    names: Vec<String>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Serve,
    /// The token was in the address: it is kept in a cookie, and gone from the address.
    Welcome {
        cookie: String,
    },
    /// The token is missing or wrong.
    Stranger,
    /// It was asked for under a name that is not its own.
    WrongHost,
}

impl Door {
    pub(super) fn new(address: SocketAddr, names: &[String], context: &Context) -> Door {
        let mut bytes = [0; 24];
        context.fill(&mut bytes);
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let cookie = format!("{COOKIE}-{}", address.port());
        Door { token, cookie, names: names.to_vec() }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Decides about one request.
    pub(super) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| text(header::HOST));
        if !host.is_some_and(|host| self.is_own(host)) {
            return Answer::WrongHost;
        }
        let asked = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("token="));
        if asked.is_some_and(|token| self.is_token(token)) {
            let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token);
            return Answer::Welcome { cookie };
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let kept = pairs.any(|(name, value)| name == self.cookie && self.is_token(value));
        let said = text(header::AUTHORIZATION).and_then(bearer).is_some_and(|token| self.is_token(token));
        if kept || said { Answer::Serve } else { Answer::Stranger }
    }

    /// Whether a Host header is one of ours. Whoever has a name lead here cannot have an address do so.
    fn is_own(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<SocketAddr>() {
            return !address.ip().is_unspecified();
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Takes the same time however much of the token is right.
    fn is_token(&self, token: &str) -> bool {
        let (one, other) = (self.token.as_bytes(), token.as_bytes());
        one.len() == other.len() && one.iter().zip(other).fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door::new("127.0.0.1:7480".parse().unwrap(), &["board.example.com".into()], &Context::real())
    }

    fn admit(door: &Door, path: &str, headers: &[(HeaderName, &str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        door.admit(&path.parse().unwrap(), &headers)
    }

    #[test]
    fn without_its_token_nothing_is_shown() {
        let door = door();
        let host = (header::HOST, "127.0.0.1:7480");
        assert_eq!(admit(&door, "/", std::slice::from_ref(&host)), Answer::Stranger);
        assert_eq!(admit(&door, "/?token=", std::slice::from_ref(&host)), Answer::Stranger);
        let wrong = format!("/?token={}", "0".repeat(door.token.len()));
        assert_eq!(admit(&door, &wrong, std::slice::from_ref(&host)), Answer::Stranger);
        let right = format!("/?token={}", door.token);
        let Answer::Welcome { cookie } = admit(&door, &right, std::slice::from_ref(&host)) else {
            panic!("the token opens");
        };
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let kept = format!("other=1; {}", cookie.split(';').next().unwrap());
        assert_eq!(admit(&door, "/status.json", &[host.clone(), (header::COOKIE, &kept)]), Answer::Serve);
        let said = format!("Bearer {}", door.token);
        assert_eq!(admit(&door, "/status.json", &[host, (header::AUTHORIZATION, &said)]), Answer::Serve);
        assert_ne!(door.token, super::tests::door().token, "another for each start");
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let door = door();
        let path = format!("/?token={}", door.token);
        let own = [
            "127.0.0.1:7480",
            "localhost:7480",
            "LOCALHOST",
            "[::1]:7480",
            "192.0.2.7:7480",
            "board.example.com:7480",
        ];
        for host in own {
            let answer = admit(&door, &path, &[(header::HOST, host)]);
            assert!(matches!(answer, Answer::Welcome { .. }), "{host}");
        }
        for host in
            ["evil.example.com:7480", "localhost.evil.com", "127.0.0.1.evil.com:7480", "", "0.0.0.0:7480"]
        {
            assert_eq!(admit(&door, &path, &[(header::HOST, host)]), Answer::WrongHost, "{host:?}");
        }
        assert_eq!(admit(&door, &path, &[]), Answer::WrongHost);
    }
}
