"""The client for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Unpack

from . import api, http11
from .calls import Answer, Calls, NoAnswer, Result, Retry, Send, Sleep, Steps
from .client import Scope
from .errors import BudgetdError
from .sockets import DIAL_TIMEOUT, MAX_IDLE

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

SETTLE_TIMEOUT = 10.0
"""The seconds in which a cancelled task settles its hold."""


class Streams:
    """Sends requests over connections that are reused."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[str, list[Connection]] = {}

    async def __call__(self, send: Send) -> Answer:
        sent = False
        connection: Connection | None = None
        kept = False
        try:
            async with asyncio.timeout(send.timeout):
                connection = self._reused(send.address)
                if connection is None:
                    async with asyncio.timeout(DIAL_TIMEOUT):
                        connection = await self._dial(send.address)
                sent = True
                reader, writer = connection
                writer.write(http11.request(send))
                await writer.drain()
                steps = http11.reading()
                next(steps)
                while True:
                    try:
                        steps.send(await reader.read(1 << 16))
                    except StopIteration as end:
                        answer, kept = end.value
                        return answer
        except (OSError, TimeoutError) as error:
            raise NoAnswer(str(error) or "timed out", sent) from error
        finally:
            idle = self._idle.setdefault(send.address, [])
            if connection and kept and len(idle) < MAX_IDLE:
                idle.append(connection)
            elif connection:
                connection[1].close()

    def close(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop()[1].close()

    def _reused(self, address: str) -> Connection | None:
        idle = self._idle.get(address, [])
        while idle:
            reader, writer = idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def _dial(self, address: str) -> Connection:
        tls, host, port, _ = http11.place(address)
        settings = (self._tls or http11.context(None, None, None)) if tls else None
        return await asyncio.open_connection(host, port, ssl=settings)


class AsyncClient:
    """Calls budgetd from asyncio. See Client; a client belongs to one event loop."""

    def __init__(
        self,
        servers: str,
        *,
        tenant: str = "",
        key: str | Callable[[], str] = "",
        retry: Retry | None = None,
        cancel_within: float = 0.0,
        ca: str | None = None,
        cert: str | None = None,
        cert_key: str | None = None,
        transport: Callable[[Send], Awaitable[Answer]] | None = None,
    ) -> None:
        tls = http11.context(ca, cert, cert_key) if ca or cert else None
        self._streams = Streams(tls)
        self._transport = transport or self._streams
        self.calls = Calls(servers, tenant, key, retry, cancel_within, lambda: asyncio.get_running_loop().time())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._streams.close()

    async def deduct(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.DeductRequest]
    ) -> api.DeductAnswer:
        return await self._run(self.calls.run(self.calls.deduct(budget, request), self.calls.deadline(timeout)))

    def hold(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.DeductRequest]
    ) -> AsyncHold:
        return AsyncHold(self, budget, request, timeout)

    async def batch(self, items: Sequence[api.BatchItem], *, timeout: float | None = None) -> list[Result]:
        return await self._run(self.calls.batch(items, self.calls.deadline(timeout)))

    async def check(self, items: Sequence[api.CheckItem], *, timeout: float | None = None) -> list[Result]:
        return await self._run(self.calls.check(items, self.calls.deadline(timeout)))

    async def confirm(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.ConfirmRequest]
    ) -> api.Settlement:
        return await self._settle("confirm", budget, request, timeout)

    async def extend(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.ExtendRequest]
    ) -> api.Settlement:
        return await self._settle("extend", budget, request, timeout)

    async def renew(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.RenewRequest]
    ) -> api.Renewal:
        what = self.calls.renew(budget, request)
        return await self._run(self.calls.run(what, self.calls.deadline(timeout)))

    async def deduct_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetRequest]
    ) -> api.SetAnswer:
        return await self._on_set("deduct", request, timeout)

    async def confirm_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetConfirm]
    ) -> api.Set:
        return await self._on_set("confirm", request, timeout)

    async def extend_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetExtend]
    ) -> api.Set:
        return await self._on_set("extend", request, timeout)

    async def rollback_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetRollback]
    ) -> api.Set:
        return await self._on_set("rollback", request, timeout)

    async def cancel_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetCancel]
    ) -> api.Set:
        return await self._on_set("cancel", request, timeout)

    async def rollback(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.RollbackRequest]
    ) -> api.Settlement:
        return await self._settle("rollback", budget, request, timeout)

    async def cancel(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.CancelRequest]
    ) -> api.Deduction:
        return await self._settle("cancel", budget, request, timeout)

    async def find(
        self, budget: str, request_id: str, key: str = "", *, timeout: float | None = None
    ) -> api.Deduction:
        what = self.calls.find(budget, request_id, key)
        return await self._run(self.calls.run(what, self.calls.deadline(timeout)))

    async def feed(
        self, budget: str, after: str = "", *, limit: int = 0, wait: float = 0.0, timeout: float | None = None
    ) -> api.FeedPage:
        what = self.calls.feed(budget, after, limit, wait)
        return await self._run(self.calls.run(what, self.calls.deadline(timeout)))

    async def follow(
        self, budget: str, after: str = "", *, limit: int = 0, wait: float = 0.0
    ) -> AsyncIterator[api.FeedPage]:
        feed = self.calls.follow(budget, after, limit, wait)
        while True:
            yield await self._run(feed.next())

    async def _on_set(self, verb: str, request: Any, timeout: float | None) -> Any:
        return await self._run(self.calls.run(self.calls.on_set(verb, request), self.calls.deadline(timeout)))

    async def _settle(self, op: str, budget: str, request: Any, timeout: float | None) -> Any:
        what = self.calls.settle(op, budget, request)
        return await self._run(self.calls.run(what, self.calls.deadline(timeout)))

    async def _run(self, steps: Steps) -> Any:
        try:
            effect = next(steps)
            while True:
                try:
                    answer = None
                    if isinstance(effect, Sleep):
                        await asyncio.sleep(effect.seconds)
                    else:
                        answer = await self._transport(effect)
                except NoAnswer as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as end:
            return end.value


