"""What the command line offers programs: one envelope, the tree of commands, exit codes; and `sql`, `copy`, `top`."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from importlib import import_module
from types import SimpleNamespace

import pytest

import ottla
from ottla import cli
from ottla.cli import commands, elsewhere, output, profiles, times, units, windows
from ottla.testing import Broker
from tests.pace import patience
from tests.python.shell import Shell

PATIENCE = patience(20)


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"orders": 2, "flights": 1}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for number in range(20):
                value = json.dumps({"item": "tea" if number % 2 else "cup", "price": number, "offset": "x"})
                producer.send("orders", value.encode(), key=b"k%d" % number, headers={"h": b"1"}, timestamp=10**12)
            producer.flush(PATIENCE)
        yield broker


@pytest.fixture
def shell(broker, capsys):
    return Shell(capsys, broker.client_config())


def leaves(tree, path=""):
    here = f"{path} {tree['name']}".strip()
    if not tree["commands"]:
        yield here, tree
    for child in tree["commands"]:
        yield from leaves(child, here)


@pytest.fixture
def tree(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--help-json"])
    assert end.value.code == 0
    return json.loads(capsys.readouterr().out)


# --- the tree of commands ---


def test_the_tree_has_each_command(tree):
    assert [child["name"] for child in tree["commands"]] == list(commands.COMMANDS)
    found = dict(leaves(tree))
    assert {"ottla topics create", "ottla groups reset", "ottla acls delete", "ottla top"} <= found.keys()
    for path, command in found.items():
        assert "ottla " in command["examples"], f"{path} has no example"
        assert command["description"], path
        for argument in command["arguments"]:
            assert argument["help"] or not argument["flags"], f"{path} {argument['name']} has no help"
    [replication] = [each for each in found["ottla topics create"]["arguments"] if each["name"] == "--replication"]
    assert replication["takes_value"]
    assert not replication["repeatable"]


def test_each_command_has_one_summary(tree):
    """The help of `ottla` is written without importing the commands."""
    for child in tree["commands"]:
        summary = commands.COMMANDS[child["name"]].summary
        assert child["description"] == f"{summary[0].upper()}{summary[1:]}."
        import_module(f"ottla.cli.{commands.COMMANDS[child['name']].module}")


def test_each_command_with_rows_prints_the_envelope(tree):
    own = {"consume", "produce", "decode", "ingest", "broker", "completion"}
    for path, command in leaves(tree):
        flags = {flag for each in command["arguments"] for flag in each["flags"]}
        if path.split()[1] not in own:
            assert {"--format", "--utc", "--profile", "--bootstrap"} <= flags, path


def test_an_error_is_in_the_envelope(shell, capsys):
    code, out, err = shell("topics describe no-such --format json")
    assert code == 1
    [failure] = json.loads(out)["failures"]
    assert (failure["item"], failure["error"], failure["code"]) == ("no-such", "NotFoundError", 3)
    assert failure["message"] in err
    assert cli.main(["topics", "-b", "localhost", "--format", "json"]) == 1
    envelope = json.loads(capsys.readouterr().out)
    assert (envelope["command"], envelope["items"]) == ("topics", [])
    assert envelope["failures"][0]["error"] == "ConfigError"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("topcs", "did you mean topics?"),
        ("topics lst", "did you mean list?"),
        ("topics list --formt json", "did you mean --format?"),
        ("topics list --format jsn", "did you mean json?"),
        ("groups reset g --to tomorrow", "is not a time"),
        ("topics offsets t:1-", "TOPIC:0,2-4"),
        ("topics offsets t:4-2", "is not a range"),
        ("topics offsets t:0-4000000000", "is not a range"),
    ],
)
def test_mistyped_words_get_the_nearest(capsys, line, hint):
    with pytest.raises(SystemExit) as end:
        cli.main(line.split())
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 2)
    assert hint in err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("brokers", "write ottla cluster brokers"),
        ("topics delete-records", "write ottla topics trim"),
        ("consume orders --from-beginning", "write --beginning"),
        ("consume orders --since=1h", "write -o @-1h"),
        ("groups reset billing --to earliest --to-earliest", "write --to earliest"),
        ("topics create x --config retention.ms=1", "write --topic-config for the topic's"),
    ],
)
def test_words_of_other_tools_get_ours(capsys, line, hint):
    with pytest.raises(SystemExit) as end:
        cli.main(line.split())
    assert end.value.code == 2
    assert hint in capsys.readouterr().err


def test_every_hint_is_a_command(tree):
    """What is written instead exists, and what it replaces does not."""
    found = dict(leaves(tree))
    nouns = {path.rsplit(" ", 1)[0] for path in found} | found.keys()
    for path, command in found.items():
        choices = [each["choices"] or [] for each in command["arguments"] if not each["flags"]]
        nouns |= {f"{path} {choice}" for listed in choices for choice in listed}
    for prog, words in elsewhere._WORDS.items():
        flags = {flag for each in found.get(prog, {}).get("arguments", []) for flag in each["flags"]}
        for word, instead in words.items():
            assert f"{prog} {word}" not in nouns, (prog, word)
            assert word not in flags, (prog, word)
            for command in re.findall(r"ottla [a-z-]+(?: (?!or\b)[a-z-]+)?", instead):
                assert command in nouns, command
            if not instead.startswith("ottla"):
                assert instead.split()[0].rstrip(",") in flags, (prog, instead)


def test_without_a_command_the_help_is_an_error(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert "ottla COMMAND --help" in err


def test_a_wrong_command_is_no_wall_of_text(capsys):
    with pytest.raises(SystemExit):
        cli.main(["zzz"])
    assert "choose from" not in capsys.readouterr().err


def test_units():
    assert units.setting("retention.ms=7d") == ("retention.ms", "604800000")
    assert units.setting("retention.bytes=1GiB") == ("retention.bytes", "1073741824")
    assert units.setting("producer_byte_rate=1MiB") == ("producer_byte_rate", "1048576")
    for same in ("retention.ms=7", "retention.ms=-1", "retention.ms=7y", "cleanup.policy=7d", "metrics=1GiB", "x.ms="):
        assert "=".join(units.setting(same)) == same


def test_a_reader_of_help_that_has_seen_enough():
    command = f"{sys.executable} -m ottla --help-json | head -c 10 | wc -c"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=patience(60), check=True)
    assert (done.stdout.strip(), done.stderr) == ("10", "")


def test_help_imports_no_client_and_no_command():
    """What is imported decides how long the help takes; the time itself depends on the machine."""
    script = (
        "import sys; from ottla import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stderr.split())
    parts = {"", "._admin", "._ottla", ".cli", ".cli.arguments", ".cli.commands", ".cli.parser", ".cli.streams"}
    assert {name for name in loaded if name.split(".")[0] == "ottla"} == {f"ottla{part}" for part in parts}
    assert not loaded & {"dataclasses", "typing", "inspect", "logging", "json", "datetime", "asyncio"}


def test_a_broker_prints_the_envelope():
    program = [sys.executable, "-m", "ottla", "broker", "--port", "0", "--format", "json"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        envelope = json.loads(process.stdout.readline())
        [listener] = envelope["items"]
        with ottla.Admin(listener["bootstrap_servers"]) as admin:
            assert admin.list_topics() == []
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
    assert (envelope["command"], listener["protocol"]) == ("broker", "PLAINTEXT")


# --- tables ---


class Terminal:
    def isatty(self):
        return True


def test_tables_fit_the_screen(shell, monkeypatch):
    """Columns of text are cut, numbers are not; wide letters count twice."""
    rows = [{"a": "x" * 60, "b": "日本語" * 4, "n": 12345}]
    shown = output.columns("a", "b", "n:number")
    options = type("Options", (), {"utc": True})()
    assert [output.wide(line) for line in output.table_lines(options, shown, rows)][1] == 60 + 2 + 24 + 2 + 5
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    head, line = output.table_lines(options, shown, rows)
    assert output.wide(line) <= 50
    assert line.endswith("12345")
    assert "…" in line
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert output.table_lines(options, shown, rows)[0] == f"\x1b[1m{head}\x1b[0m"


def test_partitions_are_shown_as_ranges():
    options = type("Options", (), {"utc": True})()
    assigned = [ottla.TopicPartition(topic, number) for topic, number in [("b", 0), ("a", 3), ("a", 0), ("a", 1)]]
    lines = output.table_lines(options, output.columns("assigned"), [{"assigned": output.plain(assigned)}])
    assert lines == ["ASSIGNED", "a:0-1,3 b:0"]


def test_formats(shell):
    assert shell.ok("topics offsets flights --format csv") == ["topic,partition,start,end,records", "flights,0,0,0,0"]
    assert shell.ok("topics offsets flights --format tsv") == ["flights\t0\t0\t0\t0"]
    assert shell.ok("topics offsets flights --format names") == ["flights"]
    assert shell.ok("topics offsets flights") == [
        "TOPIC    PARTITION  START  END  RECORDS",
        "flights          0      0    0        0",
    ]


def test_times():
    assert times.shown(0, utc=True) == "1970-01-01 00:00:00.000Z"
    assert re.fullmatch(r"19\d\d-\d\d-\d\d \d\d:\d\d:00.000[+-]\d\d:\d\d", times.shown(0, utc=False))
    assert times.shown(-1, utc=True) == "-"
    assert [times.duration_shown(each) for each in (0.5, 59, 61, 7200, 90061)] == ["0.5s", "59s", "1m1s", "2h", "1d1h"]
    assert [output.size(each) for each in (1, 1536, 2**63)] == ["1 B", "1.5 KiB", "8.0 EiB"]


@pytest.fixture
def zone(monkeypatch):
    """A local time zone two hours before UTC."""
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOON = 1_769_860_800


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has one zone for all programs")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("2026-01-31", NOON - 12 * 3600),
        ("today", time.time() // 86400 * 86400),
        ("yesterday", time.time() // 86400 * 86400 - 86400),
        ("2026-01-31T12:00", NOON),
        ("2026-01-31 12:00", NOON),
        ("2026-01-31T12:00Z", NOON),
        ("2026-01-31 14:00:00.000+02:00", NOON),
        ("@2026-01-31T12:00", NOON),
        ("1769860800", NOON),
        ("1769860800000", NOON),
        ("1769860800000000000", NOON),
    ],
)
def test_a_time_is_the_same_for_every_command_and_utc_without_a_zone(zone, given, seconds):
    assert times.since(given).timestamp() == seconds
    point = windows.parse(f"@{given.removeprefix('@')}").begin
    assert (point.kind, point.value) == ("time", seconds * 1000)


@pytest.mark.parametrize(("given", "seconds"), [("1h30m", 5400), ("0.5s", 0.5), ("90s", 90), ("2w", 14 * 86400)])
def test_durations(given, seconds):
    assert times.duration(given) == seconds
    for ago in (given, f"-{given}", f"@-{given}"):
        assert times.since(ago).timestamp() == pytest.approx(time.time() - seconds, abs=PATIENCE)
    start = windows.parse(f"@-{given}", now=NOON).begin
    assert start.value == (NOON - seconds) * 1000
    assert windows.parse(f"@-10w:+{given}", now=NOON).end.value == (NOON - 70 * 86400 + seconds) * 1000


@pytest.mark.parametrize("given", ["", "1", "x", "12:00", "2026-13-01", "1969-12-31", "20260131", "1y", "9" * 19 + "w"])
def test_what_is_no_time(given):
    with pytest.raises(argparse.ArgumentTypeError):
        times.since(given)


@pytest.mark.parametrize("given", ["", "x", "-1", "1y", "h", "9" * 19 + "w"])
def test_what_is_no_duration(given):
    with pytest.raises(argparse.ArgumentTypeError):
        times.duration(given)


def test_a_number_alone_is_seconds():
    assert [times.duration(each) for each in ("0", "90", "1.5")] == [0, 90, 1.5]


# --- profiles ---


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A project below a user's folder, and the current folder inside of it."""
    for name in list(os.environ):
        if name.startswith("OTTLA_") and name in {profiles.variable(row["name"]) for row in ottla._ottla.properties()}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "user" / "ottla").mkdir(parents=True)
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(inside)
    return tmp_path


