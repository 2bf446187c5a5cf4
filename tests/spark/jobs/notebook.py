"""Runs a notebook for tests/spark/test_platforms.py: BOOTSTRAP TOPIC. It prints what the last cell shows, the number of records."""

import sys

import nbformat
from nbclient import NotebookClient

CELLS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

import ottla.spark

options = {{"kafka.bootstrap.servers": "{}", "subscribe": "{}"}}
spark.read.format("ottla").options(**options).load().count()
"""

book = nbformat.v4.new_notebook()
book.cells = [nbformat.v4.new_code_cell(text) for text in CELLS.format(*sys.argv[1:]).strip().split("\n\n")]
NotebookClient(book, timeout=500, kernel_name="python3").execute()
print(book.cells[-1].outputs[-1]["data"]["text/plain"])
