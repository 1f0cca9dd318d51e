//! One certificate, from the account to the file. The front shows what the authority wants to see meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use howdah_tls::{Certificate, Challenges, look};
use instant_acme::{
    Account, AuthorizationStatus, ChallengeHandle, ChallengeStatus, ChallengeType, Error as Refusal,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use crate::account::{account, forget_if_unknown};
use crate::authority::Talk;
use crate::begun::{Begun, Wanted};
use crate::error::{Error, is_passing, passes};
use crate::place::Place;
use crate::renewal::identity;
use crate::schedule::{due, now};
use crate::wish::{Proof, Wish};

/// For all of it.
const PATIENCE: Duration = Duration::from_secs(600);
/// For the authority to look, or to sign.
const POLL: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Shows what an order is to be shown that another process has begun: the authority may look at any time, and comes to who listens.
pub fn show_begun(wish: &Wish, place: &Place, challenges: &Challenges) {
    for proof in Begun::kept(place).iter().flat_map(|begun| &begun.proofs) {
        // The authority says what it has not found.
        let _ = show(proof, wish.proof, challenges);
    }
}

/// Orders a certificate, and writes it. Who lets go of it before its end leaves the order to another process, and shows on what is shown:
/// the authority may have come already.
///
/// # Errors
/// Whatever the authority and the system have against it.
pub async fn order(
    wish: &Wish,
    place: &Place,
    challenges: &Challenges,
    talk: &Arc<Talk>,
) -> Result<(), Error> {
    let ordered = tokio::time::timeout(PATIENCE, order_now(wish, place, challenges, talk)).await;
    // Of an order that is gone on with the authority may look until then, and counts what it does not find.
    if Begun::kept(place).is_none() {
        challenges.clear();
    }
    ordered.unwrap_or(Err(Error::Late)).inspect_err(|error| forget_if_unknown(place, error))
}

async fn order_now(
    wish: &Wish,
    place: &Place,
    challenges: &Challenges,
    talk: &Arc<Talk>,
) -> Result<(), Error> {
    let account: Account = account(wish, place, talk).await?;
    let (mut order, mut begun) = match go_on(&account, wish, place).await? {
        Kept::Issued => return Ok(()),
        Kept::Open(open) => *open,
        Kept::Nothing => begin(&account, wish, place).await?,
    };
    if let Err(Stop { passes, error }) = prove_all(&mut order, &mut begun, wish.proof, challenges).await {
        if !passes || !begun.is_young() {
            begun.forget();
        }
        return Err(error);
    }
    finish(order, begun, wish, place).await.map(drop)
}

async fn begin(account: &Account, wish: &Wish, place: &Place) -> Result<(Order, Begun), Error> {
    let mut order = new_order(account, wish, place).await?;
    if matches!(order.state().status, OrderStatus::Valid | OrderStatus::Processing) {
        return Err(Error::Another(place.account()));
    }
    let begun = Begun::new(place, order.url())?;
    Ok((order, begun))
}

/// Why names are not proven.
struct Stop {
    /// It may go well later, with the same order.
    passes: bool,
    error: Error,
}

impl Stop {
    fn at(step: &'static str) -> impl FnOnce(Refusal) -> Self {
        // An authority that has not looked in all that time may never.
        move |error| {
            let passes = passes(&error) && !matches!(error, Refusal::Timeout(_));
            Self { passes, error: Error::at(step)(error) }
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self { passes: false, error }
    }
}

/// Proves all names, until the authority says so.
async fn prove_all(
    order: &mut Order,
    begun: &mut Begun,
    proof: Proof,
    challenges: &Challenges,
) -> Result<(), Stop> {
    if let Err(stop) = prove(order, begun, proof, challenges).await {
        // An authority may have looked by the time that it takes our word, and its answer is what it has seen.
        return Err(unproven(order).await.map_or(stop, Stop::from));
    }
    let seen = order.poll_ready(&POLL).await.map_err(Stop::at("the authority has seen no proof"));
    if matches!(seen, Ok(OrderStatus::Ready)) {
        return Ok(());
    }
    let unclear = || Error::Authority("the order is not ready", "the authority does not say why".to_owned());
    let stop = seen.err().unwrap_or_else(|| unclear().into());
    Err(unproven(order).await.map_or(stop, Stop::from))
}

/// Names the certificate that is to be replaced, where there is one (RFC 9773 5): what is ordered so is bounded less. An authority
/// that does not take that is asked for one without.
async fn new_order(account: &Account, wish: &Wish, place: &Place) -> Result<Order, Error> {
    let refused = Error::refused(place.account());
    let names: Vec<Identifier> = wish.names.iter().cloned().map(Identifier::Dns).collect();
    let wanted = || match &wish.profile {
        Some(profile) => NewOrder::new(&names).profile(profile),
        None => NewOrder::new(&names),
    };
    if let Some(profile) = &wish.profile {
        is_offered(account, profile)?;
    }
    if let Some(replaced) = identity(place) {
        match account.new_order(&wanted().replaces(replaced)).await {
            Ok(order) => return Ok(order),
            Err(Refusal::Api(problem)) if is_passing(&problem) => return Err(refused(problem.into())),
            Err(_) => {}
        }
    }
    account.new_order(&wanted()).await.map_err(refused)
}

/// Others are not to be asked for (draft-ietf-acme-profiles).
fn is_offered(account: &Account, profile: &str) -> Result<(), Error> {
    let mut offered: Vec<&str> = account.profiles().map(|one| one.name).collect();
    if offered.contains(&profile) {
        return Ok(());
    }
    offered.sort_unstable();
    let offered = if offered.is_empty() { "which it has none".to_owned() } else { offered.join(", ") };
    Err(Error::NoProfile(profile.to_owned(), offered))
}

/// What there is of an order that was begun before.
enum Kept {
    /// It has given a certificate that is of use.
    Issued,
    /// Names are still to be proven.
    Open(Box<(Order, Begun)>),
    Nothing,
}

async fn go_on(account: &Account, wish: &Wish, place: &Place) -> Result<Kept, Error> {
    let Some(begun) = Begun::kept(place) else { return Ok(Kept::Nothing) };
    let mut order = match account.order(begun.url.clone()).await {
        Ok(order) => order,
        Err(error) if passes(&error) && begun.is_young() => {
            return Err(Error::at("cannot ask for the order that is begun")(error));
        }
        Err(_) => {
            begun.forget();
            return Ok(Kept::Nothing);
        }
    };
    match order.state().status {
        OrderStatus::Pending => return Ok(Kept::Open(Box::new((order, begun)))),
        OrderStatus::Invalid => {
            begun.forget();
            return Ok(Kept::Nothing);
        }
        _ => {}
    }
    let issued = finish(order, begun, wish, place).await?;
    Ok(if due(issued.begins, issued.expires) > now() { Kept::Issued } else { Kept::Nothing })
}

/// Has the certificate issued and writes it.
async fn finish(mut order: Order, begun: Begun, wish: &Wish, place: &Place) -> Result<Certificate, Error> {
    let request = begun.request(&wish.names)?;
    let chain = match issued(&mut order, &request).await {
        Ok(chain) => chain,
        Err((step, error)) => {
            let is_slow = order.state().status == OrderStatus::Processing;
            if !passes(&error) || !is_slow && !begun.is_young() {
                begun.forget();
            }
            return Err(Error::at(step)(error));
        }
    };
    let kept = place.keep_if(&(chain + &begun.key()), |file| fits(file, &wish.names));
    if !matches!(kept, Err(Error::File(..))) {
        begun.forget();
    }
    kept
}

async fn issued(order: &mut Order, request: &[u8]) -> Result<String, (&'static str, Refusal)> {
    if order.state().status == OrderStatus::Ready {
        let taken = order.finalize_csr(request).await;
        taken.map_err(|error| ("the authority takes no signing request", error))?;
    }
    order.poll_certificate(&POLL).await.map_err(|error| ("the authority issues no certificate", error))
}

/// Whether what was issued is a certificate for these names: it takes the place of one that is. When it ends does not count, since
/// the authority knows that better than a clock that may be wrong.
fn fits(file: &Path, names: &[String]) -> Result<Certificate, Error> {
    let issued = look(file).map_err(|error| Error::Useless(error.to_string()))?;
    if is_for(&issued.names, names) {
        return Ok(issued);
    }
    Err(Error::Useless(format!("it is for {}", issued.names.join(" "))))
}

/// Whether a certificate with these names is for all that are wanted. Some authorities add one, as www.
#[must_use]
pub fn is_for(names: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|name| names.contains(name))
}

/// Shows what is wanted for each name, and says so.
async fn prove(
    order: &mut Order,
    begun: &mut Begun,
    proof: Proof,
    challenges: &Challenges,
) -> Result<(), Stop> {
    let asked = |error| Stop::at("the authority does not say what it wants to see")(error);
    let mut all = order.authorizations();
    while let Some(one) = all.next().await {
        let mut one = one.map_err(asked)?;
        if one.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = one.identifier().to_string();
        let (kind, shown) = match proof {
            Proof::Tls => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
            Proof::Http => (ChallengeType::Http01, "http-01"),
        };
        let Some(mut challenge) = one.challenge(kind) else { return Err(Error::NoProof(name, shown).into()) };
        let wanted = wanted(name, &challenge);
        show(&wanted, proof, challenges)?;
        begun.note(wanted)?;
        // Of an order that another process has begun the authority may be looking already, and is told so once.
        if challenge.status == ChallengeStatus::Pending {
            challenge.set_ready().await.map_err(asked)?;
        }
    }
    Ok(())
}

fn wanted(name: String, challenge: &ChallengeHandle<'_>) -> Wanted {
    let (token, words) = (challenge.token.clone(), challenge.key_authorization());
    Wanted { name, token, digest: words.digest().as_ref().to_vec(), words: words.as_str().to_owned() }
}

fn show(wanted: &Wanted, proof: Proof, challenges: &Challenges) -> Result<(), Error> {
    let Wanted { name, token, words, digest } = wanted;
    match proof {
        Proof::Http => challenges.page(token, words),
        Proof::Tls => {
            let (certificate, key) = proving(name, digest)?;
            challenges.certificate(name, certificate, key).map_err(|error| Error::Made(error.to_string()))?;
        }
    }
    Ok(())
}

/// A certificate that nobody is to believe, with the proof in it (RFC 8737 3), and its key, in DER.
fn proving(name: &str, digest: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let made = |error: rcgen::Error| Error::Made(error.to_string());
    let key = KeyPair::generate().map_err(made)?;
    let mut wish = CertificateParams::new([name.to_owned()]).map_err(made)?;
    wish.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = wish.self_signed(&key).map_err(made)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

/// Which name it was, and what the authority has seen in the place of a proof.
async fn unproven(order: &mut Order) -> Option<Error> {
    let mut all = order.authorizations();
    while let Some(Ok(mut one)) = all.next().await {
        let name = one.identifier().to_string();
        let Ok(state) = one.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return Some(Error::Unproven(name, problem.to_string()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::stand_in;

    #[test]
    fn only_a_certificate_for_all_names_fits() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pem");
        let names = ["a.example".to_owned(), "stand-in.invalid".to_owned()];
        for (pem, names, fit) in [
            (stand_in(&names[..1]).unwrap(), &names[..], true),
            (stand_in(&names[..1]).unwrap(), &names[..1], true),
            (stand_in(&names[..1]).unwrap(), &["b.example".to_owned()][..], false),
            ("<html>".to_owned(), &names[..], false),
            (String::new(), &names[..], false),
        ] {
            std::fs::write(&file, &pem).unwrap();
            assert_eq!(fits(&file, names).is_ok(), fit, "{pem}");
        }
    }
}