def test_profiles_are_found(home, broker, capsys, monkeypatch):
    (home / "ottla.toml").write_text("[profiles.outside]\n")
    (home / "project" / "ottla.toml").write_text(
        f'profile = "here"\n[profiles.here]\nbootstrap.servers = "{broker.bootstrap_servers}"\n'
        '[profiles.both]\nclient.id = "of the project"\n'
    )
    (home / "user" / "ottla" / "ottla.toml").write_text(
        'profile = "both"\n[profiles.both]\nclient.id = "of the user"\nsasl.username = "me"\nlinger.ms = 5\n'
    )
    assert cli.main(["topics"]) == 0
    assert capsys.readouterr().out.splitlines() == ["flights", "orders"]
    cli.main(["config", "profiles", "--format", "json"])
    rows = json.loads(capsys.readouterr().out)["items"]
    assert [(row["profile"], row["default"], len(row["files"])) for row in rows] == [
        ("here", True, 1),
        ("both", False, 2),
    ]

    def shown(*given):
        assert cli.main(["config", "show", "--format", "json", *given]) == 0
        return {row["property"]: (row["value"], row["source"]) for row in json.loads(capsys.readouterr().out)["items"]}

    assert shown("--profile", "both") == {
        "bootstrap.servers": ("localhost:9092", "default"),
        "client.id": ("of the project", "profile both"),
        "sasl.username": ("me", "profile both"),
        "linger.ms": ("5", "profile both"),
    }
    monkeypatch.setenv("OTTLA_PROFILE", "both")
    monkeypatch.setenv("OTTLA_CLIENT_ID", "of the environment")
    monkeypatch.setenv("OTTLA_SASL_PASSWORD", "of nobody else")
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap_servers)
    found = shown("--config", "sasl.username=given")
    assert found["client.id"] == ("of the environment", "OTTLA_CLIENT_ID")
    assert found["sasl.password"] == ("(hidden)", "OTTLA_SASL_PASSWORD")
    assert found["sasl.username"] == ("given", "--config")
    assert found["bootstrap.servers"][0] == broker.bootstrap_servers
    assert cli.main(["topics", "-b", broker.bootstrap_servers, "--profile", "nobody"]) == 1
    assert "there is no profile 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("profile = 3", "is the name of a profile"),
        ("[profile.local]", "is the name of a profile"),
        ("[profils.local]", "did you mean profiles?"),
        ('[profiles.local]\nsasl.usernam = "a"', "did you mean sasl.username?"),
        ("[profiles", "ottla.toml"),
    ],
)
def test_a_wrong_file_is_named(home, capsys, text, error):
    (home / "project" / "ottla.toml").write_text(text)
    assert cli.main(["topics"]) == 1
    _, err = capsys.readouterr()
    assert error in err
    assert "ottla.toml" in err


