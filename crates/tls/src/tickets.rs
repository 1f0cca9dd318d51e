//! Session tickets (RFC 8446 4.6.1, RFC 5077): what a client brings along to resume. Their keys are made here, live for two
//! periods, the second only to open what was sealed before, and can be given to another process of the same server.
//!
//! A ticket is bound to a context: whose client certificates were believed when it was made. Under another context it
//! opens nothing, so that a client whose authority is no longer trusted must show its certificate again. So must one whose
//! certificate has expired.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;

/// For so long a key seals. Far fewer tickets are made in it than a key may seal with random nonces.
const PERIOD: Duration = Duration::from_secs(6 * 3600);
/// Keys in use: to seal, and to open what the one before has sealed.
const KEYS: usize = 2;
const SECRET: usize = 32;
const NAME: usize = 8;
/// What a key takes when it is given away: when it was made, its name and the secret.
const PACKED: usize = 8 + NAME + SECRET;

/// Bytes of a session that go into a ticket. A client brings it along in a greeting of at most 64 KiB. What makes it long are the client's
/// own certificates, and one that has so many shows them each time.
const LONGEST: usize = 32 << 10;

/// Of a client without a certificate.
pub(crate) const ENDLESS: i64 = i64::MAX;

thread_local! {
    /// The last second, since 1970, of the certificate of the client whose handshake this thread reads. Nobody looks at it again
    /// when the client resumes, and then it has a new ticket: a ticket is good for no longer than the certificate.
    pub(crate) static ENDS: Cell<i64> = const { Cell::new(ENDLESS) };
}

/// The keys, shared by all who make or open tickets.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    /// The youngest first.
    keys: RwLock<Vec<Arc<Key>>>,
}

struct Key {
    /// In seconds since 1970.
    made: u64,
    name: [u8; NAME],
    secret: [u8; SECRET],
    cipher: RandomizedNonceKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("made", &self.made).finish_non_exhaustive()
    }
}

impl Key {
    fn new(made: u64, name: [u8; NAME], secret: [u8; SECRET]) -> Option<Arc<Self>> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &secret).ok()?;
        Some(Arc::new(Self { made, name, secret, cipher }))
    }

    fn random(made: u64) -> Option<Arc<Self>> {
        let (mut name, mut secret) = ([0; NAME], [0; SECRET]);
        aws_lc_rs::rand::fill(&mut name).ok()?;
        aws_lc_rs::rand::fill(&mut secret).ok()?;
        Self::new(made, name, secret)
    }

    /// One of a time that is to come, since the clock was set back, would be used until then: it is not young either.
    fn is_younger(&self, age: Duration, now: u64) -> bool {
        now.abs_diff(self.made) < age.as_secs()
    }

    fn pack(&self) -> Vec<u8> {
        [&self.made.to_be_bytes()[..], &self.name, &self.secret].concat()
    }

    fn unpack(bytes: &[u8]) -> Option<Arc<Self>> {
        let (made, rest) = bytes.split_first_chunk()?;
        let (name, secret) = rest.split_first_chunk()?;
        Self::new(u64::from_be_bytes(*made), *name, secret.try_into().ok()?)
    }
}

impl Tickets {
    /// With keys that [`Tickets::pack`] has given; what is too old or makes no sense is left out.
    pub(crate) fn unpack(packed: &[u8]) -> Self {
        let keys: Vec<_> = packed.chunks(PACKED).take(KEYS).filter_map(Key::unpack).collect();
        Self { keys: RwLock::new(keys) }
    }

    /// The keys, for the process that replaces this one. They are secrets.
    pub(crate) fn pack(&self) -> Vec<u8> {
        self.sealing(now());
        self.read().iter().flat_map(|key| key.pack()).collect()
    }

