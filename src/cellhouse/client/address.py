"""Where a service is: its URL, its unix socket, the token that goes there and nowhere else."""

import ipaddress
import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from cellhouse.model import InvalidArgument

URL_VARIABLE: Final = "CELLHOUSE_URL"
TOKEN_VARIABLE: Final = "CELLHOUSE_TOKEN"
TLS_VARIABLES: Final = ("CELLHOUSE_CA", "CELLHOUSE_CERTIFICATE", "CELLHOUSE_KEY")
_EXAMPLES: Final = "http://127.0.0.1:8765, https://host, or unix:///path/of/a/socket"
# More than RFC 6750, section 2.1, has it, but nothing that would end the header or be a second word of it.
_TOKEN: Final = re.compile(r"[!-~]{1,4096}")


@dataclass(frozen=True, slots=True)
class Address:
    """One origin and a prefix of its paths. `socket` is the unix socket by which it is reached, where it is one."""

    origin: str
    prefix: str = ""
    socket: Path | None = None

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Reads `http(s)://host[:port][/prefix]` or `unix:///path`. INVALID_ARGUMENT where it is neither."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise _bad(url, f"{error}") from None
        if parts.query or parts.fragment:
            raise _bad(url, "it has a query or a fragment")
        if parts.scheme == "unix":
            if parts.netloc or not parts.path.startswith("/"):
                raise _bad(url, "a socket needs an absolute path, with three slashes before it")
            return cls("http://localhost", socket=Path(parts.path))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _bad(url, "it is no HTTP URL")
        if parts.username is not None or parts.password is not None:
            raise InvalidArgument.of_field(
                "url", f"it holds a name or a password; a token is given by itself, or in {TOKEN_VARIABLE}"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        origin = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
        return cls(origin, quote(parts.path.rstrip("/"), safe="/%"))

    @classmethod
    def given(cls, url: str | None) -> "Address":
        """This URL, else that of CELLHOUSE_URL."""
        url = url or os.environ.get(URL_VARIABLE)
        if not url:
            raise InvalidArgument.of_field(
                "url", f"there is none; give one or set {URL_VARIABLE}, such as {_EXAMPLES}"
            )
        return cls.parse(url)

    @property
    def is_local(self) -> bool:
        """Whether whoever listens there is on this machine."""
        if self.socket is not None:
            return True
        host = urlsplit(self.origin).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"unix://{self.socket}" if self.socket is not None else f"{self.origin}{self.prefix}"


def _bad(url: str, rule: str) -> InvalidArgument:
    # Never the whole of it: what stands before an @ may be a secret.
    return InvalidArgument.of_field("url", f"{url.rpartition('@')[2][:200]!a}: {rule}; it takes {_EXAMPLES}")


def checked_token(token: str) -> str:
    """The token where it can be one. The message of the error does not hold it."""
    if not _TOKEN.fullmatch(token):
        raise InvalidArgument.of_field(
            "token",
            "it is no bearer token; it takes 1 to 4,096 visible ASCII characters, without spaces or line ends",
        )
    return token


@dataclass(frozen=True, slots=True)
class Tls:
    """What a TLS connection is judged by. There is no way to judge it by nothing."""

    # Certificates (PEM) of the authorities to trust instead of the system's.
    ca: Path | None = None
    # This client's own certificate chain (PEM), and its key where that is in another file.
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)

    @classmethod
    def of_environment(cls) -> "Tls":
        """What CELLHOUSE_CA, CELLHOUSE_CERTIFICATE and CELLHOUSE_KEY name."""
        ca, certificate, key = (os.environ.get(name) for name in TLS_VARIABLES)
        return cls(
            Path(ca) if ca else None, Path(certificate) if certificate else None, Path(key) if key else None
        )

    def context(self) -> ssl.SSLContext:
        """INVALID_ARGUMENT where a file can't be used."""
        try:
            made = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgument.of_field(
                "ca", f"{self.ca}: {error}; name a PEM file of certificates"
            ) from None
        if self.certificate is not None:
            try:
                # Without a password: a prompt would stop a program that nobody watches.
                made.load_cert_chain(self.certificate, self.key, password=lambda: b"")
            except (OSError, ssl.SSLError) as error:
                raise InvalidArgument.of_field(
                    "certificate",
                    f"{self.certificate}: {error}; name a PEM file with the chain, and one with its key without a password",
                ) from None
        elif self.key is not None:
            raise InvalidArgument.of_field("key", "there is a key and no certificate; name both")
        return made