class AsyncHold(Scope):
    """Hold for asyncio. A cancelled task settles its hold before it ends."""

    def __init__(self, client: AsyncClient, budget: str, request: Any, timeout: float | None) -> None:
        super().__init__(budget, request, timeout)
        self._client = client
        self._beats: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AsyncHold:
        try:
            self.answer = await self._client.deduct(self.budget, timeout=self.timeout, **self.request)
        except asyncio.CancelledError as error:
            what = self._client.calls.deduct(self.budget, self.request).cancel
            assert what is not None
            await self._unhindered(self._client._run(
                self._client.calls.run(what, self._client.calls.deadline(SETTLE_TIMEOUT))), error)  # fmt: skip
            raise
        self._learn(self.answer)
        self._beats = asyncio.create_task(self._heartbeat())
        return self

    async def confirm(self, amount: int | None = None) -> api.Settlement:
        return await self._end("confirm", amount)

    async def renew(self, used: int, hold: int) -> api.Renewal:
        self.dispatched()
        step = self._renewing(used, hold)
        answer = await self._client.renew(self.budget, timeout=self.timeout, **step)
        self._renewed(answer)
        return answer

    async def rollback(self) -> api.Settlement:
        return await self._end("rollback", None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if not self.done:
            await self._unhindered(self._end(*self._last()), error)

    async def _unhindered(self, settling: Awaitable[Any], error: BaseException | None) -> None:
        """Waits for a settling to its end, even if the task is cancelled meanwhile."""
        task = asyncio.ensure_future(settling)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as again:
                cancelled = again
            except BudgetdError:
                break
        failure = task.exception()
        if failure and error is None and cancelled is None:
            raise failure
        if failure and error is not None:
            error.add_note(f"the hold {self.request['request_id']!r} was not settled: {failure}")
        if cancelled:
            raise cancelled

    def _stop(self) -> None:
        if self._beats:
            self._beats.cancel()

    async def _end(self, op: str, amount: int | None) -> Any:
        try:
            answer = await self._client._settle(op, self.budget, self._settling(amount), self.timeout)
        except BudgetdError as error:
            self._ends(op, amount, error)
            raise
        self._stop()
        self._ends(op, amount, None)
        return answer

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._period())
            try:
                self._learn(await self._client._settle("extend", self.budget, self._beat(), self._period()))
            except BudgetdError as error:
                if not self._goes_on(error):
                    return
