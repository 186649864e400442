//! Small disks that tests can fill.

use buildpool_worker::platform::disk_room;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small temporary disk. It is unmounted on drop.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of this size at a directory, which is created. If the machine or the user
    /// cannot mount, prints a message and returns `None`.
    pub fn mount(path: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={bytes},mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "buildpool-test"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { path: path.to_owned() }),
            Ok(output) => {
                eprintln!(
                    "SKIPPED: no disk can be mounted: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                eprintln!("SKIPPED: no disk can be mounted: {error}");
                None
            }
        }
    }

    /// Fills the disk until at most `room` bytes are free.
    pub fn fill_but(&self, room: u64) {
        let mut file = self.open_ballast();
        while disk_room(&self.path).unwrap().free > room {
            file.write_all(&[b'x'; 64 << 10]).unwrap();
        }
    }

    /// Fills the disk completely.
    pub fn fill(&self) {
        let mut file = self.open_ballast();
        for size in [64 << 10, 4 << 10, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    /// Frees the space again.
    pub fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn open_ballast(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap()
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a process that is just ending may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
