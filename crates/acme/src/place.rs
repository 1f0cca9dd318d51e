//! The files of an authority's certificates, in a directory for it alone below --acme-dir: another authority has other
//! accounts, and one that is for tests has certificates that nobody is to be shown once there are real ones.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// Bytes that a certificate with its chain and key may have.
const ROOM: usize = 16 * 1024;

/// See the module.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
}

/// No other process orders a certificate as long as the value lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Place {
    /// Below `all`, for the authority at that URL.
    #[must_use]
    pub fn of(all: &Path, authority: &str) -> Self {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let name = authority.strip_prefix("https://").unwrap_or(authority);
        let name: String = name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
        Self { directory: all.join(name.trim_start_matches('.')) }
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self) -> Result<(), Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| Error::File("make the directory", self.directory.clone(), error))
    }

    /// The certificate with its chain, and its key.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("certificate.pem")
    }

    pub(crate) fn account(&self) -> PathBuf {
        self.directory.join("account.json")
    }

    /// Writes the certificate with its key.
    ///
    /// # Errors
    /// The system's; then the old one is there still.
    pub fn keep(&self, pem: &str) -> Result<(), Error> {
        write(&self.certificate(), pem.as_bytes())
    }

    /// Whether a certificate could be written, asked before one is ordered: what is issued and then lost counts with the authority.
    ///
    /// # Errors
    /// As [`Place::keep`].
    pub fn try_room(&self) -> Result<(), Error> {
        let path = self.directory.join("room");
        let written = write(&path, &[0; ROOM]);
        let _ = std::fs::remove_file(&path);
        written
    }

    /// None while another process has it.
    ///
    /// # Errors
    /// When the file cannot be had.
    pub fn lock(&self) -> Result<Option<Lock>, Error> {
        let path = self.directory.join("lock");
        let failed = |error| Error::File("lock", path.clone(), error);
        let file = secret().create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn secret() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Beside the file first, so that whoever reads it finds the old one or the new one, whole, also after a power cut.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = write_new(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        Error::File("write", path.to_owned(), error)
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that is left from a crash may have another's mode.
    let _ = std::fs::remove_file(path);
    let mut file = secret().create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_authority_has_a_directory_by_its_name() {
        for (authority, name) in [
            ("https://acme-v02.api.letsencrypt.org/directory", "acme-v02.api.letsencrypt.org_directory"),
            ("https://localhost:14000/dir", "localhost_14000_dir"),
            ("https://../../etc", "_.._etc"),
        ] {
            let place = Place::of("/var/lib".as_ref(), authority);
            assert_eq!(place.directory, PathBuf::from("/var/lib").join(name), "{authority}");
        }
    }

    #[test]
    fn what_is_written_is_whole_and_for_nobody_else() {
        let all = tempfile::tempdir().unwrap();
        let place = Place::of(&all.path().join("a/b"), "https://x");
        place.make().unwrap();
        place.make().unwrap();
        for text in ["first", "second"] {
            place.keep(text).unwrap();
            assert_eq!(std::fs::read_to_string(place.certificate()).unwrap(), text);
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place.certificate()), mode(&place.directory)), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&place.directory).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn room_is_tried_and_left() {
        let all = tempfile::tempdir().unwrap();
        let place = Place::of(all.path(), "https://x");
        assert!(place.try_room().unwrap_err().to_string().starts_with("cannot write "), "no directory");
        place.make().unwrap();
        place.try_room().unwrap();
        assert_eq!(std::fs::read_dir(&place.directory).unwrap().count(), 0);
    }

    #[test]
    fn one_process_has_the_lock() {
        let all = tempfile::tempdir().unwrap();
        let place = Place::of(all.path(), "https://x");
        place.make().unwrap();
        let lock = place.lock().unwrap();
        assert!(lock.is_some() && place.lock().unwrap().is_none());
        drop(lock);
        assert!(place.lock().unwrap().is_some());
    }
}
