"""From an `ssl.SSLContext` to ottla's properties."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from ottla.compat.aiokafka.helpers import RememberingContext


def properties_of(context: ssl.SSLContext) -> dict[str, Any]:
    """The authorities, the checks, the versions, and the client certificate if the context reveals it.

    Args:
        context: A context of `create_ssl_context`, or any other one. Python does not reveal the client certificate and
            the folders of authorities of those.
    """
    found: dict[str, Any] = {}
    authorities = [ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)]
    if isinstance(context, RememberingContext):
        authorities += [text for folder in context.folders for text in _in_folder(folder)]
        if context.certificate is not None:
            chain, key, password = context.certificate
            found |= {"ssl.certificate.location": chain, "ssl.key.location": key}
            if password is not None:
                found["ssl.key.password"] = password
    if authorities:
        found["ssl.ca.pem"] = "\n".join(authorities)
    if context.verify_mode == ssl.CERT_NONE:
        found["enable.ssl.certificate.verification"] = False
    if not context.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = ""
    if context.minimum_version == ssl.TLSVersion.TLSv1_3:
        found["ssl.enabled.protocols"] = "TLSv1.3"
    elif context.maximum_version == ssl.TLSVersion.TLSv1_2:
        found["ssl.enabled.protocols"] = "TLSv1.2"
    return found


def _in_folder(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.iterdir()) if path.is_file()]
    return [text for text in texts if "-----BEGIN CERTIFICATE-----" in text]
