"""Tables of the options of kcat and of Spark's own Kafka source, with what replaces each of them.

Tests hold the options against those programs, and what replaces them against the command line and the Spark source.
"""

from __future__ import annotations

# By what the options are about in `kcat -h`: each option, and what replaces it.
KCAT = {
    "All modes": {
        "-C": "`ottla consume`",
        "-P": "`ottla produce`",
        "-L": "`ottla topics list --long`, `ottla cluster`",
        "-Q": "`ottla topics offsets TOPIC`",
        "-G GROUP TOPIC": "`ottla consume -g GROUP TOPIC`",
        "-t TOPIC": "`-t TOPIC`",
        "-p PARTITION": "`-p N`; of `consume` also lists: `-p 0,2-4`",
        "-b HOST": "`-b HOST`, `OTTLA_BOOTSTRAP`, or a [profile](../../command-line.md#profiles)",
        "-D DELIMITER": "see below",
        "-K DELIMITER": "see below",
        "-c COUNT": "see below",
        "-m SECONDS": "`--config default.api.timeout.ms=5000`; of `produce` `--config max.block.ms=5000`",
        "-F FILE": "`--profile NAME`, of a file `ottla.toml`",
        "-X NAME=VALUE": "`--config NAME=VALUE`",
        "-X list": "`ottla config consumer`, `ottla config producer`",
        "-X dump": "`ottla config show`",
        "-d CONTEXTS": "`-vv`",
        "-q": "nothing: only warnings are printed, on standard error",
        "-v": "`-v`",
        "-E": "of `produce` `--continue`. What a retry may mend ends no command",
        "-V": "`ottla --version`",
        "-h": "`ottla consume --help`",
    },
    "Produce": {
        "-z CODEC": "`-z CODEC`",
        "-p -1": "no `-p`: the key or the partitioner chooses",
        "-D DELIMITER": "`-f '%v;'`",
        "-K DELIMITER": "`--key-separator DELIMITER`",
        "-k KEY": "`-k KEY`",
        "-H NAME=VALUE": "`-H NAME=VALUE`",
        "-l FILE": "`--file FILE`",
        "-T": "`tee /dev/stderr` before `ottla produce`",
        "-c COUNT": "`head -n COUNT` before `ottla produce`",
        "-Z": "`-Z`",
        "FILE": "`-f %v`, with the file as standard input: one record",
        "-X transactional.id=ID": "`--transactional-id ID`",
    },
    "Consume": {
        "-o beginning": "`--beginning`",
        "-o end": "nothing: it is the default",
        "-o stored": "`-g GROUP`",
        "-o OFFSET": "`-o OFFSET`",
        "-o -COUNT": "`-o -COUNT`, of each partition; `--last COUNT`, of the topic",
        "-o s@TIME": "`-o @TIME`",
        "-o e@TIME": "`-o :@TIME`",
        "-e": "`-e`",
        "-f FORMAT": "`-f TEMPLATE`, with `%v` for `%s`, `%V` for `%S`, `%V{big32}` for `%R`, `%d` for `%T`, and "
        "`%h{%k=%v,}` for `%h`; `%k %K %t %p %o` are the same",
        "-J": "`--format json`",
        "-s PACK": "`-f '%k{unpack{>i}} %v{unpack{>i}}'`",
        "-s avro -r URL": "`--decode-value registry --decode-key registry --registry URL`",
        "-D DELIMITER": "`--separator DELIMITER`",
        "-K DELIMITER": "`-f '%k:%v\\n'`",
        "-O": "`-f '%o:%v\\n'`",
        "-c COUNT": "`-n COUNT`",
        "-Z": "`--format json` has `null`",
        "-u": "nothing: the records of each poll are written at once",
    },
    "Metadata and offsets": {
        "-L -t TOPIC": "`ottla topics describe TOPIC`",
        "-Q -t TOPIC:PARTITION:TIME": "`ottla topics offsets TOPIC:0 --at 1767225600000`",
    },
}

_SAME = "the same"
# The options of `KafkaSourceProvider`, and settings of a Spark session, with what becomes of them here.
SPARK = {
    "subscribe": f"{_SAME}; internal topics of Kafka are read if you name them",
    "subscribePattern": "a regular expression of Python's module `re`",
    "assign": _SAME,
    "startingOffsets": f"{_SAME}, and `group:ID` for where a consumer group stopped",
    "startingTimestamp": _SAME,
    "startingOffsetsByTimestamp": _SAME,
    "startingOffsetsByTimestampStrategy": _SAME,
    "endingOffsets": _SAME,
    "endingTimestamp": f"{_SAME}, but a stream rejects it; Spark's own source ignores it there",
    "endingOffsetsByTimestamp": _SAME,
    "failOnDataLoss": f"{_SAME}; an offset of an option that is below the first or above the last one fails the query "
    "before a task runs",
    "minPartitions": _SAME,
    "maxRecordsPerPartition": f"{_SAME}; it also divides batches that end at `latest`",
    "maxOffsetsPerTrigger": _SAME,
    "minOffsetsPerTrigger": _SAME,
    "maxTriggerDelay": _SAME,
    "includeHeaders": _SAME,
    "kafkaConsumer.pollTimeoutMs": _SAME,
    "fetchOffset.numRetries": f"{_SAME}; failed requests are repeated until `kafka.default.api.timeout.ms`",
    "fetchOffset.retryIntervalMs": _SAME,
    "groupIdPrefix": "no effect: tasks get their partitions without a consumer group",
    "kafka.group.id": "no effect, for the same reason",
    "topic": _SAME,
    "kafka.*": f"{_SAME}, but Java classes have no effect or are rejected",
    "spark.kafka.consumer.cache.*": "no effect: a Python worker keeps its clients for five minutes",
    "spark.kafka.consumer.fetchedData.cache.*": "no effect: a task reads its offsets in one pass",
    "spark.kafka.producer.cache.*": "no effect: a Python worker keeps its producers for ten minutes",
}


def kcat() -> str:
    """Tables of the options of kcat, with a heading for what they are about."""
    parts = []
    for title, options in KCAT.items():
        rows = [f"| `{option}` | {instead} |" for option, instead in options.items()]
        parts.append("\n".join([f"### {title}", "", "| kcat | ottla |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def spark() -> str:
    """A table of the options of Spark's own Kafka source and sink."""
    rows = [f"| `{option}` | {here} |" for option, here in SPARK.items()]
    return "\n".join(["| option of Spark's source | here |", "|---|---|", *rows])
