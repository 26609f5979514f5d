//! Where the file is, and whether locks may live there.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fencepost_core::store::StoreErrorKind;

use crate::error::Failure;

/// The file that a path in a URL means, with the default folders made.
pub(crate) fn resolve(path: &str) -> Result<PathBuf, Failure> {
    let file = match path {
        "" => default_file(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))?,
        path => std::path::absolute(path).map_err(|error| Failure::io(Path::new(path), &error))?,
    };
    refuse_shared_between_machines(&file)?;
    if path.is_empty()
        && let Some(folder) = file.parent()
    {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| Failure::io(folder, &error))?;
    }
    match fs::metadata(&file) {
        Ok(found) if found.is_file() => Ok(file),
        Ok(found) => {
            let what = if found.is_dir() { "is a folder" } else { "is not a plain file" };
            Err(Failure::new(StoreErrorKind::Misconfigured, &file, what, "name a file"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(file),
        Err(error) => Err(Failure::io(&file, &error)),
    }
}

fn default_file(state: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute(state).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    folder.map(|folder| folder.join("fencepost/locks.db")).ok_or_else(|| {
        let what = "no default place: neither XDG_STATE_HOME nor HOME is set";
        Failure::new(StoreErrorKind::Misconfigured, Path::new("sqlite:"), what, "name the file: sqlite:/path/locks.db")
    })
}

/// A file beside the database: the same path with this ending.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Lets those who may use the database use what lies beside it.
pub(crate) fn share_like(file: &Path, beside: &Path) -> io::Result<()> {
    let mode = fs::metadata(file)?.permissions().mode() & 0o666;
    let enter = if beside.is_dir() { (mode & 0o444) >> 2 } else { 0 };
    fs::set_permissions(beside, Permissions::from_mode(mode | enter))
}

/// Opens a file beside the database, or makes it for those who may use the database.
pub(crate) fn open_beside(file: &Path, at: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().create_new(true).open(at) {
        Ok(made) if file.exists() => share_like(file, at).map(|()| made),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(at),
        outcome => outcome,
    }
}

/// Which file a path leads to: device and inode.
pub(crate) fn identity(file: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(file).map(|found| (found.dev(), found.ino()))
}

/// Locks and shared memory of files do not reach over a network.
#[cfg(target_os = "linux")]
fn refuse_shared_between_machines(file: &Path) -> Result<(), Failure> {
    let existing = file.ancestors().find(|path| path.exists());
    let Some(existing) = existing else { return Ok(()) };
    let found = rustix::fs::statfs(existing).map_err(|error| Failure::io(file, &error.into()))?;
    // The width of the field differs between machines; magic numbers have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
    let magic = found.f_type as u32;
    match kind_of_network(magic) {
        None => Ok(()),
        Some(kind) => {
            let what = format!("is on {kind}, where file locks do not hold between machines");
            let cure = "name a file on a local disk, or use a server: redis, postgres, etcd";
            Err(Failure::new(StoreErrorKind::Misconfigured, file, what, cure))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_shared_between_machines(_file: &Path) -> Result<(), Failure> {
    Ok(())
}

/// File systems that other machines may write to as well, by the number that `statfs(2)` tells.
pub(crate) fn kind_of_network(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x0102_1997 => "9p",
        0x7375_7245 => "Coda",
        0x0000_564C => "NCP",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x2003_0528 => "OrangeFS",
        0x6573_5546 => "FUSE",
        0x786F_4256 => "a VirtualBox share",
        0xBACB_ACBC => "a VMware share",
        _ => return None,
    })
}

/// File systems that do not last as long as a disk.
pub(crate) fn kind_of_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x0102_1994 => Some("tmpfs"),
        0x794C_7630 => Some("overlayfs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number_and_local_ones_are_not_refused() {
        assert_eq!(kind_of_network(0x6969), Some("NFS"));
        assert_eq!(kind_of_network(0xFF53_4D42), Some("CIFS"));
        assert_eq!(kind_of_network(0x0102_1997), Some("9p"));
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1] {
            assert_eq!(kind_of_network(local), None, "{local:x} is local");
        }
    }

    #[test]
    fn the_default_is_below_the_state_directory_and_relative_ones_do_not_count() {
        let file = |state: Option<&str>, home: Option<&str>| default_file(state.map(Into::into), home.map(Into::into));
        let below_state = file(Some("/s"), Some("/h")).expect("a file");
        assert_eq!(below_state, Path::new("/s/fencepost/locks.db"));
        let below_home = file(Some("relative"), Some("/h")).expect("a file");
        assert_eq!(below_home, Path::new("/h/.local/state/fencepost/locks.db"));
        assert!(file(None, None).expect_err("no place").trouble().message.contains("sqlite:/path"));
    }

    #[test]
    fn a_folder_is_no_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = resolve(folder.path().to_str().expect("UTF-8")).expect_err("refused");
        assert_eq!(*failure.kind(), StoreErrorKind::Misconfigured);
        assert!(failure.trouble().message.contains("is a folder"));
    }
}
