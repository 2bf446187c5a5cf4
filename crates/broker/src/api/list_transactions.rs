//! ListTransactions, versions 0 to 2 (KIP-664): the transactional ids that this node coordinates, by state and producer; from
//! version 1 by how long they are open (KIP-994), from 2 by a pattern of the whole id (KIP-1152).

use ottla_protocol::messages::list_transactions_response::TransactionState;
use ottla_protocol::messages::{ListTransactionsRequest, ListTransactionsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::pattern::compile;
use crate::security::acl::{Operation, Resource};
use crate::transaction::{Listed, Status};

impl Api for ListTransactionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListTransactionsResponse> {
        let pattern = self.transactional_id_pattern.as_deref();
        let pattern = pattern.filter(|pattern| !pattern.is_empty());
        let pattern = match pattern.map(compile).transpose() {
            Ok(pattern) => pattern,
            Err(_) => {
                let code = ErrorCode::INVALID_REGULAR_EXPRESSION;
                return Outcome::Answer(self.refuse(cx.version, code));
            }
        };
        let named = |name: &&Str| Status::ALL.iter().any(|status| status.name() == &***name);
        let unknown = self.state_filters.iter().filter(|name| !named(name));
        let is_wanted = |listed: &Listed<'_>| {
            let states = &self.state_filters;
            let producers = &self.producer_id_filters;
            let open = cx.core.wall.at(cx.now).saturating_sub(listed.started_ms);
            (states.is_empty() || states.iter().any(|name| &**name == listed.status.name()))
                && (producers.is_empty() || producers.contains(&listed.producer_id))
                && (self.duration_filter < 0 || open > self.duration_filter)
                && pattern.as_ref().is_none_or(|it| it.is_match(listed.id))
                && cx.may(Operation::Describe, Resource::transactional_id(listed.id))
        };
        let transaction_states = cx.core.look_at_transactions(|transactions| {
            let wanted = transactions.list().filter(is_wanted);
            let states = wanted.map(|listed| TransactionState {
                transactional_id: listed.id.into(),
                producer_id: listed.producer_id,
                transaction_state: Str::from_static(listed.status.name()),
                ..Default::default()
            });
            states.collect()
        });
        Outcome::Answer(ListTransactionsResponse {
            unknown_state_filters: unknown.cloned().collect(),
            transaction_states,
            ..Default::default()
        })
    }
}
