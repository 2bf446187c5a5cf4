"""Files of `ottla ingest`, checked without brokers and without Spark."""

import re
import subprocess
import sys

import pytest

from ottla.cli import main
from ottla.spark.ingest import SettingsError
from ottla.spark.ingest.example import EXAMPLE
from ottla.spark.ingest.settings import KNOWN, parse

GOOD = """
name = "orders"
[source]
kafka.bootstrap.servers = "localhost:9092"
subscribe = ["orders", "returns"]
"value.format" = "json"
"value.schema" = "item string, price int"
maxOffsetsPerTrigger = 1_000
[table]
path = "/data/orders"
[run]
checkpoint = "/checkpoints/orders"
"""
OF_COLUMNS = 'subscribe = "orders"\nvalue.format = "json"\n"value.schema" = "item string"\ncolumns = "offset,value"\n'


def parsed(text, **environment):
    return parse(text.encode(), "orders.toml", environment)


def refused(text, **environment):
    with pytest.raises(SettingsError) as caught:
        parsed(text, **environment)
    told = str(caught.value)
    assert told.startswith("orders.toml: ")
    return told.removeprefix("orders.toml: ")


def changed(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_what_a_file_says():
    settings = parsed(GOOD + '[spark]\nmaster = "local[2]"\nsql.shuffle.partitions = 4\n')
    assert settings.source["kafka.bootstrap.servers"] == "localhost:9092"
    assert settings.source["subscribe"] == "orders,returns"
    assert settings.source["maxOffsetsPerTrigger"] == "1000"
    assert settings.source["startingOffsets"] == "earliest", "what is there is the first thing that people want"
    assert (settings.table.format, settings.table.path, settings.trigger) == (
        "parquet",
        "/data/orders",
        "available-now",
    )
    assert settings.spark == {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"}
    assert (settings.rows, settings.size, settings.letters) == (1_000_000, None, None)


def test_the_example_is_right_and_shows_every_key():
    settings = parsed(EXAMPLE)
    assert (settings.name, settings.source["deadLetterTopic"]) == ("orders", "orders-dead")
    for table, keys in KNOWN.items():
        for key in keys:
            # The table's format of Iceberg has a name, which a comment beside the path shows.
            assert re.search(rf"^(# )?{key} = |\b{key} = \"lake", EXAMPLE, re.MULTILINE), f"[{table}] {key}"
    uncommented = re.sub(r"^# (?=[\w\[\"][\w.\"-]*(?:\]| = ))", "", EXAMPLE, flags=re.MULTILINE)
    uncommented = uncommented.replace('topic = "orders-dead"', "").replace(
        'trigger = "available-now"  ', 'trigger = "30s"  '
    )
    everything = parsed(uncommented, KAFKA_PASSWORD="secret")
    assert everything.size == 128_000_000
    assert everything.table.options == (("compression", "zstd"),)
    assert everything.trigger == "30 seconds"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "this is not TOML: Invalid value (at "),
        (changed('name = "orders"', ""), "name is missing"),
        (changed('name = "orders"', "name = 1"), "name is a text in quotes, not 1"),
        (changed('name = "orders"', 'nam = "x"'), "nam is not known; did you mean name?"),
        (GOOD + "[tabel]\n", "[tabel] is not known; did you mean table? Known are table, files, dead-letters, run, source, spark"),
        (changed('path = "/data/orders"', 'paht = "x"'), "[table] paht is not known; did you mean path?"),
        (changed('path = "/data/orders"', 'path = ""'), "[table] path is empty"),
        (changed('path = "/data/orders"', 'format = "parket"\npath = "x"'), "[table] format cannot be 'parket'; did you mean parquet?"),
        (changed('path = "/data/orders"', 'format = "iceberg"\npath = "x"'), "[table] name is missing"),
        (changed('path = "/data/orders"', 'name = "x"\npath = "x"'), "[table] path and name exclude each other"),
        (changed('path = "/data/orders"', 'path = "x"\nselect = "a"'), "[table] select is a list of texts"),
        (changed("maxOffsetsPerTrigger", "maxOffsetPerTrigger"), "[source] option maxOffsetPerTrigger is not known to ottla; did you mean maxOffsetsPerTrigger?"),
        (changed("price int", "price itn"), "[source] option value.schema is 'item string, price itn', which is not columns in Spark's SQL: column price has the type itn, which Spark does not have; did you mean int?"),
        (changed('"item string, price int"', "'{\"type\": record}'"), "[source] option value.schema is '{\"type\": record}', which is not JSON: Expecting value: line 1 column 10 (char 9)"),
        (changed("1_000", '"many"'), "[source] option maxOffsetsPerTrigger must be a whole number above 0"),
        (changed("maxOffsetsPerTrigger = 1_000", "fetch = 2026-01-01"), "[source] fetch is a text, a number"),
        (changed("maxOffsetsPerTrigger", "kafka.fetch.min.bites"), "[source] option kafka.fetch.min.bites"),
        (changed("maxOffsetsPerTrigger = 1_000", 'kafka.ssl.ca.locatoin = "/absent"'), "[source] option kafka.ssl.ca.locatoin: is not a property of the consumer; did you mean ssl.ca.location?"),
        (changed("maxOffsetsPerTrigger = 1_000", 'kafka.security.protocl = "SSL"\nkafka.sasl.mechanism = "?"'), "[source] option kafka.security.protocl: is not a property of the consumer; did you mean security.protocol?"),
        (changed("maxOffsetsPerTrigger = 1_000", 'kafka.ssl.engine.factory.class = "a.B"'), "[source] option kafka.ssl.engine.factory.class: names Java classes"),
        (changed("maxOffsetsPerTrigger = 1_000", 'endingOffsets = "latest"'), "[source] option endingOffsets has no meaning in a stream"),
        (GOOD + 'trigger = "hourly"\n', '[run] trigger is "available-now", "once", or a time'),
        (changed('checkpoint = "/checkpoints/orders"', ""), "[run] checkpoint is missing"),
        (changed("/checkpoints/orders", "/data/orders/checkpoint"), "[run] checkpoint /data/orders/checkpoint is in the table's folder"),
        (GOOD + "[files]\nrows = 0\n", "[files] rows is a whole number above 0, not 0"),
        (GOOD + '[files]\nsize = "128"\n', '[files] size is a size such as "128MB"'),
        (GOOD + "[dead-letters]\n", None),
        (GOOD + '[dead-letters]\ntopic = "a"\nfolder = "b"\n', "[dead-letters] topic and folder exclude each other"),
        (GOOD + '[dead-letters]\ntopic = "orders"\n', "[source] option deadLetterTopic is orders, which option subscribe reads"),
        (changed("maxOffsetsPerTrigger = 1_000", 'mode = "FAILFAST"') + '[dead-letters]\ntopic = "a"\n', "[source] mode is set by [dead-letters]"),
        (re.sub(r'"value.*\n', "", GOOD) + '[dead-letters]\nfolder = "a"\n', "[dead-letters] folder has no meaning while [source] decodes nothing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text, told):
    if told is None:
        parsed(text)
    else:
        assert refused(text).startswith(told)


def test_a_byte_order_mark_is_no_part_of_a_file():
    """TOML 1.1 ignores it; editors on Windows write it."""
    assert parse(b"\xef\xbb\xbf" + GOOD.encode(), "orders.toml", {}) == parsed(GOOD)
    for encoding in ("utf-16-le", "utf-16-be"):
        with pytest.raises(SettingsError, match=r"^orders.toml is UTF-16, and TOML is UTF-8: save it as UTF-8$"):
            parse(f"\ufeff{GOOD}".encode(encoding), "orders.toml", {})


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        ("source", 'value.format = "avro"\n'),
        ("spark", 'sql.shuffle.partitions = 4\n"sql.shuffle.partitions" = 8\n'),
        ("table.options", 'a.b = "x"\n"a.b" = "x"\n'),
        ("table.options", 'a."b.c" = "x"\n"a.b".c = "x"\n'),
    ],
)
def test_a_key_that_is_given_with_quotes_and_without_is_refused(table, lines):
    text = GOOD.replace("[table]", f"{lines}[table]") if table == "source" else f"{GOOD}[{table}]\n{lines}"
    key = {"source": "value.format", "spark": "sql.shuffle.partitions"}.get(table, "a.b.c" if "c" in lines else "a.b")
    assert refused(text) == f'[{table}] {key} is given twice: {key} and "{key}" are the same, so leave one of them'


