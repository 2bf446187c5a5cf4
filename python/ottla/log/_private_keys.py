"""RSA keys that decrypt the data keys of tiered segments."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from ottla.errors import ArgumentError, CorruptRecordError
from ottla.log._files import shown

# The padding is OAEP with this hash, for the label as for the mask, as Bouncy Castle has it by the name of
# OAEPWithSHA3-512AndMGF1Padding. `cryptography` has OAEP, but not with SHA-3.
HASH = hashlib.sha3_512
AES_KEYS = (16, 24, 32)


class PrivateKeys:
    """Private keys by the names that the brokers have for them. No error and no repr shows them.

    Args:
        pems: Each key in PEM, as text or bytes.
    """

    def __init__(self, pems: Mapping[str, str | bytes]) -> None:
        self._keys = {name: _loaded(name, pem) for name, pem in pems.items()}

    def unwrap(self, text: str, path: str) -> bytes:
        """Decrypt the AES key of a segment.

        Args:
            text: The name of the RSA key, a colon, and the encrypted key in base64.
            path: The manifest, for errors.

        Raises:
            ArgumentError: The key of this name was not given, or it is another one.
        """
        name, _, encrypted = text.partition(":")
        key = self._keys.get(name)
        if key is None:
            raise ArgumentError(
                f"{shown(path)} is encrypted with the RSA key {name!r}: give its private key, as "
                f"private_keys={{{name!r}: pem}}"
            )
        try:
            found = _decrypted(base64.b64decode(encrypted, validate=True), key)
        except ValueError:
            found = None
        if found is None:
            raise ArgumentError(
                f"the private key {name!r} does not decrypt {shown(path)}: it is another key than the brokers', or the "
                "manifest is damaged"
            )
        return found


def _loaded(name: str, pem: str | bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise ImportError("encrypted segments need cryptography: pip install 'ottla[tiered]'") from error
    try:
        key = load_pem_private_key(pem.encode() if isinstance(pem, str) else pem, password=None)
    except (ValueError, TypeError):
        # The error of the library may show a part of the text.
        raise ArgumentError(f"private_keys[{name!r}] is not a private key in PEM without a password") from None
    if not isinstance(key, RSAPrivateKey):
        raise ArgumentError(f"private_keys[{name!r}] is not a key of RSA")
    return key.private_numbers()


def _decrypted(data: bytes, numbers: Any) -> bytes | None:
    """RSAES-OAEP of RFC 8017, 7.1.2, with an empty label; None if the padding is wrong."""
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    length = HASH().digest_size
    number = int.from_bytes(data, "big")
    if len(data) != size or size < 2 * length + 2 or number >= modulus:
        return None
    # By the Chinese remainder theorem, four times as fast as with the exponent itself.
    one, other = pow(number, numbers.dmp1, numbers.p), pow(number, numbers.dmq1, numbers.q)
    block = (other + numbers.q * ((one - other) * numbers.iqmp % numbers.p)).to_bytes(size, "big")
    first, seed, rest = block[0], block[1 : 1 + length], block[1 + length :]
    seed = _xor(seed, _mask(rest, length))
    rest = _xor(rest, _mask(seed, len(rest)))
    # After the label's hash: zeros, the byte 1, and the key.
    zeros, _, key = rest[length:].partition(b"\1")
    is_padded = first == 0 and rest[:length] == HASH().digest() and not zeros.strip(b"\0")
    return key if is_padded and len(key) in AES_KEYS else None


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1 of RFC 8017, B.2.1."""
    count = -(-length // HASH().digest_size)
    return b"".join(HASH(seed + number.to_bytes(4, "big")).digest() for number in range(count))[:length]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def decrypt(data: bytes, data_key: bytes, aad: bytes, path: str) -> bytes:
    """Decrypt a chunk: 12 bytes of a nonce, then AES-GCM's text and its tag of 16 bytes.

    Raises:
        CorruptRecordError: It was changed since it was written.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(data_key).decrypt(data[:12], data[12:], aad)
    except (InvalidTag, ValueError):
        raise CorruptRecordError(f"{shown(path)} is damaged: a part of it cannot be decrypted") from None
