//! AlterUserScramCredentials, version 0 (KIP-554): the client sends the salted password, never the password.

use ottla_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use ottla_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use ottla_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::security::users::{Credential, ITERATIONS, MOST_ITERATIONS, ScramHash, Users};

impl Api for AlterUserScramCredentialsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterUserScramCredentialsResponse> {
        let allowed = cx.check(Operation::Alter, Resource::CLUSTER);
        let users = &cx.core.security.verifiers.users;
        let mut named: Vec<(&Str, i8)> = Vec::new();
        named.extend(self.deletions.iter().map(|it| (&it.name, it.mechanism)));
        named.extend(self.upsertions.iter().map(|it| (&it.name, it.mechanism)));
        let is_twice = |name: &Str, mechanism| {
            let same = named.iter().filter(|it| **it == (name, mechanism));
            same.count() > 1
        };
        let check = |name: &Str, mechanism| match allowed {
            Err(code) => Err((code, code.name())),
            Ok(()) if is_twice(name, mechanism) => Err((
                ErrorCode::DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )),
            Ok(()) if name.is_empty() => Err((
                ErrorCode::UNACCEPTABLE_CREDENTIAL,
                "Username must not be empty",
            )),
            Ok(()) => ScramHash::from_code(mechanism).ok_or((
                ErrorCode::UNSUPPORTED_SASL_MECHANISM,
                "Unknown SCRAM mechanism",
            )),
        };
        let mut results: Vec<AlterUserScramCredentialsResult> = Vec::new();
        for deletion in &self.deletions {
            let done = check(&deletion.name, deletion.mechanism)
                .and_then(|hash| delete(users, deletion, hash));
            note(&mut results, &deletion.name, done);
        }
        for upsertion in &self.upsertions {
            let done = check(&upsertion.name, upsertion.mechanism)
                .and_then(|hash| upsert(users, upsertion, hash));
            note(&mut results, &upsertion.name, done);
        }
        Outcome::Answer(AlterUserScramCredentialsResponse {
            results,
            ..Default::default()
        })
    }
}

type Done = Result<(), (ErrorCode, &'static str)>;

fn delete(users: &Users, asked: &ScramCredentialDeletion, hash: ScramHash) -> Done {
    if users.remove(&asked.name, hash) {
        Ok(())
    } else {
        Err((
            ErrorCode::RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ))
    }
}

fn upsert(users: &Users, asked: &ScramCredentialUpsertion, hash: ScramHash) -> Done {
    let iterations = u32::try_from(asked.iterations).unwrap_or(0);
    if iterations < ITERATIONS.get() {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "Too few iterations"));
    }
    if iterations > MOST_ITERATIONS {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "Too many iterations"));
    }
    let credential = Credential::of_salted(
        hash,
        &asked.salted_password,
        asked.salt.to_vec(),
        iterations,
    );
    users.set(&asked.name, hash, credential);
    Ok(())
}

/// One result for each user: the first error, if there is one.
fn note(results: &mut Vec<AlterUserScramCredentialsResult>, name: &Str, done: Done) {
    let found = results.iter_mut().find(|result| result.user == *name);
    let result = match found {
        Some(result) => result,
        None => {
            results.push(AlterUserScramCredentialsResult {
                user: name.clone(),
                ..Default::default()
            });
            match results.last_mut() {
                Some(result) => result,
                None => return,
            }
        }
    };
    if let (Err((code, message)), 0) = (done, result.error_code) {
        result.error_code = code.0;
        result.error_message = Some(Str::from_static(message));
    }
}
