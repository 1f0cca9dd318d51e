//! Whether files can be made where large bodies and responses to slow clients go. The first of them comes long after the
//! start, and would be refused.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::bail;

/// Warns of what is no reason not to start.
///
/// # Errors
/// When the directory was named, and takes no files.
pub(crate) fn try_out(named: Option<&Path>) -> anyhow::Result<()> {
    doubt(named)?.iter().for_each(|doubt| tracing::warn!("{doubt}"));
    Ok(())
}

/// A directory that was named has to do; the usual one may be missing in a container that has no need of it.
///
/// # Errors
/// As there.
pub(crate) fn doubt(named: Option<&Path>) -> anyhow::Result<Option<String>> {
    let directory = named.map_or_else(std::env::temp_dir, Path::to_owned);
    let Err(error) = howdah_front::try_spool(&directory) else {
        return Ok(None);
    };
    // A disk that is full now may have room again, and is none of the option's fault.
    let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    if named.is_some() && !full {
        bail!(
            "--spool-dir {}: no file can be made there: {error}; name a directory that can be written",
            directory.display()
        );
    }
    Ok(Some(format!(
        "no file can be made in {}: {error}; request bodies that need one will be refused (503), and workers will wait \
         for slow readers: name another directory by --spool-dir",
        directory.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_takes_no_files_is_told_with_the_option() {
        let dir = tempfile::tempdir().unwrap();
        try_out(Some(dir.path())).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
        let error = try_out(Some("/proc".as_ref())).unwrap_err().to_string();
        assert!(error.contains("--spool-dir /proc: no file can be made there"), "{error}");
    }
}
