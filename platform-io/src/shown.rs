//! Types show their file: on Windows, where only sockets can be watched, their socket.

/// Implements the traits by which a type shows the file of its field.
#[cfg(not(windows))]
macro_rules! shows_file {
    ([$($generics:tt)*] $type:ty, $field:ident) => {
        impl<$($generics)*> ::std::os::fd::AsFd for $type {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                ::std::os::fd::AsFd::as_fd(&self.$field)
            }
        }

        impl<$($generics)*> ::std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                ::std::os::fd::AsRawFd::as_raw_fd(&::std::os::fd::AsFd::as_fd(&self.$field))
            }
        }
    };
}

/// Implements the traits by which a type shows the socket of its field; those of files follow from them.
#[cfg(windows)]
macro_rules! shows_file {
    ([$($t:ident: AsFd)?] $type:ty, $field:ident) => {
        impl<$($t: ::std::os::windows::io::AsSocket)?> ::std::os::windows::io::AsSocket for $type {
            fn as_socket(&self) -> ::std::os::windows::io::BorrowedSocket<'_> {
                ::std::os::windows::io::AsSocket::as_socket(&self.$field)
            }
        }

        impl<$($t: ::std::os::windows::io::AsSocket)?> ::std::os::windows::io::AsRawSocket for $type {
            fn as_raw_socket(&self) -> ::std::os::windows::io::RawSocket {
                let socket = ::std::os::windows::io::AsSocket::as_socket(&self.$field);
                ::std::os::windows::io::AsRawSocket::as_raw_socket(&socket)
            }
        }
    };
}

pub(crate) use shows_file;
