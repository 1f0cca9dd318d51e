//! How an authority is asked: by HTTPS alone; it answers in so many bytes and in so much time, or it has not answered.
//! Nobody is sent on from it to another place.

use std::fmt;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::schedule::LATEST;

/// Bytes of a head, and of a body: a chain has a few thousand, an order for a hundred names ten thousand.
const MOST: usize = 128 * 1024;
/// What is waited for longer than this is told.
const SLOW: Duration = Duration::from_secs(5);
/// After so many seconds it is asked again for advice, where it does not say when (RFC 9773 4.3.2).
const ADVICE: u64 = 6 * 3600;
/// And then so long. Some sign before they answer.
const PATIENCE: Duration = Duration::from_secs(55);

/// What comes of asking, beside the answers. For one order.
pub struct Talk {
    slow: Box<dyn Fn(&str) + Send + Sync>,
    later: Mutex<Duration>,
}

impl Talk {
    /// `slow` hears what is waited for when that takes long.
    pub fn new(slow: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { slow: Box::new(slow), later: Mutex::default() }
    }

    /// For how long the authority does not want to be asked again, of its own saying.
    pub fn later(&self) -> Duration {
        *self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The authority is not to be asked again for as long as it could want that.
    pub fn put_off(&self) {
        self.wait(LATEST);
    }

    fn wait(&self, wait: Duration) {
        *self.later.lock().unwrap_or_else(PoisonError::into_inner) = wait;
    }
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("later", &self.later()).finish_non_exhaustive()
    }
}

/// See the module.
pub(crate) struct Authority {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    talk: Arc<Talk>,
}

