"""AWS_MSK_IAM: the signed document that Amazon MSK brokers accept, and the credentials that sign it.

Credentials come from botocore if it is installed. Otherwise they come from the same places as in AWS's own tools: the
environment, the files of a profile, a web identity, the container's role and the instance's role. Without botocore,
`credential_process` and SSO are not supported: no program that a file names is run.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from ottla._http import Response
from ottla._sasl import _http
from ottla._sasl._failures import Refused, Unavailable, short
from ottla._sasl._sigv4 import Credentials, Scope, authorization, presigned
from ottla._sasl._tokens import called

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla._ottla import SaslRequest

SERVICE = "kafka-cluster"
ACTION = "kafka-cluster:Connect"
# Seconds for which a document is valid; brokers accept no more.
EXPIRES = 900
_VERSION = "2020_10_22"
_AGENT = "ottla"
# The end of brokers' names: b-1.name.id.c2.kafka.us-east-1.amazonaws.com
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?$")
# Metadata endpoints for the roles of containers and instances: without TLS, on link-local
# addresses.
_CONTAINERS = "169.254.170.2"
_MACHINE = "http://169.254.169.254"
_LINK_LOCAL = frozenset({_CONTAINERS, "169.254.169.254", "169.254.170.23", "fd00:ec2::23", "fd00:ec2::254"})
_NEAR = 3.0
# Seconds before their expiry at which credentials are fetched again.
_EARLY = 300.0
_OK = 200
_LONGEST_FILE = 1 << 20


class MskIam:
    """Signs for the connections of one client."""

    def __init__(self, settings: Mapping[str, str], login: Mapping[str, str], token: Callable[[], Any] | None) -> None:
        self._region = settings.get("sasl.aws.region") or None
        self._lock = threading.Lock()
        self._kept: Credentials | None = None
        self._refused = False
        self._profile = settings.get("sasl.aws.profile") or login.get("awsProfileName") or None
        self._sts_region = self._region or login.get("awsStsRegion")
        self._sources = Sources(os.environ, self._profile, self._sts_region, login.get("awsRoleSessionName"))
        # Made with the first document, on a thread that may wait: importing botocore takes a while.
        self._find: Callable[[], Credentials] | None = None
        role = login.get("awsRoleArn")
        if token is not None:
            self._fetch: Callable[[], Credentials] = lambda: read(called(token))
        elif role:
            self._fetch = lambda: self._sources.assumed(role, self._found())
        else:
            self._fetch = self._found

    def answer(self, request: SaslRequest) -> None:
        """Sign a document for the broker."""
        region = self._region or region_of(request.host, os.environ)
        request.answer(document(request.host, region, self._credentials(), datetime.now(UTC)))

    def _credentials(self) -> Credentials:
        with self._lock:
            if self._refused:
                self._refused, self._kept, self._find = False, None, None
            kept = self._kept
            if kept and kept.expires is not None and time.time() < kept.expires - _EARLY:
                return kept
            self._kept = self._fetch()
            return self._kept

    def _found(self) -> Credentials:
        if self._find is None:
            try:
                from ottla._sasl._botocore import finder
            except ImportError:
                self._find = self._sources.find
            else:
                self._find = finder(self._profile, self._sts_region)
        return self._find()

    def forget(self) -> None:
        """Fetch the credentials again next time."""
        self._refused = True

    def end(self, connection: int) -> None:
        """Nothing is kept for a connection."""


def document(host: str, region: str, credentials: Credentials, at: datetime) -> bytes:
    """Make the document that AWS_MSK_IAM sends."""
    query = presigned(host, {"Action": ACTION}, credentials, Scope(region, SERVICE, at), expires=EXPIRES)
    signed = {"version": _VERSION, "host": host, "user-agent": _AGENT}
    signed |= {name.lower(): value for name, value in query.items()}
    return json.dumps(signed, separators=(",", ":")).encode()


def region_of(host: str, environment: Mapping[str, str]) -> str:
    """Return a broker's region, from its name or else from the environment."""
    found = _HOST.search(host.lower())
    region = found[1] if found else environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        raise Refused(f"the AWS region of {host} is not known: set sasl.aws.region")
    return region


def read(result: Any) -> Credentials:
    """Read the result of a `sasl_token`: an access key, a secret key and perhaps a session token.

    They come as a tuple, or as an object with `access_key`, `secret_key` and `token`, such as botocore's.
    """
    if hasattr(result, "get_frozen_credentials"):
        result = result.get_frozen_credentials()
    if hasattr(result, "access_key"):
        parts = (result.access_key, result.secret_key, getattr(result, "token", None))
    elif isinstance(result, tuple | list) and len(result) in {2, 3}:
        parts = (result[0], result[1], result[2] if len(result) > 2 else None)
    else:
        raise Refused(
            f"sasl_token returned {type(result).__name__}; for AWS_MSK_IAM it must return (access_key, secret_key) or "
            "(access_key, secret_key, session_token)"
        )
    access, secret, session = parts
    if not (isinstance(access, str) and isinstance(secret, str) and access and secret):
        raise Refused("sasl_token returned AWS credentials that are not str")
    if session is not None and not isinstance(session, str):
        raise Refused("sasl_token returned a session token that is not str")
    return Credentials(access, secret, session or None)


