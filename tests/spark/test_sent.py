"""What executors get, opened by a Python that has ottla and by one that has not."""

import pickle
import subprocess
import sys
from pathlib import Path

import pyspark
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, StructField, StructType

from ottla.spark.log.options import LogOptions
from ottla.spark.log.reader import LogReader
from ottla.spark.log.source import OttlaLogDataSource
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.batch import BatchReader
from ottla.spark.read.map_in_arrow import _Rows
from ottla.spark.read.stream import UnlimitedStreamReader
from ottla.spark.shared.ranges import Range
from ottla.spark.source import OttlaDataSource
from ottla.spark.write.arrow_writer import StreamWriter
from ottla.spark.write.options import WriteOptions
from ottla.spark.write.writers import BatchWriter, RowStreamWriter

READ = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
OPENED = """
import pickle, sys
sys.path.insert(0, {home!r})
if {absent}:
    sys.modules["ottla"] = None
for sent in pickle.load(sys.stdin.buffer):
    try:
        print(type(pickle.loads(sent)).__name__)
    except ImportError as error:
        print(error)
"""


def made():
    source = OttlaDataSource({**READ, "value.format": "json", "value.schema": "a int", "columns": "value"})
    schema = StructType([StructField("value", StructType([StructField("a", IntegerType())]))])
    checked, layout = source._options, source._layout(schema)
    write = WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    # Spark sends the source along with its reader, and opens it first.
    yield source
    yield OttlaLogDataSource({"path": "/folder"})
    yield BatchReader(ReadOptions.parse(READ), layout)
    yield UnlimitedStreamReader(checked, layout)
    yield source.streamReader(schema)
    yield _Rows(checked, [Range("t", 0, 1, 2)], layout)
    yield LogReader(LogOptions.parse({"path": "/folder"}), layout)
    yield from (kind(write, (("value", 0),)) for kind in (BatchWriter, RowStreamWriter, StreamWriter))


def opened(absent):
    """What another Python says of each object."""
    program = OPENED.format(home=str(Path(pyspark.__path__[0]).parent), absent=absent)
    sent = pickle.dumps([cloudpickle.dumps(one) for one in made()])
    command = [sys.executable, "-c", program]
    return subprocess.run(command, input=sent, capture_output=True, timeout=60, check=True).stdout.decode().splitlines()


def test_what_is_sent_arrives_as_it_was():
    for sent in made():
        back = cloudpickle.loads(cloudpickle.dumps(sent))
        assert type(back) is type(sent)
        assert vars(back).keys() == vars(sent).keys()
    assert opened(absent=False) == [type(sent).__name__ for sent in made()]


def test_a_python_without_ottla_says_where_it_is():
    told = opened(absent=True)
    assert len(told) == len(list(made()))
    for line in told:
        assert line.startswith(f"the Python of this executor ({sys.executable} on ")
        assert "cannot import ottla: " in line
        assert "set PYSPARK_PYTHON to a Python on each host that has it" in line
