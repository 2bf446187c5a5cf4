"""GSSAPI (RFC 2743, RFC 2744) with the system's Kerberos library, which is loaded when a client needs it.

The library is called through ctypes: the extension is not linked to it, and clients without Kerberos do not need it. A
call that waits for the KDC holds neither the interpreter's lock nor a thread of the runtime.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
import threading
import weakref
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any

from ottla._sasl._failures import Refused, short
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla._ottla import SaslRequest

# Names of the library on Linux (MIT's) and on macOS.
_LIBRARIES = (
    ("libgssapi_krb5.so.2", "libgssapi_krb5.so")
    if sys.platform != "darwin"
    else ("/System/Library/Frameworks/GSS.framework/GSS", "libgssapi_krb5.dylib")
)
_COMPLETE, _CONTINUE = 0, 1
_ROUTINE_ERRORS = 0xFFFF0000
_MUTUAL, _REPLAY, _SEQUENCE, _INTEGRITY = 2, 4, 8, 32
_INITIATE = 1
_STATUS_GSS, _STATUS_MECHANISM = 1, 2
_MOST_MESSAGES = 8

# Numbers the caches of this process. An object's address is not unique: a later object may get it,
# with the tickets of a client that is gone.
_caches = itertools.count(1)


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    # Apple packs this structure by two bytes.
    if sys.platform == "darwin":
        _pack_ = 2
    _fields_ = (("length", c_uint32), ("elements", c_void_p))

    def __init__(self, elements: bytes) -> None:
        # Kept here: the structure holds only its address.
        self._kept = ctypes.create_string_buffer(elements, len(elements))
        super().__init__(len(elements), ctypes.cast(self._kept, c_void_p))


_KRB5 = _Oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_HOSTBASED = _Oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")
_USER = _Oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x01")


class _OidSet(ctypes.Structure):
    if sys.platform == "darwin":
        _pack_ = 2
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Pairs(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


class _Failed(Exception):  # noqa: N818 it becomes a Refused with more words
    def __init__(self, major: int, minor: int) -> None:
        super().__init__(major, minor)
        self.major, self.minor = major, minor


class Library:
    """The functions of GSSAPI that a client needs."""

    def __init__(self) -> None:
        self._c = _load()

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._c, name)
        function.restype = c_uint32
        minor = c_uint32()
        major = int(function(byref(minor), *arguments))
        if major & _ROUTINE_ERRORS:
            raise _Failed(major, minor.value)
        return major

    def _bytes(self, buffer: _Buffer) -> bytes:
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.length and buffer.value else b""
        minor = c_uint32()
        self._c.gss_release_buffer(byref(minor), byref(buffer))
        return data

    def name(self, text: str, kind: _Oid) -> c_void_p:
        """Make a name."""
        name, data = c_void_p(), text.encode()
        self._call("gss_import_name", byref(_given(data)), byref(kind), byref(name))
        return name

    def credentials(self, principal: str | None, keytab: str | None, cache: bytes) -> c_void_p:
        """Get credentials from the system's cache, or with a keytab, whose tickets `cache` keeps."""
        credentials, name = c_void_p(), None
        try:
            name = self.name(principal, _USER) if principal else None
            mechanisms = _OidSet(1, ctypes.pointer(_KRB5))
            arguments = [name, c_uint32(0), byref(mechanisms), c_int(_INITIATE)]
            if keytab:
                pairs = (_Pair * 2)(_Pair(b"client_keytab", os.fsencode(keytab)), _Pair(b"ccache", cache))
                if not hasattr(self._c, "gss_acquire_cred_from"):
                    raise Refused("the system's Kerberos library does not support keytabs: run kinit -kt instead")
                store = _Pairs(2, pairs)
                self._call("gss_acquire_cred_from", *arguments, byref(store), byref(credentials), None, None)
            else:
                self._call("gss_acquire_cred", *arguments, byref(credentials), None, None)
            return credentials
        finally:
            self._release("gss_release_name", name)

    def step(
        self, context: c_void_p, credentials: c_void_p | None, target: c_void_p, token: bytes
    ) -> tuple[bytes, bool]:
        """Take a step of a security context; the token for the broker, and whether the context is complete."""
        out, flags = _Buffer(), c_uint32()
        wanted = c_uint32(_MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY)
        received = _given(token)
        major = self._call(
            "gss_init_sec_context",
            credentials,
            byref(context),
            target,
            byref(_KRB5),
            wanted,
            c_uint32(0),
            None,
            byref(received),
            None,
            byref(out),
            byref(flags),
            None,
        )
        token = self._bytes(out)
        complete = not major & _CONTINUE
        if complete and not flags.value & _MUTUAL:
            raise Refused("the broker did not authenticate itself to Kerberos (no mutual authentication)")
        return token, complete

    def wrap(self, context: c_void_p, data: bytes) -> bytes:
        """Seal a message, without encrypting it."""
        out, sealed = _Buffer(), c_int()
        self._call("gss_wrap", context, c_int(0), c_uint32(0), byref(_given(data)), byref(sealed), byref(out))
        return self._bytes(out)

    def unwrap(self, context: c_void_p, data: bytes) -> bytes:
        """Check the seal of a message, and open it."""
        out, sealed, quality = _Buffer(), c_int(), c_uint32()
        self._call("gss_unwrap", context, byref(_given(data)), byref(out), byref(sealed), byref(quality))
        return self._bytes(out)

    def release(self, context: c_void_p | None, target: c_void_p | None, credentials: c_void_p | None) -> None:
        """Release the handles of a connection."""
        if context:
            minor = c_uint32()
            self._c.gss_delete_sec_context(byref(minor), byref(context), None)
        self._release("gss_release_name", target)
        self._release("gss_release_cred", credentials)

    def destroy(self, cache: bytes) -> None:
        """Destroy a cache in memory, which GSSAPI otherwise keeps as long as the process."""
        if not hasattr(self._c, "krb5_cc_destroy"):
            return
        kerberos, handle = c_void_p(), c_void_p()
        if self._c.krb5_init_context(byref(kerberos)):
            return
        if not self._c.krb5_cc_resolve(kerberos, cache, byref(handle)):
            self._c.krb5_cc_destroy(kerberos, handle)
        self._c.krb5_free_context(kerberos)

    def _release(self, function: str, handle: c_void_p | None) -> None:
        if handle:
            minor = c_uint32()
            getattr(self._c, function)(byref(minor), byref(handle))

    def described(self, failed: _Failed) -> str:
        """Describe a status in words."""
        words = [*self._words(failed.major, _STATUS_GSS), *self._words(failed.minor, _STATUS_MECHANISM)]
        return short(". ".join(words)) or f"status {failed.major:#x}"

    def _words(self, status: int, kind: int) -> list[str]:
        more, words = c_uint32(), []
        for _ in range(_MOST_MESSAGES):
            out, minor = _Buffer(), c_uint32()
            function = self._c.gss_display_status
            function.restype = c_uint32
            if function(byref(minor), c_uint32(status), c_int(kind), byref(_KRB5), byref(more), byref(out)):
                break
            text = self._bytes(out).decode("utf-8", "replace").strip()
            if text and text not in words:
                words.append(text)
            if not more.value:
                break
        return words


