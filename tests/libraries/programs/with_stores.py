"""Tiered segments in an emulated object store. Arguments: s3, gcs or azure, the mode of a scene, a folder, and for azure the program.

It prints rows that differ from librdkafka's, and what was requested of the store.
"""

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# gcsfs otherwise asks the real service what kind of bucket it is, for minutes.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

import fsspec
from tests.python.tiered_scenes import LEVELS, rows, scenes, unpacked

from ottla.log import open_log, read_log

BUCKET = "segments"
ENDINGS = (".log", ".indexes", ".rsm-manifest")
# The account that Azure's emulator has.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
kind, mode, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
# Reads of objects, with their ranges.
requested: list[tuple[str, str]] = []


def counting(application):
    def counted(environ, start):
        if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith(ENDINGS):
            requested.append((environ["PATH_INFO"], environ.get("HTTP_RANGE", "")))
        return application(environ, start)

    return counted


@contextlib.contextmanager
def s3():
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = counting(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        yield "s3", {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": address}}
    finally:
        server.shutdown()


@contextlib.contextmanager
def gcs():
    from gcp_storage_emulator.server import RequestHandler, create_server

    answer = RequestHandler.do_GET

    def counted(self):
        path, _, query = self.path.partition("?")
        # Names have their slashes quoted, and metadata of objects are requested without `alt`.
        if path.endswith(ENDINGS) and ("alt=media" in query or "/download/" in path):
            requested.append((path, self.headers.get("Range", "")))
        # fsspec closes connections with responses that it does not need.
        with contextlib.suppress(BrokenPipeError):
            answer(self)

    RequestHandler.do_GET = counted
    server = create_server("127.0.0.1", port := free_port(), in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        yield "gs", {"endpoint_url": f"http://127.0.0.1:{port}", "token": "anon", "project": "p"}
    finally:
        server.stop()


@contextlib.contextmanager
def azure():
    port = free_port()
    command = [sys.argv[4], "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with subprocess.Popen(
        [*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)], stdout=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port)
            at = f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
            named = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};{at}"
            yield "az", {"connection_string": named}
        finally:
            process.terminate()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


found = scenes()[mode]
local = unpacked(found["local"], folder / "local")
with {"s3": s3, "gcs": gcs, "azure": azure}[kind]() as (scheme, options):
    system = fsspec.filesystem(scheme, **options)
    if kind != "gcs":
        system.mkdir(BUCKET)
    for path, data in found["store"].items():
        unpacked({path: data}, folder / "store")
        system.pipe_file(f"{BUCKET}/{path}", (folder / "store" / path).read_bytes())
    url = f"{scheme}://{BUCKET}/pre"
    read = {"private_keys": found["keys"], "storage_options": options}
    report = {}
    for level in LEVELS:
        requested.clear()
        joined = rows(read_log(local, remote=url, isolation_level=level, **read))
        segments = sum(path.endswith(".log") for path in found["store"])
        report[level] = {"equal": joined == found[level], "rows": len(joined), "requests": len(requested)}
        alone = rows(read_log(url, isolation_level=level, **read))
        ends = open_log(url, isolation_level=level, **read).end_offsets()
        report[level]["alone"] = alone == [row for row in found[level] if row[1] < ends["orders", row[0]]]
    report["segments"] = segments
    report["ranges"] = sum(bool(span) for path, span in requested if path.endswith(".log"))
print(json.dumps(report))