def test_secrets(home, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "s1")
    (tmp_path / "file").write_text("s2\n")
    given = {"a": "${SECRET}", "b": f"${{file:{tmp_path / 'file'}}}", "c": "$${SECRET}", "d": "x${env:SECRET}y"}
    assert profiles.resolve(given) == {"a": "s1", "b": "s2", "c": "${SECRET}", "d": "xs1y"}
    for wrong, error in (("${NOT_THERE}", "NOT_THERE is not set"), ("${vault:x}", "is not")):
        with pytest.raises(ottla.errors.ConfigError, match=error):
            profiles.resolve({"sasl.password": wrong})


def test_secrets_of_the_keyring(monkeypatch):
    found = {("kafka", "alice"): "s3"}
    keyring = SimpleNamespace(
        get_password=lambda service, user: found.get((service, user)), errors=SimpleNamespace(KeyringError=OSError)
    )
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    assert profiles.resolve({"sasl.password": "${keyring:kafka/alice}"}) == {"sasl.password": "s3"}
    with pytest.raises(ottla.errors.ConfigError, match="keyring set kafka bob"):
        profiles.resolve({"sasl.password": "${keyring:kafka/bob}"})
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ottla.errors.ConfigError, match=r"pip install 'ottla\[cli\]'"):
        profiles.resolve({"sasl.password": "${keyring:kafka/alice}"})


