//! StreamsGroupDescribe, versions 0 and 1 (KIP-1071). The broker has no groups of Kafka Streams.

use ottla_protocol::messages::streams_group_describe_response::DescribedGroup;
use ottla_protocol::messages::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::Operation;

impl Api for StreamsGroupDescribeRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<StreamsGroupDescribeResponse> {
        let groups = self.group_ids.iter().map(|group: &Str| {
            let (code, text) = match cx.check_group(Operation::Describe, group) {
                Ok(()) => {
                    let text = format!("there is no group \"{group}\" of Kafka Streams");
                    (ErrorCode::GROUP_ID_NOT_FOUND, text)
                }
                Err(code) => (code, code.name().to_owned()),
            };
            DescribedGroup {
                error_code: code.0,
                error_message: Some(text.into()),
                group_id: group.clone(),
                ..Default::default()
            }
        });
        Outcome::Answer(StreamsGroupDescribeResponse {
            groups: groups.collect(),
            ..Default::default()
        })
    }
}
