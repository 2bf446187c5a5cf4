//! Credentials of users for SCRAM (KIP-554): DescribeUserScramCredentials and AlterUserScramCredentials.

use std::fmt;

use bytes::Bytes;
use ottla_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use ottla_protocol::messages::describe_user_scram_credentials_request::UserName;
use ottla_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::codes::ScramMechanism;
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::{only, results};
use crate::call::{About, Asked, ByItem, Call, Retry, Target, controller, values};
use crate::error::Error;

verbs! {
    describe_user_scram_credentials: DescribeUserScramCredentials,
    alter_user_scram_credentials: AlterUserScramCredentials,
}

/// A credential, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ScramCredential {
    /// The mechanism.
    pub mechanism: ScramMechanism,
    /// How often the password is hashed.
    pub iterations: i32,
}

/// Describes the credentials of users.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeUserScramCredentials {
    /// Their names; `None` for all users that have one.
    pub users: Option<Vec<String>>,
}

impl Call for DescribeUserScramCredentials {
    type Found = Vec<(String, Result<Vec<ScramCredential>, Error>)>;
    type Answer = ByItem<Vec<ScramCredential>>;
    const API: ApiKey = ApiKey::DescribeUserScramCredentials;

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        // An empty list means all users, as null does. On null a broker that denies the request fails and does not respond at
        // all (`DescribeUserScramCredentialsRequest.getErrorResponse` of 4.4.0 throws a NullPointerException).
        let users = self.users.iter().flatten().map(|name| UserName {
            name: name.as_str().into(),
            ..Default::default()
        });
        Request::DescribeUserScramCredentials(DescribeUserScramCredentialsRequest {
            users: Some(users.collect()),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeUserScramCredentials(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref();
            return vec![Err(Error::from_code(code, text))];
        }
        let rows = answer.results.iter().map(|row| {
            let code = ErrorCode(row.error_code);
            if code.is_error() {
                let error = Error::from_code(code, row.error_message.as_deref());
                return (row.user.to_string(), Err(error.calling(Self::API.name())));
            }
            let credentials = row.credential_infos.iter().map(|info| ScramCredential {
                mechanism: ScramMechanism(info.mechanism),
                iterations: info.iterations,
            });
            let mut credentials: Vec<_> = credentials.collect();
            credentials.sort();
            (row.user.to_string(), Ok(credentials))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        vec![Ok(rows)]
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        let (names, found): (Vec<_>, Vec<_>) = only(found, "the users")?.into_iter().unzip();
        ByItem::new(names, found)
    }
}

/// A change of a user's credentials.
#[derive(Clone, Deserialize)]
pub struct ScramAlteration {
    /// The user.
    pub user: String,
    /// The mechanism.
    pub mechanism: ScramMechanism,
    /// How often the password was hashed; 0 deletes the credential.
    pub iterations: i32,
    /// The salt.
    #[serde(deserialize_with = "values::byte_string")]
    pub salt: Bytes,
    /// The hashed password.
    #[serde(deserialize_with = "values::byte_string")]
    pub salted_password: Bytes,
}

impl fmt::Debug for ScramAlteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.mechanism.name(), self.user)
    }
}

/// Sets and deletes credentials. An item is a user.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "AlterUserScramCredentialsArguments")]
pub struct AlterUserScramCredentials {
    users: Vec<String>,
    alterations: Vec<ScramAlteration>,
}

#[derive(Deserialize)]
struct AlterUserScramCredentialsArguments {
    alterations: Vec<ScramAlteration>,
}

impl From<AlterUserScramCredentialsArguments> for AlterUserScramCredentials {
    fn from(arguments: AlterUserScramCredentialsArguments) -> AlterUserScramCredentials {
        let alterations = arguments.alterations;
        let mut users: Vec<String> = Vec::new();
        for each in &alterations {
            if !users.contains(&each.user) {
                users.push(each.user.clone());
            }
        }
        AlterUserScramCredentials { users, alterations }
    }
}

impl Call for AlterUserScramCredentials {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::AlterUserScramCredentials;

    fn items(&self) -> usize {
        self.users.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let users: Vec<_> = items
            .iter()
            .filter_map(|item| self.users.get(*item))
            .collect();
        let wanted = self.alterations.iter();
        let wanted: Vec<_> = wanted.filter(|row| users.contains(&&row.user)).collect();
        let deletions = wanted.iter().filter(|row| row.iterations == 0);
        let upsertions = wanted.iter().filter(|row| row.iterations != 0);
        Request::AlterUserScramCredentials(AlterUserScramCredentialsRequest {
            deletions: deletions
                .map(|row| ScramCredentialDeletion {
                    name: row.user.as_str().into(),
                    mechanism: row.mechanism.0,
                    ..Default::default()
                })
                .collect(),
            upsertions: upsertions
                .map(|row| ScramCredentialUpsertion {
                    name: row.user.as_str().into(),
                    mechanism: row.mechanism.0,
                    iterations: row.iterations,
                    salt: row.salt.clone(),
                    salted_password: row.salted_password.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AlterUserScramCredentials(answer) = response else {
            return Vec::new();
        };
        results(items, "a user", |asked| {
            let user = self.users.get(asked.item)?;
            let row = answer.results.iter().find(|row| *row.user == **user)?;
            Some(match ErrorCode(row.error_code) {
                code if code.is_error() => {
                    Err(Error::from_code(code, row.error_message.as_deref()))
                }
                _ => Ok(()),
            })
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.users, found)
    }
}
