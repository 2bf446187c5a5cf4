//! How many bytes must have come before a socket is readable to `epoll`.
#![allow(unsafe_code)] // no safe wrapper knows the option

use tokio::net::TcpStream;

/// Sets SO_RCVLOWAT. Reads give what there is all the same. Where the option is not set, every byte wakes who waits.
///
/// Since Linux 4.18 (`tcp_set_rcvlowat`) whoever waits is woken, too, if the socket has become readable by this; before that, and
/// elsewhere, the option is left alone.
#[cfg(target_os = "linux")]
pub(super) fn set_low_water(socket: &TcpStream, bytes: libc::c_int) {
    use std::os::fd::AsRawFd;

    if !linux::wakes_when_set() {
        return;
    }
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw const bytes).cast();
    // SAFETY: the socket is open, and the option's value is an integer that lives until the call returns.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            value,
            length,
        )
    };
}

/// See above.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_low_water(_: &TcpStream, _: i32) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::read_to_string;
    use std::sync::LazyLock;

    pub(super) fn wakes_when_set() -> bool {
        static WAKES: LazyLock<bool> = LazyLock::new(|| {
            read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| is_new(&release))
        });
        *WAKES
    }

    /// Whether this is Linux 4.18 or later.
    pub(super) fn is_new(release: &str) -> bool {
        let mut numbers = release.split(|other: char| !other.is_ascii_digit());
        let mut number = || numbers.next()?.parse::<u32>().ok();
        number()
            .zip(number())
            .is_some_and(|version| version >= (4, 18))
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn releases_of_linux_are_told_apart() {
            let new = |release| super::is_new(release);
            assert!(new("4.18.0-553.el8.x86_64\n") && new("6.1.0-18-amd64") && new("5.4-rc1"));
            assert!(!new("3.10.0-1160.el7.x86_64") && !new("4.14.336") && !new("unknown"));
        }
    }
}
