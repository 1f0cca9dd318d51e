//! Certificates by ACME: for which names, from whom, and where they are kept.

use std::path::PathBuf;

use clap::{Args, Command, ValueEnum};
use howdah_acme::{Binding, Place, Proof, Wish, is_place};

/// Let's Encrypt.
const AUTHORITY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Of root's servers.
const SYSTEM: &str = "/var/lib/howdah/acme";

/// Names and the authority.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Acme {
    /// Name to get a certificate for from Let's Encrypt (repeatable)
    ///
    /// Several stand in one certificate, also joined by commas. It is ordered once the server listens, and again when two
    /// thirds of its life are over, or half of a short one; until the first one comes, a stand-in of our own making is used. The names must lead to this server:
    /// port 443 to a listener with TLS, or with --acme-challenge http-01 port 80 to one without, be it --redirect-to-https. With this
    /// option you accept the authority's terms of service.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    acme: Vec<String>,

    /// Address that the authority may write to
    ///
    /// Another one is told to the authority from the next start on.
    #[arg(long, hide_short_help = true, value_name = "ADDRESS")]
    acme_email: Option<String>,

    /// The authority, by the URL of its directory
    #[arg(long, hide_short_help = true, value_name = "URL", default_value = AUTHORITY, value_parser = authority)]
    acme_directory: String,

    /// Where account and certificates are kept [default: /var/lib/howdah/acme for root]
    ///
    /// Else acme in $XDG_STATE_HOME/howdah or ~/.local/state/howdah. Servers with the same directory share them.
    #[arg(long, hide_short_help = true, value_name = "DIR")]
    acme_dir: Option<PathBuf>,

    /// Root of the authority's own certificate, in PEM, in place of the system's
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    acme_ca: Option<PathBuf>,

    /// Whose account it is to be, by the identifier that the authority has given (EAB)
    ///
    /// For an authority that has customers, as ZeroSSL, Google and those of companies: they give an identifier and a key.
    #[arg(long, hide_short_help = true, value_name = "ID")]
    acme_eab_kid: Option<String>,

    /// File with the key that the authority has given beside --acme-eab-kid, in base64
    ///
    /// It is read at the start, by the user that starts the server, and used to open the account.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    acme_eab_key_file: Option<PathBuf>,

    /// Kind of certificate, of those that the authority offers [default: its own choice]
    ///
    /// As shortlived, of Let's Encrypt: certificates for six days.
    #[arg(long, hide_short_help = true, value_name = "PROFILE")]
    acme_profile: Option<String>,

    /// How names are proven to be ours
    #[arg(long, hide_short_help = true, value_name = "HOW", value_enum, default_value = "tls-alpn-01")]
    acme_challenge: Challenge,
}

/// See [`Acme::acme_challenge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Challenge {
    /// At a listener with TLS.
    #[value(name = "tls-alpn-01")]
    Tls,
    /// At a listener without.
    #[value(name = "http-01")]
    Http,
}

impl Acme {
    /// Whether a certificate is to be had.
    pub(crate) fn is_on(&self) -> bool {
        !self.acme.is_empty()
    }

