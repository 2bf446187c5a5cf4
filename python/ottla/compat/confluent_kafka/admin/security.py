"""Calls about access control lists and credentials for SCRAM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import ottla
from ottla.compat.confluent_kafka import constants
from ottla.compat.confluent_kafka.admin import results
from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.checks import check_filter, check_list
from ottla.compat.confluent_kafka.errors import KafkaError, code

# librdkafka calls the cluster BROKER.
_TO_KAFKA: Final = {"BROKER": "CLUSTER"}
_FROM_KAFKA: Final = {"CLUSTER": "BROKER"}
_MECHANISMS: Final = {
    constants.SCRAM_MECHANISM_SHA_256: "SCRAM-SHA-256",
    constants.SCRAM_MECHANISM_SHA_512: "SCRAM-SHA-512",
}


class SecurityCalls(AdminBase):
    """Create, describe and delete rules of access; describe and alter credentials for SCRAM."""

    def create_acls(self, acls: Any, future: Any, request_timeout: float | None = None) -> None:
        """Create rules.

        Args:
            acls: A list of AclBinding.
            future: Gets a list of None or KafkaError.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        check_list(acls, results.kinds().AclBinding, "AclBinding", error=ValueError)
        wanted = {_rule(each): None for each in acls}

        def call(admin: ottla.Admin, seconds: float) -> list[KafkaError | None]:
            failed = results.each(list(wanted), lambda: admin.create_acls(list(wanted), timeout=seconds))
            return [failed[_rule(each)] for each in acls]

        self._ottla_run("create_acls", future, request_timeout, call)

    def describe_acls(self, acl_binding_filter: Any, future: Any, request_timeout: float | None = None) -> None:
        """Find rules.

        Args:
            acl_binding_filter: An AclBindingFilter.
            future: Gets a list of AclBinding.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        check_filter(acl_binding_filter)
        wanted = _filter(acl_binding_filter)

        def call(admin: ottla.Admin, seconds: float) -> list[Any]:
            return [_binding(each) for each in admin.describe_acls(wanted, timeout=seconds)]

        self._ottla_run("describe_acls", future, request_timeout, call)

    def delete_acls(self, acls: Any, future: Any, request_timeout: float | None = None) -> None:
        """Delete rules.

        Args:
            acls: A list of AclBindingFilter.
            future: Gets a list of lists of the AclBindings that were deleted, or KafkaError.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        check_list(acls, results.kinds().AclBindingFilter, "AclBindingFilter", error=ValueError)
        wanted = [_filter(each) for each in acls]

        def call(admin: ottla.Admin, seconds: float) -> list[Any]:
            found, failed = results.partly(wanted, lambda: admin.delete_acls(wanted, timeout=seconds))
            return [failed.get(each) or [_binding(rule) for rule in found.get(each, [])] for each in wanted]

        self._ottla_run("delete_acls", future, request_timeout, call)

    def describe_user_scram_credentials(self, users: Any, future: Any, request_timeout: float | None = None) -> None:
        """Describe users' credentials for SCRAM.

        Args:
            users: A list of names; None for all users that have a credential.
            future: Gets a dict of UserScramCredentialsDescription or KafkaError by user.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        call = partial(_describe_users, users or None)
        self._ottla_run("describe_user_scram_credentials", future, request_timeout, call)

    def alter_user_scram_credentials(self, alterations: Any, future: Any, request_timeout: float | None = None) -> None:
        """Set and delete credentials for SCRAM.

        Args:
            alterations: A list of UserScramCredentialUpsertion and UserScramCredentialDeletion.
            future: Gets a dict of None or KafkaError by user.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        call = partial(_alter_users, alterations)
        self._ottla_run("alter_user_scram_credentials", future, request_timeout, call)


def _rule(given: Any) -> ottla.AclBinding:
    return ottla.AclBinding(
        _TO_KAFKA.get(given.restype.name, given.restype.name),
        given.name,
        given.principal,
        given.operation.name,
        given.permission_type.name,
        given.resource_pattern_type.name,
        given.host,
    )


def _filter(given: Any) -> ottla.AclFilter:
    return ottla.AclFilter(
        _TO_KAFKA.get(given.restype.name, given.restype.name),
        given.name,
        given.principal,
        given.operation.name,
        given.permission_type.name,
        given.resource_pattern_type.name,
        given.host,
    )


def _binding(rule: ottla.AclBinding) -> Any:
    kinds = results.kinds()
    return kinds.AclBinding(
        results.member(kinds.ResourceType, _FROM_KAFKA.get(rule.resource_type, rule.resource_type)),
        rule.name,
        results.member(kinds.ResourcePatternType, rule.pattern_type),
        rule.principal,
        rule.host,
        results.member(kinds.AclOperation, rule.operation),
        results.member(kinds.AclPermissionType, rule.permission),
    )


def _describe_users(users: list[str] | None, admin: ottla.Admin, seconds: float) -> dict[str, Any]:
    kinds = results.kinds()
    found: Mapping[Any, Any] = {}
    failed: dict[str, KafkaError] = {}
    if users is None:
        found = admin.describe_user_scram_credentials(timeout=seconds)
    else:
        found, failed = results.partly(users, lambda: admin.describe_user_scram_credentials(users, timeout=seconds))
    numbers = {name: number for number, name in _MECHANISMS.items()}
    described = {
        user: kinds.UserScramCredentialsDescription(
            user,
            [
                kinds.ScramCredentialInfo(kinds.ScramMechanism(numbers.get(each.mechanism, 0)), each.iterations)
                for each in credentials
            ],
        )
        for user, credentials in found.items()
    }
    return {**described, **failed}


def _alter_users(alterations: list[Any], admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
    failed: dict[str, KafkaError] = {}
    wanted: list[Any] = []
    for each in alterations:
        info = getattr(each, "scram_credential_info", None)
        mechanism = _MECHANISMS.get((info or each).mechanism.value)
        if mechanism is None:
            text = f"{each.user}: the mechanism is unknown"
            failed[each.user] = KafkaError(code("UNSUPPORTED_SASL_MECHANISM"), text)
        elif info is None:
            wanted.append(ottla.ScramDeletion(each.user, mechanism))  # type: ignore[arg-type]
        else:
            try:
                password = each.password.decode()
            except UnicodeDecodeError as error:
                failed[each.user] = KafkaError(code("_INVALID_ARG"), f"{each.user}: the password is not UTF-8: {error}")
                continue
            wanted.append(
                ottla.ScramUpsertion(each.user, mechanism, password, info.iterations, each.salt)  # type: ignore[arg-type]
            )
    sent = [each for each in wanted if each.user not in failed]
    users = list(dict.fromkeys(each.user for each in sent))
    if sent:
        _, refused = results.partly(users, lambda: admin.alter_user_scram_credentials(sent, timeout=seconds))
        failed.update(refused)
    return {each.user: failed.get(each.user) for each in alterations}