    fn read(&self) -> Vec<Arc<Key>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key that seals now; a new one when the last has had its time. None when the system has no random bytes.
    fn sealing(&self, now: u64) -> Option<Arc<Key>> {
        let is_young = |key: &&Arc<Key>| key.is_younger(PERIOD, now);
        let find = |keys: &[Arc<Key>]| keys.first().filter(is_young).cloned();
        if let Some(key) = find(&self.keys.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(key);
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = find(&keys) {
            return Some(key); // another thread was here before
        }
        let key = Key::random(now)?;
        keys.insert(0, Arc::clone(&key));
        keys.truncate(KEYS);
        Some(key)
    }

    fn opening(&self, name: &[u8], now: u64) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().find(|key| key.name == name && key.is_younger(2 * PERIOD, now)).cloned()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The keys for one context.
#[derive(Debug)]
pub(crate) struct Ticketer {
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) context: Vec<u8>,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(PERIOD.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if plain.len() > LONGEST {
            return None;
        }
        let key = self.tickets.sealing(now())?;
        let mut sealed = [&ENDS.get().to_be_bytes()[..], plain].concat();
        let nonce = key.cipher.seal_in_place_append_tag(Aad::from(&self.context), &mut sealed).ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.tickets.opening(name, now())?;
        let mut plain = sealed.to_vec();
        let length = key.cipher.open_in_place(nonce, Aad::from(&self.context), &mut plain).ok()?.len();
        let (ends, session) = plain[..length].split_first_chunk()?;
        let ends = i64::from_be_bytes(*ends);
        ENDS.set(ends);
        (ends >= now().cast_signed()).then(|| session.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticketer(tickets: &Arc<Tickets>, context: &str) -> Ticketer {
        Ticketer { tickets: Arc::clone(tickets), context: context.into() }
    }

    #[test]
    fn a_ticket_opens_where_its_keys_are_and_nowhere_else() {
        let keys = Arc::new(Tickets::default());
        let ticket = ticketer(&keys, "").encrypt(b"session").unwrap();
        let successor = Arc::new(Tickets::unpack(&keys.pack()));
        let mut forged = ticket.clone();
        *forged.last_mut().unwrap() ^= 1;
        for (what, keys, context, ticket, opens) in [
            ("the same", &keys, "", &ticket[..], true),
            ("the process that has replaced it", &successor, "", &ticket, true),
            ("another server", &Arc::new(Tickets::default()), "", &ticket, false),
            ("another context", &keys, "another authority", &ticket, false),
            ("forged", &keys, "", &forged, false),
            ("cut short", &keys, "", &ticket[..20], false),
            ("none", &keys, "", b"", false),
        ] {
            let plain = ticketer(keys, context).decrypt(ticket);
            assert_eq!(plain.as_deref(), opens.then_some(&b"session"[..]), "{what}");
        }
    }

    #[test]
    fn a_ticket_is_good_for_no_longer_than_the_certificate_of_its_client() {
        let (keys, now) = (Arc::new(Tickets::default()), now().cast_signed());
        for (ends, opens) in [(now + 1000, true), (now - 1, false), (i64::MIN, false), (i64::MAX, true)] {
            ENDS.set(ends);
            let ticket = ticketer(&keys, "").encrypt(b"session").unwrap();
            ENDS.set(0);
            assert_eq!(ticketer(&keys, "").decrypt(&ticket).is_some(), opens, "{}", ends - now);
            assert_eq!(ENDS.get(), ends, "so is the next one");
        }
    }

    #[test]
    fn what_would_be_too_long_for_a_greeting_is_no_ticket() {
        let keys = Arc::new(Tickets::default());
        for (length, is_made) in [(100, true), (LONGEST, true), (LONGEST + 1, false), (100_000, false)] {
            assert_eq!(ticketer(&keys, "").encrypt(&vec![0; length]).is_some(), is_made, "{length}");
        }
    }

    #[test]
    fn keys_seal_for_one_period_and_open_for_two() {
        let keys = Tickets::default();
        let (start, period) = (1_000_000, PERIOD.as_secs());
        let first = keys.sealing(start).unwrap().name;
        assert_eq!(keys.sealing(start + period - 1).unwrap().name, first);
        let second = keys.sealing(start + period).unwrap().name;
        assert_ne!(second, first);
        assert!(keys.opening(&first, start + 2 * period - 1).is_some());
        assert!(keys.opening(&first, start + 2 * period).is_none());
        let third = keys.sealing(start + 2 * period).unwrap().name;
        assert!(keys.read().len() == KEYS && third != second);
        assert_eq!(keys.sealing(start + period + 1).unwrap().name, third, "the clock was a little fast");
        assert_ne!(keys.sealing(start).unwrap().name, third, "it was much too fast");
        assert!(keys.opening(&third, start).is_none());
    }

    #[test]
    fn nonsense_from_another_process_is_no_key() {
        for (packed, keys) in [(&b""[..], 0), (b"nonsense", 0), (&[7; PACKED], 1), (&[7; 5 * PACKED], KEYS)] {
            assert_eq!(Tickets::unpack(packed).read().len(), keys);
        }
    }
}
