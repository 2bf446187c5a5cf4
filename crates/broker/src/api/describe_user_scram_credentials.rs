//! DescribeUserScramCredentials, version 0 (KIP-554): which mechanisms a user has, and their iterations; never a key.

use ottla_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use ottla_protocol::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::security::users::ScramHash;

impl Api for DescribeUserScramCredentialsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeUserScramCredentialsResponse> {
        if let Err(code) = cx.check(Operation::Describe, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let users = &cx.core.security.verifiers.users;
        let results = match &self.users {
            Some(asked) if !asked.is_empty() => {
                let count = |name: &str| asked.iter().filter(|user| *user.name == *name).count();
                let of = |name: &str| match users.describe(Some(name)).pop() {
                    _ if count(name) > 1 => refused(
                        name,
                        ErrorCode::DUPLICATE_RESOURCE,
                        format!(
                            "Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                        ),
                    ),
                    Some((name, infos)) => found(name, &infos),
                    None => refused(
                        name,
                        ErrorCode::RESOURCE_NOT_FOUND,
                        format!(
                            "Attempt to describe a user credential that does not exist: {name}"
                        ),
                    ),
                };
                asked.iter().map(|user| of(&user.name)).collect()
            }
            _ => {
                let all = users.describe(None).into_iter();
                all.map(|(name, infos)| found(name, &infos)).collect()
            }
        };
        Outcome::Answer(DescribeUserScramCredentialsResponse {
            results,
            ..Default::default()
        })
    }
}

fn found(name: String, infos: &[(ScramHash, u32)]) -> DescribeUserScramCredentialsResult {
    let infos = infos.iter().map(|(hash, iterations)| CredentialInfo {
        mechanism: *hash as i8,
        iterations: i32::try_from(*iterations).unwrap_or(i32::MAX),
        ..Default::default()
    });
    DescribeUserScramCredentialsResult {
        user: name.into(),
        credential_infos: infos.collect(),
        ..Default::default()
    }
}

fn refused(name: &str, code: ErrorCode, message: String) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult {
        user: name.into(),
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
