"""The reference codec, by which the fuzz target `reference` judges ours, is itself held against what Kafka wrote."""

from __future__ import annotations

from tests.conformance import reference


def test_the_reference_codec_reads_and_writes_what_kafka_does(capsys):
    assert reference.check() == 0, capsys.readouterr().out
    assert " full\n" in capsys.readouterr().out
