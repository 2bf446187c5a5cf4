"""What calls of an admin client return, and some of what they take: a file for each noun, imported when needed."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in `ottla`, which imports this module
if TYPE_CHECKING:
    from typing import Any

    from ottla._admin.acls import AclBinding, AclFilter
    from ottla._admin.cluster import (
        ClusterDescription,
        FeatureLevels,
        FeatureMetadata,
        FeatureUpdate,
        Node,
        QuorumInfo,
        QuorumNode,
        QuorumReplica,
        RaftEndpoint,
    )
    from ottla._admin.configs import AlterConfigOp, ConfigEntry, ConfigResource, ConfigSynonym
    from ottla._admin.groups import (
        GroupDescription,
        GroupLag,
        MemberDescription,
        OffsetReset,
        ShareGroupOffset,
        StreamsGroupDescription,
        StreamsMember,
        StreamsSubtopology,
        StreamsTasks,
        StreamsTopic,
    )
    from ottla._admin.log_dirs import LogDir, LogDirReplica, ReplicaLogDir, TopicPartitionReplica, TopicSize
    from ottla._admin.partitions import ListedOffset, NewPartitions, PartitionReassignment
    from ottla._admin.reassigning import ReassignmentPlan, ReassignmentProgress, ReplicaMove
    from ottla._admin.tokens import DelegationToken
    from ottla._admin.topics import NewTopic
    from ottla._admin.transactions import HangingTransaction, TransactionDescription
    from ottla._admin.users import ClientQuota, ScramCredential, ScramDeletion, ScramUpsertion
    from ottla._rows import Rows

__all__ = [
    "AclBinding",
    "AclFilter",
    "AlterConfigOp",
    "ClientQuota",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "DelegationToken",
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupLag",
    "HangingTransaction",
    "ListedOffset",
    "LogDir",
    "LogDirReplica",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetReset",
    "PartitionReassignment",
    "QuorumInfo",
    "QuorumNode",
    "QuorumReplica",
    "RaftEndpoint",
    "ReassignmentPlan",
    "ReassignmentProgress",
    "ReplicaLogDir",
    "ReplicaMove",
    "Rows",
    "ScramCredential",
    "ScramDeletion",
    "ScramUpsertion",
    "ShareGroupOffset",
    "StreamsGroupDescription",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopic",
    "TopicPartitionReplica",
    "TopicSize",
    "TransactionDescription",
]
"""The public ones: `ottla` has them all."""

# Where a class is. What is not here, `ottla._types` has.
_HOMES = {
    "acls": ("AclBinding", "AclFilter"),
    "cluster": (
        "ClusterDescription",
        "FeatureLevels",
        "FeatureMetadata",
        "FeatureUpdate",
        "Node",
        "QuorumInfo",
        "QuorumNode",
        "QuorumReplica",
        "RaftEndpoint",
    ),
    "configs": ("AlterConfigOp", "ConfigEntry", "ConfigResource", "ConfigSynonym"),
    "groups": (
        "GroupDescription",
        "GroupLag",
        "MemberDescription",
        "OffsetReset",
        "ShareGroupOffset",
        "StreamsGroupDescription",
        "StreamsMember",
        "StreamsSubtopology",
        "StreamsTasks",
        "StreamsTopic",
    ),
    "log_dirs": ("LogDir", "LogDirReplica", "ReplicaLogDir", "TopicPartitionReplica", "TopicSize"),
    "partitions": ("ListedOffset", "NewPartitions", "PartitionReassignment"),
    "reassigning": ("ReassignmentPlan", "ReassignmentProgress", "ReplicaMove"),
    "tokens": ("DelegationToken",),
    "topics": ("NewTopic",),
    "transactions": ("HangingTransaction", "TransactionDescription"),
    "users": ("ClientQuota", "ScramCredential", "ScramDeletion", "ScramUpsertion"),
}
_MODULES = {name: f"ottla._admin.{home}" for home, names in _HOMES.items() for name in names} | {"Rows": "ottla._rows"}


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'ottla._admin' has no attribute {name!r}")
    found = getattr(importlib.import_module(_MODULES.get(name, "ottla._types")), name)
    globals()[name] = found
    return found