def test_secrets_come_from_the_environment_and_are_never_shown():
    text = changed(
        "maxOffsetsPerTrigger = 1_000", 'kafka.sasl.password = "${PASSWORD}"\nkafka.sasl.username = "a$${b}"'
    )
    settings = parsed(text, PASSWORD="open sesame")
    assert settings.source["kafka.sasl.password"] == "open sesame"
    assert settings.source["kafka.sasl.username"] == "a${b}"
    assert "sesame" not in repr(settings)
    assert settings.shown("it is open sesame!") == "it is ${PASSWORD}!"
    assert refused(text) == "[source] kafka.sasl.password wants variable PASSWORD, which the environment does not have"
    assert 'has "${" without the name' in refused(text.replace("${PASSWORD}", "${a b}"), PASSWORD="x")
    # In the place of a number it would be shown.
    wrong = refused(changed("1_000", '"${PASSWORD}"'), PASSWORD="open sesame")
    assert "sesame" not in wrong
    assert "${PASSWORD}" in wrong


def test_names_of_security_are_checked_and_their_files_are_not():
    more = 'kafka.security.protocol = "SASL_SSL"\nkafka.ssl.ca.location = "/absent"\nkafka.sasl.mechanisms = "PLAIN"\n'
    settings = parsed(changed("maxOffsetsPerTrigger = 1_000", more))
    assert settings.source["kafka.ssl.ca.location"] == "/absent"