def test_a_mistyped_variable_is_an_error(home, monkeypatch, capsys):
    monkeypatch.setenv("OTTLA_SASL_PASWORD", "x")
    assert cli.main(["topics"]) == 1
    assert "did you mean OTTLA_SASL_PASSWORD?" in capsys.readouterr().err


def test_the_example_is_a_file_of_profiles(home, capsys, monkeypatch):
    assert cli.main(["config", "example"]) == 0
    (home / "project" / "ottla.toml").write_text(capsys.readouterr().out)
    default, found = profiles.read()
    assert (default, set(found)) == ("local", {"local", "production"})
    monkeypatch.setenv("KAFKA_PASSWORD", "s")
    assert profiles.resolve(found["production"].properties)["sasl.password"] == "s"


# --- completion ---


def words(capsys, line, *connection):
    assert cli.main(["completion", "words", "--line", line]) == 0
    return capsys.readouterr().out.splitlines()


def test_completion(broker, capsys, shell):
    shell.ok("groups list")
    at = f"-b {broker.bootstrap_servers}"
    for line, found in {
        "ottla to": ["topics", "tokens", "top"],
        "ottla topics del": ["delete"],
        "ottla topics list --lo": ["--long"],
        "ottla topics list --format j": ["json"],
        "ottla topics list --format=c": ["--format=csv"],
        "ottla config adm": ["admin"],
        f"ottla {at} topics delete ": ["flights", "orders"],
        f"ottla {at} topics delete flights o": ["orders"],
        f"ottla consume {at} -t flights,o": ["flights,orders"],
        f"ottla consume {at} -t fl": ["flights"],
        f"ottla groups reset {at} g --topic or": ["orders"],
        f"ottla configs get {at} topic/f": ["topic/flights"],
        "ottla topics --config sasl.us": ["sasl.username="],
        "ottla topics -b 127.0.0.1:1 delete ": [],
    }.items():
        assert words(capsys, line) == found, line


