"""As much of HTTP/1.1 as the client needs, without I/O."""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Generator

from .calls import Answer, NoAnswer, Send

MAX_ANSWER = 32 << 20
MAX_HEAD = 64 << 10

Reading = Generator[None, bytes, tuple[Answer, bool]]
"""Yields when it needs more bytes, and gets b"" at the end of the connection."""


def place(address: str) -> tuple[bool, str, int, str]:
    """Returns whether an address is TLS, its host and port, and the path before the call's."""
    parts = urllib.parse.urlsplit(address)
    tls = parts.scheme == "https"
    return tls, parts.hostname or "", parts.port or (443 if tls else 80), parts.path


def request(send: Send) -> bytes:
    """Returns the bytes of a request."""
    _, _, _, prefix = place(send.address)
    lines = [f"{send.method} {prefix}{send.target} HTTP/1.1", f"Host: {urllib.parse.urlsplit(send.address).netloc}"]
    lines += [f"{name}: {value}" for name, value in send.headers.items()]
    if send.body is not None:
        lines.append(f"Content-Length: {len(send.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (send.body or b"")


def reading() -> Reading:
    """Reads an answer and returns it, with whether its connection can be used again."""
    data = b""
    status = 100
    while 100 <= status < 200:
        while b"\r\n\r\n" not in data:
            data = yield from _more(data, MAX_HEAD)
        head, _, data = data.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        version, _, tail = first.partition(" ")
        if not version.startswith("HTTP/1.") or not tail[:3].isdigit():
            raise NoAnswer("it does not speak HTTP", sent=True)
        status = int(tail[:3])
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, data = yield from _chunks(data)
    elif headers.get("content-length", "").isdigit():
        length = int(headers["content-length"])
        while len(data) < length:
            data = yield from _more(data, MAX_ANSWER)
        body, data = data[:length], data[length:]
    elif status in (204, 304):
        body = b""
    else:
        keep = False
        while chunk := (yield):
            data = _bounded(data + chunk, MAX_ANSWER)
        body, data = data, b""
    return Answer(status, headers, body), keep and not data


def _chunks(data: bytes) -> Generator[None, bytes, tuple[bytes, bytes]]:
    body = bytearray()
    while True:
        while b"\r\n" not in data:
            data = yield from _more(data, MAX_HEAD)
        line, _, data = data.partition(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            raise NoAnswer("the answer has a chunk without a size", sent=True) from None
        while len(data) < size + 2:
            data = yield from _more(data, MAX_ANSWER)
        body += data[:size]
        _bounded(body, MAX_ANSWER)
        data = data[size + 2 :]
        if size == 0:
            return bytes(body), data


def _more(data: bytes, most: int) -> Generator[None, bytes, bytes]:
    chunk = yield
    if not chunk:
        raise NoAnswer("the answer broke off", sent=True)
    return _bounded(data + chunk, most + MAX_HEAD)


def _bounded(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise NoAnswer(f"the answer is longer than {most} bytes", sent=True)
    return data


def context(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """Returns the TLS settings: authorities of the server, and a certificate of the client."""
    settings = ssl.create_default_context(cafile=ca)
    settings.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert:
        settings.load_cert_chain(cert, key)
    return settings
