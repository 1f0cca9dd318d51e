//! The account: a key by which the authority knows us, made at the first order and kept.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use instant_acme::{Account, AccountBuilder, AccountCredentials, NewAccount};
use serde_json::{Map, Value, json};

use crate::authority::{Authority, Talk};
use crate::binding::Binding;
use crate::error::Error;
use crate::place::{self, Place};
use crate::wish::Wish;

/// The account that is kept, else a new one.
pub(crate) async fn account(wish: &Wish, place: &Place, talk: &Arc<Talk>) -> Result<Account, Error> {
    if let Some(known) = known(wish, place, talk).await? {
        return Ok(known);
    }
    let contact = wish.email.as_deref().map(letters);
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let binding = wish.binding.as_ref().map(Binding::key);
    let made = client(wish, talk)?.create(&new, wish.directory.clone(), binding.as_ref()).await;
    let (account, secret) = made.map_err(|error| Error::closed(&error))?;
    let secret = serde_json::to_vec(&secret).map_err(|error| Error::Made(error.to_string()))?;
    place::write(&place.account(), &secret)?;
    match &wish.email {
        Some(email) => place::write(&place.contact(), email.as_bytes())?,
        None => drop(std::fs::remove_file(place.contact())),
    }
    Ok(account)
}

/// The account that is kept, if any.
pub(crate) async fn known(wish: &Wish, place: &Place, talk: &Arc<Talk>) -> Result<Option<Account>, Error> {
    let Some(known) = kept(place, &wish.directory)? else { return Ok(None) };
    let account = client(wish, talk)?.from_credentials(known).await;
    let account = account.map_err(Error::at("cannot ask the authority"))?;
    tell_contact(&account, wish, place).await?;
    Ok(Some(account))
}

/// An address that it has not heard of before. Without one it keeps what it has.
async fn tell_contact(account: &Account, wish: &Wish, place: &Place) -> Result<(), Error> {
    let Some(email) = &wish.email else { return Ok(()) };
    if std::fs::read(place.contact()).is_ok_and(|told| told == email.as_bytes()) {
        return Ok(());
    }
    let told = account.update_contacts(&[&letters(email)]).await;
    told.map_err(|error| Error::Contact(email.clone(), error.to_string()))?;
    place::write(&place.contact(), email.as_bytes())
}

fn letters(email: &str) -> String {
    format!("mailto:{email}")
}

/// One that the authority does not know any more is of no use.
pub(crate) fn forget_if_unknown(place: &Place, error: &Error) {
    if let Error::Refused(_, words) | Error::Authority(_, words) = error
        && words.contains("accountDoesNotExist")
    {
        let _ = std::fs::remove_file(place.account());
    }
}

/// Whether the authority could be told from others by the file that is named for that, if any: asked at the start, where
/// somebody looks.
///
/// # Errors
/// When it could not.
pub fn try_root(wish: &Wish) -> Result<(), Error> {
    let Some(root) = &wish.root else { return Ok(()) };
    // A pipe is good for one look, and one to which nobody writes is waited for without end.
    if root.metadata().is_ok_and(|there| there.file_type().is_fifo()) {
        return Err(Error::Root(root.clone(), "it is a pipe, and is read for each order".to_owned()));
    }
    client(wish, &Arc::new(Talk::new(|_| ()))).map(drop)
}

/// What cannot be read may be an account: authorities bound how many there are, and some give but one.
fn kept(place: &Place, directory: &str) -> Result<Option<AccountCredentials>, Error> {
    match std::fs::read(place.account()) {
        Ok(known) => Ok(serde_json::from_slice(&known).ok().and_then(|known| credentials(known, directory))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::File("read", place.account(), error)),
    }
}

/// Where the authority is, is not for the file to say: the library ends the process where that is no URL.
fn credentials(mut known: Map<String, Value>, directory: &str) -> Option<AccountCredentials> {
    known.insert("directory".to_owned(), json!(directory));
    serde_json::from_value(known.into()).ok()
}

fn client(wish: &Wish, talk: &Arc<Talk>) -> Result<AccountBuilder, Error> {
    let authority = Authority::new(wish.root.as_deref(), Arc::clone(talk));
    let authority = authority.map_err(|error| match &wish.root {
        Some(file) => Error::root(file)(error),
        None => Error::at("cannot find out whom to believe as the authority")(error),
    })?;
    Ok(Account::builder_with_http(Box::new(authority)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_cannot_be_read_is_one() {
        let all = tempfile::tempdir().unwrap();
        let place = Place::of(all.path(), "https://x", &["a.example".to_owned()]);
        place.make().unwrap();
        assert!(kept(&place, "https://x").unwrap().is_none(), "there is none");
        std::fs::write(place.account(), "{").unwrap();
        assert!(kept(&place, "https://x").unwrap().is_none(), "there is rubbish");
        std::fs::write(place.account(), r#"{"id": "https://x/1", "key_pkcs8": "AAAA", "directory": ""}"#)
            .unwrap();
        let known = serde_json::to_value(kept(&place, "https://x").unwrap().unwrap()).unwrap();
        assert_eq!(known["directory"], "https://x", "where the authority is, is not for the file to say");
        std::fs::remove_file(place.account()).unwrap();
        std::fs::create_dir(place.account()).unwrap();
        assert!(kept(&place, "https://x").is_err());
    }
}