def test_completion_of_groups(broker, capsys):
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("billing", {("flights", 0): 0})
        assert "billing" in words(capsys, f"ottla groups lag -b {broker.bootstrap_servers} b")
        admin.delete_groups("billing")


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_completion_script(shell_name, capsys):
    assert cli.main(["completion", shell_name]) == 0
    script = capsys.readouterr().out
    assert "ottla completion words --line" in script
    if shell_name == "bash":
        subprocess.run(["bash", "-n"], input=script.encode(), timeout=60, check=True)


# --- sql, copy, top ---


def test_sql(shell):
    assert shell.rows("sql 'select item, sum(price) as total from orders group by item order by 1'") == [
        {"item": "cup", "total": 90.0},
        {"item": "tea", "total": 100.0},
    ]
    [row] = shell.rows("""sql 'select key, headers, "offset" from orders where item = $$tea$$ and price = 1'""")
    assert (row["key"], row["headers"]) == ("k1", [{"key": "h", "value": "1"}])
    assert isinstance(row["offset"], int), "the topic's offset, not the field of the value"
    assert shell.rows("sql 'select count(*) as n from orders' --since 1h") == [{"n": 0}]
    assert shell.rows("sql 'select count(*) as n from orders' --raw") == [{"n": 20}]
    assert "item" in shell.fails("sql 'select item from orders' --raw")
    assert shell.ok("sql 'select 1 as one'") == ["one", "  1"]
    assert "did you mean orders?" in shell.fails("sql 'select * from ordrs'")
    assert "syntax error" in shell.fails("sql 'selec 1'")
    assert shell("sql")[0] == 2


