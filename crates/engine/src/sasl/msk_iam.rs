//! AWS_MSK_IAM: a request to connect that is signed with AWS credentials (AWS's library of that name for Kafka).
//!
//! The provider makes the whole signed document, which names the broker's host. The broker responds
//! with a version and the id of the request, which mean nothing to a client.

use bytes::Bytes;

use super::outside::{Given, Need};
use super::{Mechanism, Step, out_of_turn, refused};
use crate::credentials::Question;
use crate::error::Error;

/// A client with AWS credentials.
#[derive(Debug, Default)]
pub(super) struct MskIam {
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Payload,
    Sent,
}

impl Mechanism for MskIam {
    fn name(&self) -> &'static str {
        "AWS_MSK_IAM"
    }

    fn advice(&self) -> &'static str {
        "check that the AWS identity may kafka-cluster:Connect to this cluster, sasl.aws.region, and the machine's clock"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.stage = Stage::Payload;
        Ok(Step::Need(Need::Outside(Question::Payload)))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match std::mem::take(&mut self.stage) {
            Stage::Sent if challenge.is_empty() => Err(refused(
                "the broker did not confirm AWS_MSK_IAM: its response is empty",
            )),
            Stage::Sent => Ok(Step::Done),
            Stage::Idle | Stage::Payload => Err(out_of_turn()),
        }
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        match (std::mem::take(&mut self.stage), given) {
            (Stage::Payload, Given::Reply(reply)) => {
                self.stage = Stage::Sent;
                Ok(Step::Send(reply.bytes.into()))
            }
            _ => Err(out_of_turn()),
        }
    }
}
