"""The jars of each release, which Maven resolves once, and the class paths made of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

KERBY = "2.0.3"
KERBY_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>brokers</groupId><artifactId>kdc</artifactId><version>{KERBY}</version><dependencies><dependency>"
    "<groupId>org.apache.kerby</groupId><artifactId>kerb-simplekdc</artifactId><version>{KERBY}</version>"
    "</dependency></dependencies></project>\n"
)
BORROWED = {"4.4.0": "4.3.1"}  # releases published without their tools modules -> the release whose tools serve instead


def home() -> Path:
    return Path(os.environ.get("KAFKA_BROKERS_HOME") or Path.home() / ".cache" / "kafka-brokers")


def libs(version: str) -> Path:
    return (home() / version / "libs").resolve()


@contextlib.contextmanager
def maven():
    """Lends Maven to one process at a time, whose own folder of jars is not made for several; its goals are tried three times."""

    def run(*goal, cwd: Path | None = None) -> None:
        for left in (2, 1, 0):
            try:
                sh("mvn", "-q", "-B", *goal, cwd=cwd, timeout=300)
                return
            except SystemExit:  # a registry that was busy, or a jar that another use of Maven left half way
                if not left:
                    raise
                time.sleep(1)

    home().mkdir(parents=True, exist_ok=True)
    with (home() / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield run


def pom(version: str) -> str:
    v = vt(version)

    def tag(name, gav, extra=""):
        parts = zip(("groupId", "artifactId", "version"), gav.split(":"), strict=False)
        return f"<{name}>" + "".join(f"<{k}>{x}</{k}>" for k, x in parts) + extra + f"</{name}>"

    def without(*gas):
        return "<exclusions>" + "".join(tag("exclusion", ga) for ga in gas) + "</exclusions>"

    scala = "2.10" if v < (0, 8, 2) else "2.11" if v < (2, 4) else "2.13"
    # The log binding comes first, so that its own log4j wins.
    deps = [
        tag(
            "dependency",
            "org.slf4j:slf4j-log4j12:1.7.30"
            if v < (3, 2)
            else "org.slf4j:slf4j-reload4j:1.7.36"
            if v < (4,)
            else "org.apache.logging.log4j:log4j-slf4j-impl:" + ("2.24.3" if v < (4, 1) else "2.25.3"),
        )
    ]
    # Old POMs name jars that were never published, and a second log binding.
    deps.append(
        tag(
            "dependency",
            f"org.apache.kafka:kafka_{scala}:{version}",
            without(
                "com.sun.jdmk:jmxtools",
                "com.sun.jmx:jmxri",
                "javax.jms:jms",
                "javax.mail:mail",
                "junit:junit",
                "jline:jline",
                "org.slf4j:slf4j-simple",
            ),
        )
    )
    managed = ""
    if v < (2, 1):  # javax.xml.bind.DatatypeConverter left the JDK with Java 11
        deps.append(tag("dependency", "javax.xml.bind:jaxb-api:2.3.1"))
    if (2,) <= v < (2, 4):  # ZooKeeper 3.4.13 and 3.4.14 misread their server's address from Java 14 on
        managed = tag("dependency", "org.apache.zookeeper:zookeeper:3.4.10")
    if version in BORROWED:
        managed = tag("dependency", f"org.apache.kafka:kafka-tools-api:{BORROWED[version]}")
    elif v >= (2, 6):  # command-line tools that are not in the core jar
        deps.append(tag("dependency", f"org.apache.kafka:kafka-tools:{version}", without("*:*")))
        deps.append(tag("dependency", "net.sourceforge.argparse4j:argparse4j:0.7.0"))
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>brokers</groupId><artifactId>kafka</artifactId><version>{version}</version>"
        f"<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>\n<dependencies>\n"
        + "\n".join(deps)
        + "\n</dependencies></project>\n"
    )


def fetch(version: str) -> Path:
    """The folder of the release's jars."""
    return resolve(libs(version), pom(version))


def class_path(jars: Path) -> str:
    """The jars of a folder, in an order that is always the same: an archive of classes fits no other."""
    return os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))


def fetch_kerby() -> Path:
    """The folder of the jars of a KDC."""
    return resolve(libs(f"kerby-{KERBY}"), KERBY_POM.format(KERBY=KERBY))


def resolve(to: Path, project: str) -> Path:
    """A folder of jars: resolved by Maven once, used without any network from then on."""
    if to.is_dir():
        return to
    with maven() as run:
        if not to.is_dir():  # another process may have been quicker
            to.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=to.parent) as work:
                Path(work, "pom.xml").write_text(project)
                goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}/libs"]
                run("-f", f"{work}/pom.xml", *goal)
                Path(work, "libs").rename(to)
    return to


def vt(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in version.split("."))


def sh(*cmd, cwd=None, data: bytes | None = None, timeout: float | None = None, **env) -> bytes:
    if not shutil.which(cmd[0]):
        raise SystemExit(f"{cmd[0]} is needed, and not found")
    r = subprocess.run(
        [str(c) for c in cmd],
        cwd=cwd,
        input=data,
        capture_output=True,
        env={**os.environ, **env},
        timeout=timeout,
        check=False,
    )
    if r.returncode:
        raise SystemExit(
            f"{' '.join(map(str, cmd))[:200]}: exit {r.returncode}\n{(r.stdout + r.stderr).decode()[-3000:]}"
        )
    return r.stdout