impl Authority {
    /// Told from others by the certificates in `root`, else by those of the system.
    pub(crate) fn new(root: Option<&Path>, talk: Arc<Talk>) -> Result<Self, Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(other)?;
        let config = match root {
            Some(file) => builder.with_root_certificates(roots(file)?).with_no_client_auth(),
            None => builder.try_with_platform_verifier().map_err(other)?.with_no_client_auth(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = connector.https_only().enable_http1().enable_http2().build();
        let client = Client::builder(TokioExecutor::new()).http1_max_buf_size(MOST).build(connector);
        Ok(Self { client, talk })
    }
}

impl HttpClient for Authority {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (place, talk) = (request.uri().to_string(), Arc::clone(&self.talk));
        let is_get = request.method() == Method::GET;
        let answer = self.client.request(request);
        Box::pin(async move {
            let mut answer = in_time(answer, &place, &talk).await?;
            bound_wait(answer.headers_mut());
            retry_after(answer.headers()).into_iter().for_each(|wait| talk.wait(wait));
            if is_get {
                // The library takes no advice on renewals without it, which authorities may leave out (RFC 9773 4.2).
                answer.headers_mut().entry(RETRY_AFTER).or_insert(HeaderValue::from(ADVICE));
            }
            let answer = explained(answer, &place)?;
            if is_get {
                understood(&answer, &place)?;
            }
            let (parts, body) = answer.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

async fn in_time(answer: ResponseFuture, place: &str, talk: &Talk) -> Result<Response<Bytes>, Error> {
    let mut answer = pin!(whole(answer));
    if let Ok(answer) = timeout(SLOW, &mut answer).await {
        return answer;
    }
    (talk.slow)(&format!("waiting for an answer from {place}"));
    let late = |_| Error::Other(format!("{place} does not answer within a minute").into());
    timeout(PATIENCE, answer).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

async fn whole(answer: ResponseFuture) -> Result<Response<Bytes>, Error> {
    let (parts, body) = answer.await.map_err(other)?.into_parts();
    let body = Limited::new(body, MOST).collect().await.map_err(Error::Other)?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// A refusal without a word of why, as of something that stands in front of an authority, is told by its status.
fn explained(answer: Response<Bytes>, place: &str) -> Result<Response<Bytes>, Error> {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if is_refusal(&answer) && !kind.is_some_and(|kind| kind.contains("json")) {
        return Err(refusal(&answer, place));
    }
    Ok(answer)
}

fn refusal<T>(answer: &Response<T>, place: &str) -> Error {
    let (status, detail) = (answer.status(), Some(format!("{place} answers {}", answer.status())));
    Error::Api(Problem { r#type: None, detail, status: Some(status.as_u16()), subproblems: Vec::new() })
}

/// Whether an authority could be asked there.
#[must_use]
pub fn is_place(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|url| url.host().is_some_and(|host| !host.is_empty()))
}

/// The library takes any answer for a directory, a refusal and a list, too, and ends the process where it is to ask for a nonce
/// at what is no URL.
fn understood(answer: &Response<Bytes>, place: &str) -> Result<(), Error> {
    if is_refusal(answer) {
        let told = serde_json::from_slice::<Problem>(answer.body()).ok();
        let told = told.filter(|problem| problem.detail.is_some() || problem.r#type.is_some());
        return Err(told.map_or_else(|| refusal(answer, place), Error::Api));
    }
    let leads = |said: Map<String, Value>| said.get("newNonce").and_then(Value::as_str).is_none_or(is_place);
    if serde_json::from_slice(answer.body()).is_ok_and(leads) {
        return Ok(());
    }
    Err(Error::Other(format!("{place} does not answer as an authority does").into()))
}

/// All of the file: which one has signed is the authority's to know.
fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(file).map_err(other)? {
        roots.add(root.map_err(other)?).map_err(other)?;
    }
    if roots.is_empty() { Err(other(pem::Error::NoItemsFound)) } else { Ok(roots) }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Other(Box::new(error))
}

/// Nobody is sent on, either.
fn is_refusal<T>(answer: &Response<T>) -> bool {
    !answer.status().is_success()
}

/// Says the wait in seconds, and not in more than there are in a day: the library adds them to the time, and ends the process
/// where that has no such moment.
fn bound_wait(fields: &mut HeaderMap) {
    match retry_after(fields) {
        Some(wait) => drop(fields.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()))),
        None => drop(fields.remove(RETRY_AFTER)),
    }
}

/// Seconds or a date (RFC 9110 10.2.3).
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let text = fields.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default()
    };
    Some(wait.min(LATEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_seconds_or_by_a_date_and_is_bounded() {
        let day = LATEST.as_secs();
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(1000));
        for (text, least, most) in [
            ("0", 0, 0),
            (" 120 ", 120, 120),
            ("18446744073709551615", day, day),
            ("99999999999999999999999", day, day),
            (&*soon, 900, 1000),
            ("Fri, 31 Dec 9999 23:59:59 GMT", day, day),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
            bound_wait(&mut fields);
            let wait = fields[RETRY_AFTER].to_str().unwrap().parse().unwrap();
            assert!((least..=most).contains(&wait), "{text}: {wait}");
        }
        for nonsense in ["", "soon", "-1", "+5", "1.5"] {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_str(nonsense).unwrap());
            bound_wait(&mut fields);
            assert!(fields.is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn what_is_no_directory_leads_nowhere() {
        let understood = |status: u16, answer: &'static str| {
            let answer = Response::builder().status(status).body(answer.into()).unwrap();
            understood(&answer, "https://a.example/dir").map_err(|error| error.to_string())
        };
        for answer in ["{}", r#"{"newNonce": "https://a.example/nonce"}"#, r#"{"suggestedWindow": {}}"#] {
            assert_eq!(understood(200, answer), Ok(()));
        }
        for (status, answer, words) in [
            (200, "", "does not answer as"),
            (200, "<html>", "does not answer as"),
            (200, r#"{"newNonce": ""}"#, "does not answer as"),
            (200, r#"{"newNonce": "/nonce"}"#, "does not answer as"),
            (200, r#"{"newNonce": "https://a b/"}"#, "does not answer as"),
            (200, r#"["https://a b/"]"#, "does not answer as"),
            (301, "{}", "answers 301"),
            (503, r#"{"type": "urn:x", "detail": "we rest"}"#, "we rest"),
            (503, "[]", "answers 503"),
        ] {
            let told = understood(status, answer).unwrap_err();
            assert!(told.contains(words), "{answer}: {told}");
        }
    }
}