    /// What is wanted.
    ///
    /// # Errors
    /// When the file with a key has none.
    pub(crate) fn wish(&self) -> Result<Wish, howdah_acme::Error> {
        let given = self.acme_eab_kid.as_ref().zip(self.acme_eab_key_file.as_ref());
        Ok(Wish {
            names: self.names(),
            email: self.acme_email.clone(),
            binding: given.map(|(id, file)| Binding::read(id, file)).transpose()?,
            profile: self.acme_profile.clone(),
            directory: self.acme_directory.clone(),
            root: self.acme_ca.clone(),
            proof: match self.acme_challenge {
                Challenge::Tls => Proof::Tls,
                Challenge::Http => Proof::Http,
            },
        })
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.acme.clone();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Where it is kept; none without names.
    pub(crate) fn place(&self) -> Option<Place> {
        let all = self.acme_dir.clone().or_else(default_directory)?;
        let all = std::path::absolute(&all).unwrap_or(all);
        self.is_on().then(|| Place::of(&all, &self.acme_directory, &self.names()))
    }

    /// The port at which the authority is asked.
    pub(crate) fn port(&self) -> u16 {
        let place = self.acme_directory.split('/').nth(2).unwrap_or_default();
        place.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(443)
    }

    /// The root of the authority's certificate.
    pub(crate) fn root(&self) -> Option<&PathBuf> {
        self.acme_ca.as_ref().filter(|_| self.is_on())
    }

    /// What does not go together, and the way out. `shut` is said when clients without a certificate are turned away.
    pub(super) fn fault(&self, shut: bool, is_given: impl Fn(&str) -> bool) -> Option<String> {
        if !self.is_on() {
            // None of the others has an effect without a name.
            let command = Self::augment_args(Command::new(""));
            let option = command.get_arguments().find(|arg| is_given(arg.get_id().as_str()))?.get_long()?;
            return Some(format!(
                "--{option} needs a name to get a certificate for: give one by --acme NAME"
            ));
        }
        let missing = match (&self.acme_eab_kid, &self.acme_eab_key_file) {
            (Some(_), None) => {
                Some("--acme-eab-kid needs the key that belongs to it: name its file by --acme-eab-key-file")
            }
            (None, Some(_)) => {
                Some("--acme-eab-key-file needs the identifier that belongs to it: give it by --acme-eab-kid")
            }
            _ => None,
        };
        if let Some(missing) = missing {
            return Some(missing.to_owned());
        }
        if self.place().is_none() {
            return Some(
                "--acme needs a directory to keep certificates in: name one by --acme-dir".to_owned(),
            );
        }
        (shut && self.acme_challenge == Challenge::Tls).then(|| {
            "--tls-client-ca turns the authority away, which has no certificate: choose --acme-challenge http-01, or \
             --tls-client optional"
                .to_owned()
        })
    }
}

fn default_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(SYSTEM.into());
    }
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("howdah/acme"))
}

/// As a browser writes it. Authorities prove a wildcard by DNS alone, and addresses hardly ever.
fn name(text: &str) -> Result<String, String> {
    if text.starts_with('*') {
        return Err(
            "a wildcard cannot be proven by this server: name each host, or use --tls-cert".to_owned()
        );
    }
    if !text.is_ascii() {
        return Err(
            "a name with other letters than a to z is written as the DNS has it, which begins with xn-- \
                    (idn2 prints that)"
                .to_owned(),
        );
    }
    let fits = |label: &str| {
        let is_bare = !label.starts_with('-') && !label.ends_with('-');
        is_bare
            && (1..64).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    // No top level is a number, so that addresses are told from names, also those of fewer parts.
    let is_address = text.rsplit('.').next().is_some_and(|top| top.bytes().all(|b| b.is_ascii_digit()));
    if text.len() > 253 || !text.contains('.') || is_address || !text.split('.').all(fits) {
        return Err("not a host's full name, such as www.example.org".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

fn authority(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(_) if is_place(text) => Ok(text.to_owned()),
        _ => Err("not the URL of a directory, which begins with https://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_an_authority_can_prove() {
        assert_eq!(name("Www.Example.org").as_deref(), Ok("www.example.org"));
        let strange = [
            "",
            "localhost",
            "*.example.org",
            "a..b",
            "a_b.example",
            "a b.example",
            "-a.example",
            "a-.example",
        ];
        for text in strange.into_iter().chain(["192.0.2.1", "1.5", "example.7"]) {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(name("b\u{fc}cher.example").unwrap_err().contains("xn--"));
        assert!(authority("https://[::1]:14000/dir").is_ok());
        let strange = ["http://a.example/dir", "a.example", "https://", "https:///dir", "https://:1/dir"];
        for text in strange.into_iter().chain(["https://a.example/dir ", "https://a b/", "https://[::1/dir"])
        {
            assert!(authority(text).is_err(), "{text}");
        }
    }
}
