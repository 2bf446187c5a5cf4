"""What Python has on some platforms only: `python/` uses it where it is there, and an import never fails."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "python").rglob("*.py"))

# What `os`, `signal` and `socket` lack on Windows, by Python's documentation ("Availability: Unix").
UNIX_ONLY = {
    "os": {
        *(
            "fork",
            "forkpty",
            "register_at_fork",
            "getuid",
            "geteuid",
            "getgid",
            "getegid",
            "getgroups",
            "getpgid",
            "killpg",
        ),
        *(
            "setsid",
            "setuid",
            "uname",
            "nice",
            "chown",
            "fchown",
            "fchmod",
            "lchown",
            "mkfifo",
            "mknod",
            "pread",
            "pwrite",
        ),
        *(
            "preadv",
            "pwritev",
            "pipe2",
            "sched_getaffinity",
            "sched_yield",
            "statvfs",
            "fstatvfs",
            "sysconf",
            "sendfile",
        ),
        *("WNOHANG", "wait", "wait3", "wait4", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_SYNC"),
    },
    "signal": {
        *("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGQUIT", "SIGALRM", "SIGCHLD"),
        *(
            "SIGPIPE",
            "SIGWINCH",
            "alarm",
            "setitimer",
            "pthread_sigmask",
            "pthread_kill",
            "sigwait",
            "siginterrupt",
            "pause",
        ),
    },
    "socket": {"AF_UNIX", "socketpair", "SO_REUSEPORT", "MSG_DONTWAIT", "sethostname"},
}
UNIX_MODULES = {"fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty"}
# What asks for the platform first.
GUARDED = {("python/ottla/_background.py", "os.register_at_fork")}


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_that_windows_lacks_is_used_unasked(path):
    used = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            if node.attr in UNIX_ONLY.get(module, ()):
                used.add(f"{module}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in UNIX_ONLY:
            used |= {f"{node.module}.{it.name}" for it in node.names if it.name in UNIX_ONLY[node.module]}
        elif isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names} & UNIX_MODULES
    assert used <= {name for guarded, name in GUARDED if guarded == name_of(path)}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_text_files_have_an_encoding(path):
    """Without one Python uses that of the locale: on Windows not UTF-8 before Python 3.15."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg for keyword in node.keywords}
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"read_text", "write_text"} and not isinstance(node.func, ast.Name):
            # `read_text` of importlib.metadata has no encoding to choose.
            assert "encoding" in named or (called == "read_text" and node.args), f"line {node.lineno}"
        if called == "open" and isinstance(node.func, ast.Name):
            modes = [
                it.value
                for it in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
                if isinstance(it, ast.Constant)
            ]
            assert "encoding" in named or any("b" in mode for mode in modes), f"line {node.lineno}"