class Sources:
    """The sources of credentials, in the order of AWS's own tools."""

    def __init__(
        self, environment: Mapping[str, str], profile: str | None, region: str | None, session: str | None = None
    ) -> None:
        self._env = environment
        self._profile = profile
        self._region = region
        self._session = session or environment.get("AWS_ROLE_SESSION_NAME") or "ottla"

    def find(self) -> Credentials:
        """Find credentials.

        Raises:
            Refused: There are none, or they are invalid.
            Unavailable: The server that has them did not respond.
        """
        sources = [self._environment, self._web_identity, self._files, self._container, self._machine]
        if self._profile:
            sources = [self._files]
        for source in sources:
            if found := source():
                return found
        if self._profile:
            raise Refused(f"AWS's files have no profile {self._profile} with credentials (sasl.aws.profile)")
        raise Refused(
            "no AWS credentials were found: not in the environment (AWS_ACCESS_KEY_ID), not in ~/.aws/credentials, and "
            "neither the container nor the instance has a role"
        )

    def _environment(self) -> Credentials | None:
        access, secret = self._env.get("AWS_ACCESS_KEY_ID"), self._env.get("AWS_SECRET_ACCESS_KEY")
        if not access and not secret:
            return None
        if not (access and secret):
            missing = "AWS_SECRET_ACCESS_KEY" if access else "AWS_ACCESS_KEY_ID"
            raise Refused(f"the environment has AWS credentials without {missing}")
        return Credentials(access, secret, self._env.get("AWS_SESSION_TOKEN") or None)

    # --- files

    def _files(self, name: str | None = None, depth: int = 0) -> Credentials | None:
        name = name or self._profile or self._env.get("AWS_PROFILE") or "default"
        profile = self._read("AWS_CONFIG_FILE", "config").get(name if name == "default" else f"profile {name}", {})
        profile |= self._read("AWS_SHARED_CREDENTIALS_FILE", "credentials").get(name, {})
        if role := profile.get("role_arn"):
            if file := profile.get("web_identity_token_file"):
                return self._by_web_identity(role, file)
            source = profile.get("source_profile")
            if not source or depth > 2:
                raise Refused(f"profile {name} has a role_arn without a source_profile that this client can use")
            base = self._static(self._profile_of(source)) if source == name else self._files(source, depth + 1)
            if base is None:
                raise Refused(f"profile {source}, the source_profile of {name}, has no credentials")
            return self.assumed(role, base)
        if found := self._static(profile):
            return found
        for other in ("credential_process", "sso_session", "sso_start_url"):
            if other in profile:
                raise Refused(
                    f"profile {name} has {other}, which needs botocore: pip install botocore, or pass sasl_token= with "
                    "a function that returns (access_key, secret_key, session_token)"
                )
        return None

    def _profile_of(self, name: str) -> dict[str, str]:
        return self._read("AWS_SHARED_CREDENTIALS_FILE", "credentials").get(name, {})

    def _read(self, variable: str, default: str) -> dict[str, dict[str, str]]:
        path = Path(self._env.get(variable) or Path(self._env.get("HOME") or "~", ".aws", default)).expanduser()
        parser = configparser.RawConfigParser(interpolation=None, strict=False)
        try:
            if not path.is_file():
                return {}
            if path.stat().st_size > _LONGEST_FILE:
                raise Refused(f"{path} is too large for a file of profiles")
            parser.read_string(path.read_text(encoding="utf-8"))
        except (configparser.Error, OSError, ValueError) as error:
            # The parser's message may repeat a line of the file.
            raise Refused(f"{path} cannot be read: {type(error).__name__}") from None
        return {name: dict(parser.items(name)) for name in parser.sections()}

    @staticmethod
    def _static(profile: Mapping[str, str]) -> Credentials | None:
        access, secret = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
        if not (access and secret):
            return None
        return Credentials(access, secret, profile.get("aws_session_token") or None)

    # --- AWS's security token service

    def _web_identity(self) -> Credentials | None:
        role, file = self._env.get("AWS_ROLE_ARN"), self._env.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        return self._by_web_identity(role, file) if role and file else None

    def _by_web_identity(self, role: str, file: str) -> Credentials:
        try:
            token = Path(file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise Refused(f"AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {type(error).__name__}") from None
        form = {"Action": "AssumeRoleWithWebIdentity", "RoleArn": role, "WebIdentityToken": token}
        return self._sts(form, None)

    def assumed(self, role: str, base: Credentials) -> Credentials:
        """Assume a role with other credentials."""
        return self._sts({"Action": "AssumeRole", "RoleArn": role}, base)

    def _sts(self, form: dict[str, str], base: Credentials | None) -> Credentials:
        region = self._region or self._env.get("AWS_REGION") or self._env.get("AWS_DEFAULT_REGION")
        if not region:
            raise Refused("assuming an AWS role needs a region: set sasl.aws.region or AWS_REGION")
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        url = self._env.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{domain}/"
        self._check("AWS_ENDPOINT_URL_STS", url, frozenset())
        body = urlencode({**form, "RoleSessionName": self._session, "Version": "2011-06-15"}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if base:
            scope = Scope(region, "sts", datetime.now(UTC))
            headers = authorization("POST", {**headers, "host": urlsplit(url).netloc}, body, base, scope)
        response = _http.request("POST", url, headers=headers, body=body)
        text = response.body.decode("utf-8", "replace")
        self._succeeded(response, f"assuming {form['RoleArn']}", _element(text, "Message"))
        access, secret = _element(text, "AccessKeyId"), _element(text, "SecretAccessKey")
        token, expires = _element(text, "SessionToken"), _element(text, "Expiration")
        if not (access and secret and token):
            raise Refused("the AWS token service (STS) returned no credentials")
        return Credentials(access, secret, token, _time(expires))

    # --- roles of containers and instances

    def _container(self) -> Credentials | None:
        relative, full = (self._env.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
        if not relative and not full:
            return None
        url = f"http://{_CONTAINERS}/{(relative or '').lstrip('/')}" if relative else str(full)
        self._check("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, _LINK_LOCAL)
        headers = {}
        file, token = (self._env.get(f"AWS_CONTAINER_AUTHORIZATION_TOKEN{suffix}") for suffix in ("_FILE", ""))
        if file:
            try:
                token = Path(file).read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise Refused(
                    f"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read: {type(error).__name__}"
                ) from None
        if token:
            if not token.isprintable():
                raise Refused("AWS_CONTAINER_AUTHORIZATION_TOKEN has characters that a header cannot contain")
            headers["Authorization"] = token
        response = _http.request("GET", url, headers=headers)
        self._succeeded(response, "the container's role")
        return self._role(response.body)

    def _machine(self) -> Credentials | None:
        if self._env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        base = (self._env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _MACHINE).rstrip("/")
        self._check("AWS_EC2_METADATA_SERVICE_ENDPOINT", base, _LINK_LOCAL)
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
        try:
            response = _http.request("PUT", f"{base}/latest/api/token", headers=lifetime, timeout=_NEAR)
        except Unavailable:
            # Not an AWS instance.
            return None
        self._succeeded(response, "the instance metadata")
        token = response.body.decode("ascii", "replace").strip()
        if not token.isprintable():
            raise Refused("the instance metadata returned a token that a header cannot contain")
        headers = {"X-aws-ec2-metadata-token": token}
        roles = f"{base}/latest/meta-data/iam/security-credentials/"
        response = _http.request("GET", roles, headers=headers, timeout=_NEAR)
        if response.status == 404:
            return None
        self._succeeded(response, "the instance's role")
        role = response.body.decode("ascii", "replace").strip().partition("\n")[0]
        if not re.fullmatch(r"[\w+=,.@-]+", role):
            raise Refused("the instance metadata returned an invalid role name")
        response = _http.request("GET", roles + role, headers=headers, timeout=_NEAR)
        self._succeeded(response, f"the instance's role {role}")
        return self._role(response.body)

    @staticmethod
    def _role(body: bytes) -> Credentials:
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise Refused("the credentials endpoint of the AWS role returned no JSON object")
        access, secret, token = (content.get(name) for name in ("AccessKeyId", "SecretAccessKey", "Token"))
        if not (isinstance(access, str) and isinstance(secret, str)):
            raise Refused("the credentials endpoint of the AWS role returned no credentials")
        return Credentials(access, secret, token if isinstance(token, str) else None, _time(content.get("Expiration")))

    @staticmethod
    def _check(variable: str, url: str, also: frozenset[str]) -> None:
        try:
            _http.check(url, plain=True, also=also)
        except ValueError as error:
            raise Refused(f"{variable} {error}") from None

    @staticmethod
    def _succeeded(response: Response, what: str, why: str | None = None) -> None:
        if response.status == _OK:
            return
        text = f"{what}: AWS returned {response.status} {short(response.reason)}" + (f": {short(why)}" if why else "")
        if response.status >= 500 or response.status == 429:
            raise Unavailable(text)
        raise Refused(text)


def _element(xml: str, name: str) -> str | None:
    """Get the text of an element. Four values need no XML parser, which malformed XML could attack."""
    found = re.search(rf"<{name}>([^<]*)</{name}>", xml)
    return found[1].strip().replace("&amp;", "&") if found else None


def _time(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
