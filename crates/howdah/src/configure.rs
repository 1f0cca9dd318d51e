//! From options to the settings of front and supervisor: `serve` calls it, and `check` for what a zygote is
//! told. A default stands in `options` alone, whatever the settings' own are.

use std::time::Duration;

use howdah_front::{self as front, Address, ListenOptions, Serves};
use howdah_proxied::Trust;
use howdah_supervisor as supervisor;

use crate::options::Serve;
use crate::options::listener::Named;
use crate::options::pools::Pool;
use crate::options::values::Time;
use crate::scripts::KEEP;

impl Serve {
    /// Settings of the front.
    ///
    /// # Errors
    /// When a number is too large for the system.
    pub(crate) fn front(&self) -> anyhow::Result<front::Config> {
        let limits = &self.limits;
        Ok(front::Config {
            limits: front::Limits {
                body: limits.max_body_size.0,
                request_line: usize::try_from(limits.max_request_line.0)?,
                ..front::Limits::default()
            },
            header_timeout: off_is_zero(limits.header_timeout),
            tls_handshake_timeout: off_is_zero(self.tls.tls_handshake_timeout),
            tls_handshakes: self.tls.tls_handshakes as usize,
            hsts: self.tls.hsts.map(|time| time.0.as_secs()),
            http2: self.http2.http2,
            http2_streams: self.http2.http2_streams,
            http2_window: u32::try_from(self.http2.http2_window.0)?,
            keepalive_timeout: off_is_zero(limits.keepalive_timeout),
            keepalive: !limits.disable_keepalive && limits.keepalive_timeout.limit().is_some(),
            keepalive_requests: limits.keepalive_requests,
            min_body_rate: limits.min_body_rate.0,
            write_timeout: off_is_zero(limits.write_timeout),
            min_send_rate: limits.min_send_rate.0,
            abort_on_disconnect: limits.abort_on_disconnect,
            server_header: !limits.no_server_header,
            request_id: !self.logs.no_request_id,
            response_buffer: usize::try_from(limits.response_buffer.0).unwrap_or(usize::MAX),
            response_spool: limits.response_spool.0,
            share_cpu: self.workers.share_cpu,
            trusted_proxies: Trust::new(self.proxies.trusted_proxy.clone()),
            proxy_fields: self.proxies.family(),
            spool_dir: limits.spool_dir.clone(),
        })
    }

    /// Where the front listens for requests, and how.
    pub(crate) fn listeners(&self) -> Vec<(Address, ListenOptions)> {
        let all = self.listen.secured(self.tls.is_on());
        all.iter().map(|(named, tls)| self.introduced(named, *tls)).collect()
    }

    /// Where it listens for those that are to come by TLS, at this port.
    pub(crate) fn redirects(&self, port: u16) -> Vec<(Address, ListenOptions)> {
        let listener = |named| {
            let (address, how) = self.introduced(named, false);
            (address, ListenOptions { redirect: Some(port), ..how })
        };
        self.tls.redirects().map(listener).collect()
    }

    /// The same for the server's own pages.
    pub(crate) fn pages(&self) -> Vec<(Address, ListenOptions)> {
        self.status.listeners().map(|named| self.listener(named, Serves::Pages, named.tls)).collect()
    }

    /// A listener for requests.
    fn introduced(&self, named: &Named, tls: bool) -> (Address, ListenOptions) {
        let (address, how) = self.listener(named, Serves::Requests, tls);
        let proxy_protocol = named.proxy_protocol || self.proxies.proxy_protocol;
        (address, ListenOptions { proxy_protocol, ..how })
    }

    fn listener(&self, named: &Named, serves: Serves, tls: bool) -> (Address, ListenOptions) {
        let mode = named.mode.or(self.listen.socket_mode).map(|mode| mode.0);
        let backlog = named.backlog.unwrap_or(self.listen.backlog);
        let how = ListenOptions { backlog, mode, serves, tls, ..ListenOptions::default() };
        (named.address.clone(), how)
    }

