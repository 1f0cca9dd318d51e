//! What the authority has said of when to replace a certificate (RFC 9773), and when it is asked again.

use std::time::{Duration, Instant};

use howdah_acme::{Advice, Window};
use howdah_tls::Certificate;

/// An authority that has given no advice is asked for it again after so long (RFC 9773 4.3.3).
const AGAIN: Duration = Duration::from_secs(6 * 3600);
/// However soon it wants to be asked again.
const LEAST: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Hint {
    /// First and last second of the certificate, which tell it from others.
    of: Option<(i64, i64)>,
    window: Option<Window>,
    /// When the authority is asked again.
    again: Option<Instant>,
}

impl Hint {
    /// Whether nothing new is to be asked of this certificate.
    pub(super) fn is_fresh(&self, kept: &Certificate, now: Instant) -> bool {
        self.is_of(kept) && self.again.is_some_and(|again| now < again)
    }

    /// When the authority would like this one to be replaced.
    pub(super) fn window(&self, kept: &Certificate) -> Option<Window> {
        self.window.filter(|_| self.is_of(kept))
    }

    /// What was said of this one counts until something else is.
    pub(super) fn take(&mut self, kept: &Certificate, told: Option<&Advice>, now: Instant) {
        let window = told.map(|told| told.window).or(self.window(kept));
        let again = told.map_or(AGAIN, |told| told.again.max(LEAST));
        *self = Self { of: Some((kept.begins, kept.expires)), window, again: Some(now + again) };
    }

    fn is_of(&self, kept: &Certificate) -> bool {
        self.of == Some((kept.begins, kept.expires))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_counts_for_its_certificate_until_there_is_other() {
        let one = |expires| Certificate {
            file: "pem".into(),
            names: Vec::new(),
            expires,
            expiry: String::new(),
            begins: 0,
        };
        let (kept, other, start) = (one(100), one(200), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let advice = |start, seconds| Advice {
            window: Window { start, end: start },
            why: None,
            again: Duration::from_secs(seconds),
        };
        let mut hint = Hint::default();
        assert!(!hint.is_fresh(&kept, start) && hint.window(&kept).is_none());
        hint.take(&kept, Some(&advice(50, 0)), start);
        assert!(hint.is_fresh(&kept, at(3599)) && !hint.is_fresh(&kept, at(3600)), "once an hour at most");
        assert!(!hint.is_fresh(&other, start) && hint.window(&other).is_none(), "another certificate");
        hint.take(&kept, None, start);
        assert_eq!(hint.window(&kept).map(|window| window.start), Some(50), "no answer changes nothing");
        assert!(hint.is_fresh(&kept, at(6 * 3600 - 1)) && !hint.is_fresh(&kept, at(6 * 3600)));
        hint.take(&kept, Some(&advice(60, 86_400)), start);
        assert_eq!(hint.window(&kept).map(|window| window.start), Some(60));
        assert!(hint.is_fresh(&kept, at(86_399)));
        hint.take(&other, None, start);
        assert!(hint.window(&other).is_none() && hint.window(&kept).is_none());
    }
}
