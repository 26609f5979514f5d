"""Where the service is, and who we are."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from .errors import Invalid

PORT = 7117
KEY_FILE = "FENCEPOST_API_KEY_FILE"


@dataclass(frozen=True)
class Address:
    """One replica."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}"


def addresses(urls: Union[str, Sequence[str]]) -> List[Address]:
    """`http://a:7117`, several of them, or one in the form of the library: `fencepost+http://a:7117,b:7117`."""
    listed = [urls] if isinstance(urls, str) else list(urls)
    found = [address for url in listed for address in _several(url)]
    if not found:
        raise Invalid("url: name at least one replica, such as http://127.0.0.1:7117")
    return found


def _several(url: str) -> List[Address]:
    scheme, mark, rest = url.partition("://")
    scheme = scheme[len("fencepost+") :] if scheme.startswith("fencepost+") else scheme
    if not mark or scheme not in ("http", "https"):
        raise Invalid(f"url: {_shown(url)} has no scheme that is known: use http:// or https://")
    return [_one(scheme, part, url) for part in rest.rstrip("/").split(",")]


def _one(scheme: str, part: str, url: str) -> Address:
    try:
        split = urlsplit(f"{scheme}://{part}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise Invalid(f"url: {_shown(url)}: {error}") from None
    if not host or split.path or split.query or split.fragment or split.username is not None:
        raise Invalid(f"url: {_shown(url)}: write scheme, host and port, and nothing else")
    return Address(host, port or PORT, scheme == "https")


def _shown(url: str) -> str:
    """Without what may be a secret."""
    head, mark, tail = url.rpartition("@")
    return repr(f"…@{tail}" if mark else url)


class Credential:
    """The key. Its file is read again when it has changed, so that keys can be rotated under way."""

    def __init__(self, key: Optional[str], file: Optional[str]) -> None:
        if key is not None and file is not None:
            raise Invalid("api_key: give the key or its file, not both")
        if key is None and file is None:
            file = os.environ.get(KEY_FILE) or None
        self._key = _checked(key) if key is not None else None
        self._file = file
        self._stamp: Optional[Tuple[int, int]] = None
        self.header()

    def header(self) -> Optional[str]:
        if self._file is not None:
            self._read(self._file)
        return None if self._key is None else f"Bearer {self._key}"

    def _read(self, file: str) -> None:
        try:
            stat = os.stat(file)
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            with open(file, encoding="utf-8") as opened:
                self._key = _checked(opened.read())
            self._stamp = stamp
        except (OSError, UnicodeDecodeError, Invalid) as error:
            # While it is being replaced, the key that was good before is.
            if self._key is None:
                why = "no key: one line of visible ASCII characters" if isinstance(error, Invalid) else "no text"
                raise Invalid(f"api_key_file: {file}: {getattr(error, 'strerror', None) or why}") from None


def _checked(key: str) -> str:
    key = key.strip()
    if not key or any(not 33 <= ord(letter) <= 126 for letter in key):
        raise Invalid("api_key: it is one line of visible ASCII characters")
    return key


def tls(ca_file: Optional[str], cert_file: Optional[str], key_file: Optional[str]) -> ssl.SSLContext:
    """Whom to trust, and what to show."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"ca_file, cert_file, key_file: {error}") from None
    if cert_file is None and key_file is not None:
        raise Invalid("key_file: give cert_file, too")
    return context
