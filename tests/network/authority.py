"""A certificate authority of the tests' own, made by the openssl program."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    directory: Path

    @classmethod
    def new(cls, directory: Path) -> "Authority":
        made = cls(directory)
        _openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ),
            *(
                "-subj",
                "/CN=Cellhouse tests",
                "-keyout",
                f"{directory / 'ca.key'}",
                "-out",
                f"{made.certificate}",
            ),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )
        return made

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    def server(self, *names: str) -> ssl.SSLContext:
        """What a server by these names is to have."""
        key, request, chain = (self.directory / f"{names[0]}.{kind}" for kind in ("key", "csr", "pem"))
        _openssl(
            *(
                "req",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-subj",
                f"/CN={names[0]}",
            ),
            *("-keyout", f"{key}", "-out", f"{request}"),
            *("-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)),
        )
        _openssl(
            *(
                "x509",
                "-req",
                "-in",
                f"{request}",
                "-CA",
                f"{self.certificate}",
                "-CAkey",
                f"{self.directory / 'ca.key'}",
            ),
            *("-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", f"{chain}"),
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(chain, key)
        return context


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
