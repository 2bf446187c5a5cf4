//! The numbers and names of Kafka's resource types and operations.

macro_rules! codes {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name { $($variant = $code,)* }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) fn from_code(code: i8) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| *known as i8 == code)
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// By its name, with `-` or `_`, in any case.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                let name = name.to_ascii_lowercase().replace('_', "-");
                Self::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}

codes! {
    /// What an ACL is about.
    ResourceType {
        Topic = 2 "topic",
        Group = 3 "group",
        Cluster = 4 "cluster",
        TransactionalId = 5 "transactional-id",
        DelegationToken = 6 "delegation-token",
        User = 7 "user",
    }
}

codes! {
    /// What an ACL is for.
    Operation {
        All = 2 "all",
        Read = 3 "read",
        Write = 4 "write",
        Create = 5 "create",
        Delete = 6 "delete",
        Alter = 7 "alter",
        Describe = 8 "describe",
        ClusterAction = 9 "cluster-action",
        DescribeConfigs = 10 "describe-configs",
        AlterConfigs = 11 "alter-configs",
        IdempotentWrite = 12 "idempotent-write",
        CreateTokens = 13 "create-tokens",
        DescribeTokens = 14 "describe-tokens",
        TwoPhaseCommit = 15 "two-phase-commit",
    }
}
