"""A call that does not return."""

import pytest

import ottla
from ottla.testing import Broker


@pytest.mark.real
@pytest.mark.timeout(3)
def test_a_poll_returns():
    with Broker(topics={"nothing": 1}) as broker, ottla.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([ottla.TopicPartition("nothing", 0)])
        consumer.poll(60)