def records(servers, topic):
    found = ottla.read(servers, topic)
    return sorted((r.partition, r.timestamp, r.key, r.value, r.headers) for r in found)


def test_copy(shell, broker):
    """Once, also if it runs again; a transaction that was aborted is not copied."""
    with ottla.Producer(broker.bootstrap_servers, transactional_id="copied") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("flights", b"aborted").result(PATIENCE)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("flights", b"committed")
    with Broker() as other:
        assert shell.rows("copy orders orders-2")[0]["records"] == 20
        assert records(broker.bootstrap_servers, "orders-2") == records(broker.bootstrap_servers, "orders")
        assert shell.rows("copy orders orders-2")[0]["records"] == 0
        to = f"--to-bootstrap {other.bootstrap_servers}"
        assert shell.rows(f"copy orders orders {to}")[0]["records"] == 20
        assert records(other.bootstrap_servers, "orders") == records(broker.bootstrap_servers, "orders")
        shell.ok("topics alter flights --set retention.ms=5000000000000")
        assert shell.rows(f"copy flights flights {to}")[0]["records"] == 1
        assert [r.value for r in ottla.read(other.bootstrap_servers, "flights")] == [b"committed"]
        with ottla.Admin(other.bootstrap_servers) as admin:
            [[retention]] = admin.describe_configs(("TOPIC", "flights"), names=["retention.ms"]).values()
        assert retention.value == "5000000000000"
        assert shell.rows(f"copy orders late --since 1h {to}")[0]["records"] == 0
    assert "is source and target" in shell.fails("copy orders orders")
    shell.ok("topics create narrow:1")
    assert "add-partitions narrow --total 2" in shell.fails("copy orders narrow")


def test_copy_follows_until_ctrl_c(broker):
    program = [sys.executable, "-m", "ottla", "copy", "orders", "followed", "--follow", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + patience(60)
        with ottla.Admin(broker.bootstrap_servers) as admin:
            while sum(row.committed or 0 for row in _progress(admin)) < 20:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        process.send_signal(2)
        out, err = process.communicate(timeout=patience(30))
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[1].split() == ["orders", "followed", "2", "20"]


def _progress(admin):
    if "ottla-copy.orders" not in [group.group_id for group in admin.list_groups()]:
        return []
    return [row for row in admin.lag("ottla-copy.orders") if row.topic == "followed"]


def test_top(shell, broker):
    stop = threading.Event()

    def write():
        with ottla.Producer(broker.bootstrap_servers) as producer:
            while not stop.wait(0.02):
                producer.send("flights", b"x").result(PATIENCE)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        code, out, err = shell("top --count 2 --interval 1 --topic flights --format json")
    finally:
        stop.set()
        writer.join(PATIENCE)
    assert (code, err) == (0, "")
    first, second = (json.loads(line)["items"][0]["topics"][0] for line in out.splitlines())
    assert first["per_second"] is None
    assert second["per_second"] > 0
    assert second["records"] > first["records"]
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("slow", {("orders", 0): 0})
        lines = shell.ok("top --count 1 --group slow")
        assert lines[0].split() == ["TOPIC", "PARTITIONS", "RECORDS", "PER", "SECOND"]
        [row] = [line.split() for line in lines if line.startswith("slow ")]
        assert int(row[2]) > 0
        admin.delete_groups("slow")


def test_ctrl_c_ends_top(broker):
    program = [sys.executable, "-m", "ottla", "top", "-b", broker.bootstrap_servers, "--interval", "60"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("TOPIC")
        process.send_signal(2)
        _, err = process.communicate(timeout=patience(30))
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (0, "")