    /// Settings of an application's supervisor.
    pub(crate) fn supervisor(&self, pool: &Pool) -> supervisor::Config {
        let workers = &pool.workers;
        supervisor::Config {
            workers: workers.fewest() as usize,
            max_requests: workers.max_requests,
            max_lifetime: workers.max_lifetime.limit(),
            max_memory: Some(workers.max_memory.0).filter(|&bytes| bytes > 0),
            reforks: workers.reforks(),
            graceful_timeout: self.patience(),
            preload: !self.app.no_preload,
        }
    }

    /// Time for running requests to end; zero for any.
    pub(crate) fn patience(&self) -> Duration {
        off_is_zero(self.workers.graceful_timeout)
    }

    /// What is to be loaded before the application.
    fn modules(&self) -> Vec<String> {
        let report = self.app.leak_report.then(|| "Howdah::Leaks".to_owned());
        report.into_iter().chain(self.app.module.iter().cloned()).collect()
    }

    /// What an application's zygote is to load.
    pub(crate) fn zygote(&self, pool: &Pool) -> supervisor::ZygoteSpec {
        let app = &self.app;
        supervisor::ZygoteSpec {
            app: pool.app.clone(),
            eval: pool.eval.clone().or_else(|| pool.cgi.as_ref().map(|cgi| self.keep(pool, cgi))),
            modules: pool.cgi.iter().map(|_| KEEP.to_owned()).chain(self.modules()).collect(),
            inc: app.include.iter().map(Into::into).collect(),
            env: app.env.clone(),
            preload: !app.no_preload,
            name: self.title(pool),
            full_destruct: self.process.full_destruct,
            default_middleware: !app.no_default_middleware,
            path: pool.mount.clone(),
            chdir: app.chdir.clone(),
            nytprof: false,
        }
    }
}

impl Serve {
    /// What the titles of an application's processes have for a name; without a name they say what is served.
    fn title(&self, pool: &Pool) -> String {
        match self.instance.given_name() {
            Some(name) if self.pools().len() == 1 => name.to_owned(),
            Some(name) => format!("{name} {}", pool.name),
            None => String::new(),
        }
    }
}

/// The front takes a time of zero for "no limit", as the options do.
fn off_is_zero(time: Time) -> Duration {
    time.limit().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::options::{Action, parse};

    fn serve(line: &str) -> Serve {
        let arguments =
            ["howdah", "-e", "sub{}"].into_iter().chain(line.split_whitespace()).map(OsString::from);
        match parse(arguments).unwrap().action {
            Action::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_options_the_front_has_its_own_defaults() {
        let ours = serve("").front().unwrap();
        let theirs = front::Config::default();
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        assert_eq!(serve("").listeners()[0].1, ListenOptions::default());
    }

    #[test]
    fn a_listener_has_the_options_that_it_names_and_else_those_of_all() {
        let shown = |all: &[(Address, ListenOptions)]| {
            let mode = |it: &ListenOptions| it.mode.map_or("-".to_owned(), |mode| format!("{mode:o}"));
            let one = |(at, it): &(Address, ListenOptions)| {
                format!("{at} {} {} {:?}", mode(it), it.backlog, it.serves)
            };
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        for (line, listeners, pages) in [
            ("", "127.0.0.1:5000 - 1024 Requests", ""),
            ("-l /a,:80 --backlog 9", "/a - 9 Requests, :80 - 9 Requests", ""),
            (
                "-l /a,mode=600,backlog=5,/b --socket-mode 660 --backlog 9",
                "/a 600 5 Requests, /b 660 9 Requests",
                "",
            ),
            ("--socket-mode 660 --status-listen /s", "127.0.0.1:5000 660 1024 Requests", "/s 660 1024 Pages"),
            (
                "-S /a --socket-mode 660 --status-listen /s,mode=666,backlog=2,:81",
                "/a 660 1024 Requests",
                "/s 666 2 Pages, :81 660 1024 Pages",
            ),
        ] {
            let serve = serve(line);
            assert_eq!(
                (shown(&serve.listeners()), shown(&serve.pages())),
                (listeners.into(), pages.into()),
                "{line}"
            );
        }
    }

    #[test]
    fn keepalive_ends_by_switch_or_by_no_time_for_it() {
        for (line, keepalive) in
            [("", true), ("--disable-keepalive", false), ("--keepalive-timeout 0", false)]
        {
            assert_eq!(serve(line).front().unwrap().keepalive, keepalive, "{line}");
        }
    }
}
