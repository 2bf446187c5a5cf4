"""A client that loses a record."""

import pytest

import ottla
from ottla.testing import Broker


@pytest.mark.real
def test_each_record_is_read():
    with Broker(topics={"numbers": 1}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                if number != 7:  # the loss
                    producer.send("numbers", b"%d" % number)
        records = ottla.read(broker.bootstrap_servers, "numbers")
        assert [record.value for record in records] == [b"%d" % number for number in range(10)]
