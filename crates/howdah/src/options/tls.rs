//! TLS: which certificates, for whom, and what clients without it are told.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use howdah_sys::activation::UPGRADE;

use super::acme::Acme;
use super::listen::Listen;
use super::listener::{Named, Several, several};
use super::values::{Time, whole};

/// A year, for those who do not say how long.
const YEAR: &str = "8760h";

/// Certificates and what hangs on them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Tls {
    /// Certificate for TLS, in PEM (repeatable)
    ///
    /// With those between it and the root behind it, as in certbot's fullchain.pem. Each goes with the --tls-key at the same place. Clients get the one for the name that they ask for, be it written
    /// out or as *.example.org, and else the first; of RSA and ECDSA for the same names the one that they understand. With
    /// certificates every --listen on TCP speaks TLS, unless some are written as tls:ADDR: then those alone do. Changed
    /// files are taken over at once, at HUP and by howdah reload. Also --ssl-cert, --tls-cert-file.
    #[arg(long, help_heading = "Listening", value_name = "FILE", aliases = ["ssl-cert", "ssl-cert-file", "tls-cert-file"])]
    tls_cert: Vec<PathBuf>,

    /// Its key (repeatable) [default: in the certificate's file]
    ///
    /// It is read by the user that starts the server, before anything else runs. Also --ssl-key, --tls-key-file.
    #[arg(long, help_heading = "Listening", value_name = "FILE", aliases = ["ssl-key", "ssl-key-file", "tls-key-file"])]
    tls_key: Vec<PathBuf>,

    /// Oldest version of TLS that is spoken
    #[arg(long, hide_short_help = true, value_name = "VERSION", value_enum, default_value = "1.2")]
    pub(crate) tls_min: Version,

    /// Authorities whose client certificates are believed, in PEM
    ///
    /// What a client has shown stands in the env: SSL_CLIENT_VERIFY, SSL_CLIENT_S_DN and the others of mod_ssl.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// What becomes of clients without a certificate
    ///
    /// Needs --tls-client-ca: they are turned away, or served with SSL_CLIENT_VERIFY=NONE.
    #[arg(long, hide_short_help = true, value_name = "WHETHER", value_enum, default_value = "required")]
    pub(crate) tls_client: Client,

    /// Time for a TLS handshake; 0 for any
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s")]
    pub(crate) tls_handshake_timeout: Time,

    /// TLS handshakes under way at once, on each front thread; more clients wait
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "512", value_parser = whole::<u32>(1..=1 << 20))]
    pub(crate) tls_handshakes: u32,

    /// Address that only sends clients to the same place by TLS (repeatable)
    ///
    /// As --listen, most often :80. GET and HEAD get 301, others 308; who names no host gets 400.
    #[arg(long, hide_short_help = true, value_name = "ADDR", value_parser = several)]
    redirect_to_https: Vec<Several>,

    /// Have browsers use TLS alone for so long [default without a time: a year]
    ///
    /// Adds Strict-Transport-Security to responses over TLS that have none. Browsers do not forget it. The time stands behind
    /// an equals sign: --hsts=30m. HOWDAH_HSTS=1 is the switch without a time, 0 leaves it off; 1s and 0s are times.
    #[arg(long, hide_short_help = true, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = YEAR)]
    pub(crate) hsts: Option<Time>,

    #[command(flatten)]
    pub(crate) acme: Acme,
}

/// See [`Tls::tls_min`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// Spoken by all that is younger than 2014.
    #[value(name = "1.2")]
    Tls12,
    /// Spoken by browsers since 2018.
    #[value(name = "1.3")]
    Tls13,
}

/// See [`Tls::tls_client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// They are turned away.
    Required,
    /// They are served.
    Optional,
}

impl Tls {
    /// What --hsts means without a time.
    pub(super) fn default_hsts() -> Option<Time> {
        YEAR.parse().ok()
    }

    /// Whether there are certificates.
    pub(crate) fn is_on(&self) -> bool {
        !self.tls_cert.is_empty() || self.acme.is_on()
    }