def _given(data: bytes) -> _Buffer:
    # The bytes object lives as long as the caller's variable, which outlasts the call.
    return _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))


def _load() -> ctypes.CDLL:
    if sys.platform == "win32":
        raise ConfigError(
            "sasl.mechanism: GSSAPI is not supported on Windows, which has no GSSAPI library: choose another mechanism "
            "of the cluster, or run the client in WSL"
        )
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise ConfigError(
        f"sasl.mechanism: GSSAPI needs the system's Kerberos library, but {_LIBRARIES[0]} was not found: install "
        "libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (Fedora, RHEL)"
    )


class _Connection:
    """A security context in progress."""

    def __init__(self) -> None:
        self.context = c_void_p()
        self.target: c_void_p | None = None
        self.credentials: c_void_p | None = None
        # A step is in progress, in which the library may wait for the KDC. A connection that ends
        # meanwhile is released after the step.
        self.is_busy = False
        self.has_ended = False


class Kerberos:
    """The security contexts of one client's connections."""

    def __init__(self, settings: Mapping[str, str | None]) -> None:
        self._library = Library()
        self._service = settings.get("sasl.kerberos.service.name") or "kafka"
        self._domain = settings.get("sasl.kerberos.domain.name")
        self._principal = settings.get("sasl.kerberos.principal")
        self._keytab = settings.get("sasl.kerberos.keytab")
        # One for each client, in memory: the tickets of its keytab do not mix with those of other
        # clients.
        self._cache = b"MEMORY:ottla-%d" % next(_caches)
        if self._keytab:
            weakref.finalize(self, self._library.destroy, self._cache).atexit = False
        self._connections: dict[int, _Connection] = {}
        self._lock = threading.Lock()

    def answer(self, request: SaslRequest) -> None:
        """Take a step for a connection."""
        try:
            token, complete = self._step(request)
        except _Failed as failed:
            raise Refused(
                f"Kerberos failed: {self._library.described(failed)}: check the ticket (klist) and "
                f"sasl.kerberos.service.name; the requested service is {self._service}/{self._host(request)}"
            ) from None
        request.answer(token, complete=complete)

    def _step(self, request: SaslRequest) -> tuple[bytes, bool]:
        begins = request.kind == "context" and not request.data
        if begins:
            self.end(request.connection)
        with self._lock:
            if begins:
                self._connections[request.connection] = _Connection()
            known = self._connections.get(request.connection)
            if known is None:
                raise Refused("the security context is gone")
            known.is_busy = True
        try:
            return self._with(known, request)
        finally:
            with self._lock:
                known.is_busy = False
                ended = known.has_ended
            if ended:
                self._library.release(known.context, known.target, known.credentials)

    def _with(self, known: _Connection, request: SaslRequest) -> tuple[bytes, bool]:
        library, data = self._library, request.data
        if request.kind == "unwrap":
            return library.unwrap(known.context, data), False
        if request.kind == "wrap":
            return library.wrap(known.context, data), False
        if known.target is None:
            known.target = library.name(f"{self._service}@{self._host(request)}", _HOSTBASED)
            if self._principal or self._keytab:
                known.credentials = library.credentials(self._principal, self._keytab, self._cache)
        return library.step(known.context, known.credentials, known.target, data)

    def _host(self, request: SaslRequest) -> str:
        """The host in the broker's principal."""
        return self._domain or request.host

    def forget(self) -> None:
        """The library keeps the tickets."""

    def end(self, connection: int) -> None:
        """Release a connection's context."""
        with self._lock:
            known = self._connections.pop(connection, None)
            if known is None:
                return
            known.has_ended = True
            # Read under the lock. A step that ends just after it sees `has_ended`, and releases the context itself.
            is_busy = known.is_busy
        if not is_busy:
            self._library.release(known.context, known.target, known.credentials)
