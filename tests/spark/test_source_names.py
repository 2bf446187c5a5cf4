"""The names of options that Spark's own Kafka source reads, from its jar."""

import re
import zipfile

import pytest
from scripts.docs import equivalents

from .conftest import peer_jars

# Other names in the class: values, Kafka's own properties, and what only Spark's tests set.
NOT_OPTIONS = {
    *("latest", "earliest", "source", "executor", "false", "none", "_mockSystemTime", "kafka."),
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "kafka.key.serializer"),
    *("kafka.value.serializer", "auto.offset.reset", "enable.auto.commit", "max.poll.records"),
    *("receive.buffer.bytes", "group.id"),
}
# Bytes of an entry of a class file's constant pool, by its tag; 1 is text, 8 a literal's index, 5 and 6 take two places.
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def literals(code):
    """The texts that a class file has as literals."""
    count, at, index = int.from_bytes(code[8:10]), 10, 1
    texts, literal = {}, []
    while index < count:
        tag, at = code[at], at + 1
        if tag == 1:
            size = int.from_bytes(code[at : at + 2])
            texts[index] = code[at + 2 : at + 2 + size].decode(errors="replace")
            at += 2 + size
        else:
            if tag == 8:
                literal.append(int.from_bytes(code[at : at + 2]))
            at += SIZES[tag]
        index += 2 if tag in (5, 6) else 1
    return {texts[index] for index in literal}


@pytest.mark.needs("mvn")
def test_the_page_of_migration_has_every_option_of_sparks_source():
    [jar] = [each for each in peer_jars() if each.name.startswith("spark-sql-kafka")]
    with zipfile.ZipFile(jar) as archive:
        names = literals(archive.read("org/apache/spark/sql/kafka010/KafkaSourceProvider$.class"))
        settings = literals(archive.read("org/apache/spark/sql/kafka010/package$.class"))
    found = {name for name in names if re.fullmatch(r"[A-Za-z._]+", name)} - NOT_OPTIONS
    assert len(found) > 15
    shown = {name.lower() for name in equivalents.SPARK}
    assert found - shown == set()
    prefixes = tuple(name.removesuffix("*") for name in equivalents.SPARK if name.startswith("spark."))
    assert [name for name in settings if name.startswith("spark.") and not name.startswith(prefixes)] == []
