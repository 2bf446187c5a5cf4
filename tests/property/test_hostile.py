"""No bytes make `ottla.protocol` raise anything but a ProtocolError, and what it reads it writes again.

Without `OTTLA_SEED` the bytes are the same in every run; with it, whatever its value, others each time.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.protocol import (
    APIS,
    INTERNAL_TOPICS,
    MESSAGES,
    decode,
    decode_control,
    decode_frame,
    decode_internal,
    decode_records,
    encode,
)

# What has broken readers of this protocol before: counts, lengths, varints, magic bytes, codecs.
PIECES = [
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x01",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x10",
    b"\x00\x00\x00\x01",
    b"\x00\x01a",
    b"\x1f\x8b\x08",
    b"\x82SNAPPY\x00",
    b"\x04\x22\x4d\x18",
    b"\x28\xb5\x2f\xfd",
]
HOSTILE = st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)
NAMED = st.sampled_from([(name, version) for name, versions in MESSAGES.items() for version in versions])
TRIED = settings(max_examples=300, derandomize="OTTLA_SEED" not in os.environ, database=None, deadline=None)
FORMS = st.sampled_from(["python", "json"])


@TRIED
@given(NAMED, HOSTILE, FORMS)
def test_any_bytes_are_a_message_or_a_protocol_error(named, data, form):
    name, version = named
    try:
        message = decode(name, version, data, form=form)
    except ProtocolError:
        return
    again = encode(name, version, message, form=form)
    # A number that is none is not equal to itself.
    assert "nan" in repr(message) or decode(name, version, again, form=form) == message


@TRIED
@given(st.integers(-(2**15), 2**15 - 1), st.sampled_from(sorted(MESSAGES)), HOSTILE)
def test_a_version_that_is_not_there_is_an_error_that_says_so(version, name, data):
    if version not in MESSAGES[name]:
        with pytest.raises(ProtocolError, match=f"no version {version} "):
            decode(name, version, data)


@TRIED
@given(st.sampled_from([None, *((api.name, version) for api in APIS.values() for version in api.versions)]), HOSTILE)
def test_any_bytes_are_a_frame_or_a_protocol_error(response_to, data):
    for frame in (data, len(data).to_bytes(4, "big") + data):
        with suppress(ProtocolError):
            decode_frame(frame, response_to=response_to)


@TRIED
@given(HOSTILE, st.integers(-1, 3), st.integers(0, 7), st.booleans())
def test_any_bytes_are_records_or_a_protocol_error(data, magic, codec, check_crcs):
    # Alone, and behind the start of an entry that says of itself what it may.
    start = bytes(8) + (len(data) + 6).to_bytes(4, "big") + bytes(4) + bytes([magic & 0xFF, codec])
    for records in (data, start + data):
        with suppress(ProtocolError):
            decode_records(records, check_crcs=check_crcs, limit=1 << 16)


@TRIED
@given(st.sampled_from(sorted(INTERNAL_TOPICS)), st.none() | HOSTILE, st.none() | HOSTILE)
def test_any_bytes_are_a_record_of_an_internal_topic_or_a_protocol_error(topic, key, value):
    with suppress(ProtocolError):
        decode_internal(topic, key, value)
    with suppress(ProtocolError):
        decode_control(key, value)