@pytest.mark.parametrize("shown", ["' open\\nsesame '", "is open\nsesame.", "'open\\nsesame'"])
def test_secrets_are_hidden_in_every_form(shown):
    text = changed("maxOffsetsPerTrigger = 1_000", 'kafka.sasl.password = "${PASSWORD}"')
    settings = parsed(text, PASSWORD=" open\nsesame ")
    assert "sesame" not in settings.shown(shown)
    assert "${PASSWORD}" in settings.shown(shown)


@pytest.mark.parametrize(("old", "new"), [("1_000", '"${WHEN}"'), ("/checkpoints/orders", 'c"\ntrigger = "${WHEN}')])
def test_errors_of_a_file_hide_what_they_strip_and_quote(old, new):
    wrong = refused(changed(old, new), WHEN=' it\'s\ta\n"day" ')
    assert "day" not in wrong
    assert "${WHEN}" in wrong


def test_a_folder_of_dead_letters_adds_the_columns_that_it_needs():
    letters = '[dead-letters]\nfolder = "/dead/orders"\n'
    text = re.sub(r"subscribe(?:.*\n)*?(?=\[table)", OF_COLUMNS, GOOD) + letters
    settings = parsed(text)
    assert settings.source["columns"] == "offset,value,topic,partition,timestamp,_corrupt"
    assert settings.added == ("topic", "partition", "timestamp", "_corrupt")
    assert settings.source["mode"] == "PERMISSIVE"
    named = parsed(text.replace("columns =", 'columnNameOfCorruptRecord = "wrong"\ncolumns ='))
    assert (named.corrupt, named.added[-1]) == ("wrong", "wrong")


def test_a_topic_of_dead_letters_adds_the_columns_that_count_them():
    text = re.sub(r"subscribe(?:.*\n)*?(?=\[table)", OF_COLUMNS, GOOD) + '[dead-letters]\ntopic = "dead"\n'
    settings = parsed(text)
    assert (settings.source["columns"], settings.added) == ("offset,value,_corrupt", ("_corrupt",))
    assert (settings.source["mode"], settings.source["deadLetterTopic"]) == ("PERMISSIVE", "dead")
    assert (settings.topic, settings.letters) == ("dead", None)


def test_command_line(tmp_path, capsys, monkeypatch):
    assert main(["ingest", "--example"]) == 0
    assert capsys.readouterr().out == EXAMPLE
    file = tmp_path / "orders.toml"
    file.write_text(EXAMPLE)
    assert main(["ingest", "--check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: orders is right, into parquet orders-table\n"
    monkeypatch.setenv("PLACE", "hidden-place")
    file.write_text(EXAMPLE.replace('path = "orders-table"', 'path = "/${PLACE}/orders"'))
    assert main(["ingest", "--check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: orders is right, into parquet /${{PLACE}}/orders\n"
    file.write_text(EXAMPLE.replace("[table]", "[tabel]"))
    assert main(["ingest", "--check", str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"ottla: {file}: [tabel] is not known; did you mean table?")
    assert main(["ingest", "--check", str(tmp_path / "absent.toml")]) == 1
    with pytest.raises(SystemExit):
        main(["ingest"])
    assert "--example prints one" in capsys.readouterr().err


def test_help_and_checks_do_not_wait_for_spark(tmp_path):
    file = tmp_path / "orders.toml"
    file.write_text(EXAMPLE)
    script = f"import sys; from ottla.cli import main; main(['ingest', '--check', {str(file)!r}]); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"
