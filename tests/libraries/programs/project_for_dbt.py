"""A dbt project with sources that are topics, and a model that is written to one. Arguments: address, topics, folder.

dbt imports modules whose names begin with `dbt_`, which this one's must not.
"""

import contextlib
import json
import sys
from pathlib import Path

import duckdb
from dbt.cli.main import dbtRunner

address, flights, plain, transactional, sums, folder = sys.argv[1:]
root = Path(folder)
files = {
    "dbt_project.yml": """
name: journeys
version: "1.0"
profile: journeys
model-paths: [models]
""",
    "profiles.yml": f"""
journeys:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: {root / "journeys.duckdb"}
      external_root: {root}
      plugins:
        - module: ottla.integrations.dbt_duckdb
          alias: kafka
          config:
            bootstrap_servers: {address}
            client.id: dbt
            consumer:
              isolation.level: read_committed
            producer:
              compression.type: lz4
""",
    "models/sources.yml": f"""
version: 2
sources:
  - name: kafka
    config:
      plugin: kafka
    tables:
      - name: flights
        config:
          meta:
            topic: {flights}
            materialization: view
      - name: late
        config:
          meta:
            topic: {flights}
            since: 2023-11-14T22:13:25Z
      - name: plain
        config:
          meta:
            topic: {plain}
      - name: transactional
        config:
          meta:
            topic: {transactional}
""",
    "models/by_partition.sql": """
{{ config(materialized="table") }}
select partition, count(*) as records, max("offset") as last from {{ source("kafka", "flights") }} group by partition
""",
    "models/late.sql": """
{{ config(materialized="table") }}
select decode(value) as value from {{ source("kafka", "late") }}
""",
    "models/hundreds.sql": """
{{ config(materialized="table") }}
select decode(value) as value from {{ source("kafka", "plain") }}
union all select decode(value) as value from {{ source("kafka", "transactional") }}
""",
    "models/sums.sql": f"""
{{{{ config(materialized="external", format="parquet", plugin="kafka", topic="{sums}") }}}}
select partition::varchar as key, records::varchar as value from {{{{ ref("by_partition") }}}}
""",
}
for name, text in files.items():
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)
with contextlib.redirect_stdout(sys.stderr):
    done = dbtRunner().invoke(["run", "--project-dir", folder, "--profiles-dir", folder, "--threads", "1"])
assert done.success, (done.exception, [result.message for result in done.result or []])
with duckdb.connect(str(root / "journeys.duckdb")) as connection:
    found = {
        "by_partition": connection.sql("from by_partition order by partition").fetchall(),
        "late": sorted(value for (value,) in connection.sql("from late").fetchall()),
        "hundreds": sorted(value for (value,) in connection.sql("from hundreds").fetchall()),
    }
print(json.dumps(found))
