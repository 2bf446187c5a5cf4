//! The identity of the member, and the identity that is returned to callers.

use std::sync::Arc;

use crate::call::GroupMetadata;

/// A member's place in its group.
#[derive(Debug)]
pub(super) struct Identity {
    group: Arc<str>,
    instance_id: Option<Arc<str>>,
    generation: i32,
    member_id: Arc<str>,
    /// The generation and the member's id of the last assignment.
    assigned: Option<(i32, Arc<str>)>,
}

impl Identity {
    pub(super) fn new(group: Arc<str>, instance_id: Option<Arc<str>>) -> Identity {
        Identity {
            group,
            instance_id,
            generation: -1,
            member_id: Arc::default(),
            assigned: None,
        }
    }

    /// Whether the group counts on it, as far as known.
    pub(super) fn is_member(&self) -> bool {
        self.generation >= 0
    }

    pub(super) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    /// Whether the coordinator has named it.
    pub(super) fn is_named(&self) -> bool {
        !self.member_id.is_empty()
    }

    pub(super) fn generation(&self) -> i32 {
        self.generation
    }

    pub(super) fn member_id(&self) -> &Arc<str> {
        &self.member_id
    }

    /// As requests to the coordinator name it.
    pub(super) fn present(&self) -> GroupMetadata {
        self.named(self.generation, &self.member_id)
    }

    /// The identity for callers that have worked on the last assignment. It stays when the group
    /// continues without the member: a transaction without a member is not fenced (KIP-447).
    pub(super) fn as_assigned(&self) -> GroupMetadata {
        match &self.assigned {
            Some((generation, member_id)) => self.named(*generation, member_id),
            None => GroupMetadata {
                instance_id: self.instance_id.clone(),
                ..GroupMetadata::outside(Arc::clone(&self.group))
            },
        }
    }

    fn named(&self, generation: i32, member_id: &Arc<str>) -> GroupMetadata {
        GroupMetadata {
            group: Arc::clone(&self.group),
            generation,
            member_id: Arc::clone(member_id),
            instance_id: self.instance_id.clone(),
        }
    }

    /// The coordinator names it before it is let in (KIP-394).
    pub(super) fn name(&mut self, member_id: Arc<str>) {
        self.member_id = member_id;
    }

    /// It is in this generation.
    pub(super) fn admit(&mut self, generation: i32, member_id: Arc<str>) {
        self.generation = generation;
        self.member_id = member_id;
    }

    /// The present generation has an assignment.
    pub(super) fn assign(&mut self) {
        self.assigned = Some((self.generation, Arc::clone(&self.member_id)));
    }

    /// The group continues without it; `keeps_id` if it may rejoin under its id.
    pub(super) fn lose(&mut self, keeps_id: bool) {
        self.generation = -1;
        if !keeps_id {
            self.member_id = Arc::default();
        }
    }

    /// It has left, and has no identity.
    pub(super) fn forget(&mut self) {
        self.lose(false);
        self.assigned = None;
    }
}
