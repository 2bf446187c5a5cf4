"""Faults that are played from Python: the client gets its record through all of them, once."""

import pytest

import ottla

FAULTS = {
    "fail": ("NOT_LEADER_OR_FOLLOWER",),
    "delay": (0.2,),
    "throttle": (0.2,),
    "disconnect": (),
    "cut": (7,),
    "ignore": (),
    "hang": (),
    "answer_twice": (),
    "answer_another": (),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api_name", ["Produce", "Metadata"])
def test_a_record_gets_through(broker, address, topic, fault, api_name):
    play = getattr(broker, fault)
    with ottla.Producer(address, request_timeout_ms=1000, linger_ms=0) as producer:
        play(api_name, *FAULTS[fault])
        offsets = [producer.send(topic, b"%d" % i, partition=0).result(timeout=30).offset for i in range(3)]
    broker.clear_faults()
    assert offsets == [0, 1, 2]
    with ottla.Consumer(address) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {ottla.TopicPartition(topic, 0): 3}
