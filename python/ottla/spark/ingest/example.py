"""The file that `ottla ingest --example` prints."""

EXAMPLE = """\
# A job of `ottla ingest`: topics to a table. What is commented out shows a default, or what else there is.
# ${NAME} is the value of an environment variable; "$${" is "${". Such values are never printed.

name = "orders"                              # how Spark and the log call this job

# The options of format("ottla"): docs/reference/spark-options.md and docs/spark/typed.md. kafka.* are Kafka's own.
[source]
kafka.bootstrap.servers = "localhost:9092"
subscribe = ["orders"]                       # or subscribePattern, assign
# startingOffsets = "earliest"               # for a new checkpoint; an old one continues
value.format = "json"                        # json, avro, protobuf, csv, string; raw leaves bytes
"value.schema" = "item string, price decimal(8,2), at timestamp"
# "schema.registry.url" = "https://registry.example"      # Avro and Protobuf by the ids of a registry
maxOffsetsPerTrigger = 1_000_000             # most records of a micro-batch
# kafka.security.protocol = "SASL_SSL"
# kafka.sasl.mechanism = "SCRAM-SHA-512"
# kafka.sasl.username = "orders-reader"
# kafka.sasl.password = "${KAFKA_PASSWORD}"

[table]
format = "parquet"                           # or delta, iceberg: their package in [spark] below
path = "orders-table"                        # delta also takes, and iceberg wants: name = "lake.shop.orders"
# Columns in Spark's SQL. By default they are those of the source: key, value, topic, partition, offset, timestamp, ...
select = ["value.*", "CAST(key AS STRING) AS customer", "topic", "partition", "offset", "date(timestamp) AS day"]
# where = "value.price > 0"
partition-by = ["day"]                       # folders; few values, such as days
# [table.options]                            # of the format
# compression = "zstd"

# Records that do not decode. Without this table the first one ends the job.
[dead-letters]
topic = "orders-dead"                        # with reason and place in headers
# folder = "orders-dead"                     # or as Parquet: place, and the bytes that do not decode

[files]
# rows = 1_000_000                           # most rows of a file; a smaller micro-batch becomes one
# size = "128MB"                             # about the most bytes of one, by what earlier files have; parquet only

[run]
checkpoint = "orders-checkpoint"             # a folder of this job alone, for its offsets
# trigger = "available-now"                  # what is there, in micro-batches, then end; "once": in a single one;
#                                            # "30s": a micro-batch every 30 seconds, until SIGINT or SIGTERM

# Properties of Spark without "spark.". What spark-submit was given goes before them.
[spark]
# master = "local[*]"
# driver.memory = "2g"
# jars.packages = "io.delta:delta-spark_4.2_2.13:VERSION"
"""
