"""ottla and the embedded broker against everybody else: real Kafka, and the clients that others wrote.

`peers` puts every client behind one interface; `messages` are what each must carry; `stamps` judges a log after faults.
`franz` is the Go side of one peer. Real brokers come from `tests/brokers`.
"""
