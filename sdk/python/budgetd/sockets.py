"""Connections of the client that blocks."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time

from . import http11
from .calls import Answer, NoAnswer, Send

MAX_IDLE = 64
"""The most idle connections to one server."""
DIAL_TIMEOUT = 3.0


class Sockets:
    """Sends requests over connections that are reused. It is safe for concurrent use."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[str, list[socket.socket]] = {}
        self._lock = threading.Lock()

    def __call__(self, send: Send) -> Answer:
        until = time.monotonic() + send.timeout
        connection = self._reused(send.address)
        if connection is None:
            try:
                connection = self._dial(send.address, min(send.timeout, DIAL_TIMEOUT))
            except (OSError, ssl.SSLError) as error:
                raise NoAnswer(str(error), sent=False) from error
        kept = False
        try:
            connection.settimeout(max(until - time.monotonic(), 0.001))
            connection.sendall(http11.request(send))
            answer, kept = self._read(connection, until)
        except OSError as error:
            raise NoAnswer(str(error) or "timed out", sent=True) from error
        finally:
            if not kept:
                connection.close()
        with self._lock:
            idle = self._idle.setdefault(send.address, [])
            if kept and len(idle) < MAX_IDLE:
                idle.append(connection)
            elif kept:
                connection.close()
        return answer

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            for connections in self._idle.values():
                while connections:
                    connections.pop().close()

    def _read(self, connection: socket.socket, until: float) -> tuple[Answer, bool]:
        steps = http11.reading()
        next(steps)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
            try:
                steps.send(connection.recv(1 << 16))
            except StopIteration as end:
                answer, kept = end.value
                return answer, kept

    def _reused(self, address: str) -> socket.socket | None:
        """Returns an idle connection that the server has not closed."""
        while True:
            with self._lock:
                idle = self._idle.get(address)
                if not idle:
                    return None
                connection = idle.pop()
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()

    def _dial(self, address: str, timeout: float) -> socket.socket:
        tls, host, port, _ = http11.place(address)
        connection = socket.create_connection((host, port), timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not tls:
                return connection
            settings = self._tls or http11.context(None, None, None)
            return settings.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
