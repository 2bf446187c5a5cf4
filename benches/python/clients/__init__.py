"""Every client, and the limits: a module each, a function for each way of using it.

A function takes a `Job` and a `Stopwatch`, and returns how many records and bytes of values it did. It starts the watch
when its client is connected, and stops it when the last record has been looked at, or acknowledged. Every consumer
looks at each value; every producer is told of each record's delivery. A module imports its library in the functions,
so that a process loads nothing but what it measures.
"""
