"""Kafka topics in the libraries that people already use, each in a module of its own.

Each module needs the library that it is named after, and uses only public names of ottla. docs/integrations has a page
for each.
"""
