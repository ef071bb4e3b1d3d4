//! Options of sockets, by the crate `socket2`.

/// A getter and a setter of an option.
macro_rules! option {
    ($(#[$doc:meta])* $get:ident, $set:ident: $type:ty, $get2:ident, $set2:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of the operating system.
        pub fn $get(&self) -> ::std::io::Result<$type> {
            ::socket2::SockRef::from(self).$get2()
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// Those of the operating system.
        pub fn $set(&self, value: $type) -> ::std::io::Result<()> {
            ::socket2::SockRef::from(self).$set2(value)
        }
    };
}

/// The options that all sockets of the internet have.
macro_rules! internet_options {
    () => {
        $crate::net::options::option! {
            /// The type of service of IPv4 packets.
            tos_v4, set_tos_v4: u32, tos_v4, set_tos_v4
        }

        $crate::net::options::option! {
            /// The traffic class of IPv6 packets.
            tclass_v6, set_tclass_v6: u32, tclass_v6, set_tclass_v6
        }

        /// The former name of `tos_v4`.
        ///
        /// # Errors
        /// Those of the operating system.
        #[deprecated(
            note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific."
        )]
        pub fn tos(&self) -> ::std::io::Result<u32> {
            self.tos_v4()
        }

        /// The former name of `set_tos_v4`.
        ///
        /// # Errors
        /// Those of the operating system.
        #[deprecated(
            note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific."
        )]
        pub fn set_tos(&self, tos: u32) -> ::std::io::Result<()> {
            self.set_tos_v4(tos)
        }

        /// The network interface that the socket is bound to.
        ///
        /// # Errors
        /// Those of the operating system.
        pub fn device(&self) -> ::std::io::Result<Option<Vec<u8>>> {
            ::socket2::SockRef::from(self).device()
        }

        /// Binds the socket to a network interface, or to none.
        ///
        /// # Errors
        /// Those of the operating system.
        pub fn bind_device(&self, interface: Option<&[u8]>) -> ::std::io::Result<()> {
            ::socket2::SockRef::from(self).bind_device(interface)
        }
    };
}

pub(crate) use {internet_options, option};
