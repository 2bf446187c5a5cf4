"""Every public method of an admin client is one call of the core, and the engine has a verb for each: no more, and no less."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

import ottla
from ottla import _ottla, aio
from ottla.testing import Broker

ROOT = Path(__file__).parents[2]
AIO = ROOT / "python" / "ottla" / "aio"
SOURCES = [AIO / "_admin.py", *sorted((AIO / "_calls").glob("*.py"))]
VERBS = ROOT / "crates" / "engine" / "src" / "admin"

# What every client has.
OF_CLIENTS = {
    "client_instance_id",
    "close",
    "metrics",
    "register_metric_for_subscription",
    "unregister_metric_from_subscription",
}
# Methods that are another call with fewer arguments.
OTHER_NAMES = {"force_terminate_transaction": "fence_producers"}


def names(keyword: ast.keyword) -> set[str]:
    """The names of an argument, or of those that a function of `ottla._admin.arguments` returns in a dict."""
    return {keyword.arg} if keyword.arg else {"timestamp", "shift", "offsets"}


def calls() -> dict[str, list[tuple[str, set[str]]]]:
    """The calls of the core in each public method: their names, and the names of their arguments."""
    bodies = [
        node.body for path in SOURCES for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    found = {}
    for method in itertools.chain.from_iterable(bodies):
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_"):
            found[method.name] = [
                (ast.literal_eval(node.args[0]), set(itertools.chain.from_iterable(map(names, node.keywords))))
                for node in ast.walk(method)
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "self._core.call"
            ]
    return found


CALLS = {name: made for name, made in calls().items() if name not in OF_CLIENTS}
# These are made of other methods.
COMPOSED = {"plan_reassignment", "start_reassignment", "verify_reassignment"}


def test_the_methods_are_those_of_both_facades():
    for facade in (ottla.Admin, aio.Admin):
        assert {name for name in dir(facade) if not name.startswith("_")} == CALLS.keys() | OF_CLIENTS


@pytest.mark.parametrize("method", sorted(CALLS.keys() - COMPOSED))
def test_a_method_is_one_call_whose_arguments_are_the_fields_of_the_verb(method):
    ((name, arguments),) = CALLS[method]
    assert name == OTHER_NAMES.get(method, method)
    core = _ottla.AdminCore("127.0.0.1:1")
    try:
        with pytest.raises(TypeError, match=r"takes the arguments \[.*\], not \['not_an_argument'\]") as caught:
            core.call(name, 0, not_an_argument=1)
        taken = str(caught.value).partition("[")[2].partition("]")[0]
        assert set(re.findall(r"\w+", taken)) == arguments
    finally:
        core.close(None).wait()


def test_each_verb_of_the_engine_is_called():
    tables = re.findall(
        r"^verbs! \{\n(.*?)^\}", "\n".join(p.read_text() for p in VERBS.glob("*.rs")), re.MULTILINE | re.DOTALL
    )
    verbs = [name for table in tables for name in re.findall(r"^    (\w+): ", table, re.MULTILINE)]
    assert len(verbs) == len(set(verbs))
    assert set(verbs) == {name for made in CALLS.values() for name, _ in made}


def test_a_call_that_is_none_is_an_error():
    core = _ottla.AdminCore("127.0.0.1:1")
    try:
        with pytest.raises(LookupError, match="there is no call describe_nothing"):
            core.call("describe_nothing", 0)
    finally:
        core.close(None).wait()


def test_tokens_are_objects_with_pairs_for_principals(api):
    """KIP-48: on real Kafka, `tests/integration/test_sasl.py` also authenticates by one."""
    with Broker(users={"alice": "secret"}) as broker:
        settings = broker.client_config("alice", mechanism="SCRAM-SHA-256")
        with api.open("Admin", settings) as admin:
            token = api(admin.create_delegation_token(renewers=[("User", "bob")], max_lifetime=3600))
            assert type(token) is ottla.DelegationToken
            assert (token.owner, token.ends - token.issued) == (("User", "alice"), 3_600_000)
            (described,) = api(admin.describe_delegation_tokens([("User", "alice")]))
            assert (described.id, described.hmac) == (token.id, token.hmac)
            assert (described.requester, described.renewers) == (("User", "alice"), [("User", "bob")])
            assert api(admin.describe_delegation_tokens([("User", "bob")])) == []
            assert api(admin.renew_delegation_token(token, 600)) <= token.ends
            assert api(admin.expire_delegation_token(token.hmac)) <= token.ends
            assert api(admin.describe_delegation_tokens()) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"assignments": []}, "assignments are empty"),
        ({"assignments": [[1], [1]], "partitions": 3}, "partitions is 3, and assignments have the brokers of 2"),
        ({"assignments": [[1], [1]], "replication": 1}, "replication is given, and assignments have"),
    ],
)
def test_a_topic_has_assignments_or_numbers(fields, told):
    with Broker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(ottla.errors.ArgumentError, match=f"topic t: {told}"):
            admin.create_topics([ottla.NewTopic("t", **fields)])
        assert admin.list_topics() == []