    /// Files of certificates and their keys.
    pub(crate) fn pairs(&self) -> Vec<(PathBuf, PathBuf)> {
        let ordered = self.acme.place().map(|place| (place.certificate(), place.certificate()));
        self.named().into_iter().chain(ordered).collect()
    }

    /// Those that are there before anything starts.
    pub(crate) fn named(&self) -> Vec<(PathBuf, PathBuf)> {
        let keys = if self.tls_key.is_empty() { &self.tls_cert } else { &self.tls_key };
        self.tls_cert.iter().cloned().zip(keys.iter().cloned()).collect()
    }

    /// The option that names a file, if one does.
    pub(crate) fn option_of(&self, file: &Path) -> Option<&'static str> {
        let names = |files: &[PathBuf]| files.iter().any(|named| named == file);
        match file {
            _ if names(&self.tls_cert) => Some("--tls-cert"),
            _ if names(&self.tls_key) => Some("--tls-key"),
            _ => (self.tls_client_ca.as_deref() == Some(file)).then_some("--tls-client-ca"),
        }
    }

    /// Listeners that send clients elsewhere.
    pub(crate) fn redirects(&self) -> impl Iterator<Item = &Named> {
        self.redirect_to_https.iter().flat_map(|several| &several.0)
    }

    /// What does not go together, and the way out. What would protect the server is never passed over.
    pub(super) fn fault(
        &self,
        listen: &Listen,
        pages: &[Named],
        is_given: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let (certificates, keys) = (self.tls_cert.len(), self.tls_key.len());
        if keys > 0 && keys != certificates {
            return Some(format!(
                "there are {certificates} --tls-cert and {keys} --tls-key: give each certificate its key, in the same order"
            ));
        }
        let shut = self.tls_client_ca.is_some() && self.tls_client == Client::Required;
        if let Some(fault) = self.acme.fault(shut, &is_given) {
            return Some(fault);
        }
        if is_given("tls_client") && self.tls_client_ca.is_none() {
            return Some(
                "--tls-client needs authorities whose certificates count: name them by --tls-client-ca FILE, or leave it out"
                    .to_owned(),
            );
        }
        if self.is_on() {
            let marked = self.redirects().find(|named| named.tls).map(|named| {
                format!("--redirect-to-https {named} is for clients without TLS: leave tls: out")
            });
            return marked.or_else(|| self.unasked(listen, pages));
        }
        let listeners = listen.listeners().into_iter().map(|named| ("--listen", named));
        let mut all = listeners.chain(pages.iter().map(|named| ("--status-listen", named.clone())));
        let marked = all.find(|(_, named)| named.tls).map(|(option, named)| format!("{option} {named}"));
        let given = [
            (self.tls_client_ca.is_some(), "--tls-client-ca"),
            (is_given("tls_min"), "--tls-min"),
            (self.hsts.is_some(), "--hsts"),
            (!self.redirect_to_https.is_empty(), "--redirect-to-https"),
        ];
        let given = given.into_iter().find(|(given, _)| *given).map(|(_, option)| option.to_owned());
        marked.or(given).map(|what| {
            format!("{what} needs a certificate: name one by --tls-cert FILE, with its key by --tls-key FILE, or have one issued by --acme NAME")
        })
    }

    /// That clients are asked for certificates where nobody speaks TLS, so that everybody would be served. What other programs have bound is
    /// known to the start alone.
    fn unasked(&self, listen: &Listen, pages: &[Named]) -> Option<String> {
        let inherits = ["LISTEN_FDS", "SERVER_STARTER_PORT", UPGRADE]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        let is_spoken =
            listen.secured(true).iter().any(|(_, tls)| *tls) || pages.iter().any(|named| named.tls);
        (self.tls_client_ca.is_some() && !inherits && !is_spoken).then(|| {
            "--tls-client-ca asks nobody: no listener speaks TLS; listen on an address of TCP, write a Unix socket as tls:PATH, or leave it out"
                .to_owned()
        })
    }
}
