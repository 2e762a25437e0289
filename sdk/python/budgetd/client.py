"""The client that blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Unpack

from . import api, http11
from .calls import Answer, Calls, NoAnswer, Result, Retry, Send, Sleep, Steps, seconds
from .errors import BudgetdError, Conflict, Faulty, NotNow, Unknown
from .sockets import Sockets


SHORTEST_BEAT = 0.05
"""The fewest seconds between two heartbeats."""


class Clock(Protocol):
    """The time of a client, for tests."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    def later(self, seconds: float, what: Callable[[], None]) -> Callable[[], None]:
        """Calls what after so many seconds, and returns what prevents it."""


class RealClock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def later(self, seconds: float, what: Callable[[], None]) -> Callable[[], None]:
        timer = threading.Timer(seconds, what)
        timer.daemon = True
        timer.start()
        return timer.cancel


class Client:
    """Calls budgetd. It is safe for concurrent use; make one per service.

    servers is a base URL, or several of equal nodes with commas. key is the API key, or a function
    that returns it before each attempt. ca, cert and cert_key are PEM files for https. With
    cancel_within, in seconds, a deduct whose outcome stays unknown is cancelled in that time.
    transport and clock are for tests.

    The time that a call may take in all is its timeout, in seconds. Errors are Refused, Conflict,
    NotNow, Unknown and Faulty.
    """

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
        transport: Callable[[Send], Answer] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock: Clock = clock or RealClock()
        tls = http11.context(ca, cert, cert_key) if ca or cert else None
        self._sockets = Sockets(tls)
        self._transport = transport or self._sockets
        self.calls = Calls(servers, tenant, key, retry, cancel_within, self.clock.now)

    def close(self) -> None:
        """Closes the idle connections."""
        self._sockets.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def deduct(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.DeductRequest]
    ) -> api.DeductAnswer:
        """Takes units from a budget, at most once per request id."""
        return self._run(self.calls.run(self.calls.deduct(budget, request), self.calls.deadline(timeout)))

    def hold(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.DeductRequest]
    ) -> Hold:
        """Returns a hold as a scope: `with client.hold(..., hold_ttl="1m") as h:`."""
        return Hold(self, budget, request, timeout)

    def batch(self, items: Sequence[api.BatchItem], *, timeout: float | None = None) -> list[Result]:
        """Makes up to 1,000 deductions, each by itself."""
        return self._run(self.calls.batch(items, self.calls.deadline(timeout)))

    def check(self, items: Sequence[api.CheckItem], *, timeout: float | None = None) -> list[Result]:
        """Tells which deductions would be accepted now."""
        return self._run(self.calls.check(items, self.calls.deadline(timeout)))

    def confirm(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.ConfirmRequest]
    ) -> api.Settlement:
        """Uses what is held, or a part of it, and gives the rest back."""
        return self._settle("confirm", budget, request, timeout)

    def extend(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.ExtendRequest]
    ) -> api.Settlement:
        """Holds for longer, from now on."""
        return self._settle("extend", budget, request, timeout)

    def renew(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.RenewRequest]
    ) -> api.Renewal:
        """Makes one step of a stream: `used` of what is held becomes used, and `hold` is held from now on."""
        what = self.calls.renew(budget, request)
        return self._run(self.calls.run(what, self.calls.deadline(timeout)))

    def deduct_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetRequest]
    ) -> api.SetAnswer:
        """Takes units from several budgets, all or none, at most once per request id of the tenant."""
        return self._on_set("deduct", request, timeout)

    def confirm_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetConfirm]
    ) -> api.Set:
        """Uses what a set holds, or the parts of amounts, and gives the rest back."""
        return self._on_set("confirm", request, timeout)

    def extend_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetExtend]
    ) -> api.Set:
        """Holds a set for longer, from now on."""
        return self._on_set("extend", request, timeout)

    def rollback_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetRollback]
    ) -> api.Set:
        """Gives units of a set back."""
        return self._on_set("rollback", request, timeout)

    def cancel_set(
        self, *, timeout: float | None = None, **request: Unpack[api.SetCancel]
    ) -> api.Set:
        """Makes certain that the request id of a set has no effect."""
        return self._on_set("cancel", request, timeout)

    def rollback(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.RollbackRequest]
    ) -> api.Settlement:
        """Gives units back."""
        return self._settle("rollback", budget, request, timeout)

    def cancel(
        self, budget: str, *, timeout: float | None = None, **request: Unpack[api.CancelRequest]
    ) -> api.Deduction:
        """Makes certain that a request id has no effect."""
        return self._settle("cancel", budget, request, timeout)

    def find(self, budget: str, request_id: str, key: str = "", *, timeout: float | None = None) -> api.Deduction:
        """Returns what is recorded of a request id."""
        return self._run(self.calls.run(self.calls.find(budget, request_id, key), self.calls.deadline(timeout)))

    def feed(
        self, budget: str, after: str = "", *, limit: int = 0, wait: float = 0.0, timeout: float | None = None
    ) -> api.FeedPage:
        """Returns a page of the feed; its `next` is the cursor of the page after it."""
        what = self.calls.feed(budget, after, limit, wait)
        return self._run(self.calls.run(what, self.calls.deadline(timeout)))

    def follow(
        self, budget: str, after: str = "", *, limit: int = 0, wait: float = 0.0
    ) -> Iterator[api.FeedPage]:
        """Yields the pages of the feed without end, and raises final errors only."""
        feed = self.calls.follow(budget, after, limit, wait)
        while True:
            yield self._run(feed.next())

    def _on_set(self, verb: str, request: Any, timeout: float | None) -> Any:
        return self._run(self.calls.run(self.calls.on_set(verb, request), self.calls.deadline(timeout)))

    def _settle(self, op: str, budget: str, request: Any, timeout: float | None) -> Any:
        return self._run(self.calls.run(self.calls.settle(op, budget, request), self.calls.deadline(timeout)))

    def _run(self, steps: Steps) -> Any:
        try:
            effect = next(steps)
            while True:
                try:
                    answer = None
                    if isinstance(effect, Sleep):
                        self.clock.sleep(effect.seconds)
                    else:
                        answer = self._transport(effect)
                except NoAnswer as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as end:
            return end.value


class Scope:
    """What a hold as a scope knows, in both clients."""

    def __init__(self, budget: str, request: Any, timeout: float | None) -> None:
        if not request.get("hold_ttl"):
            raise Faulty("deduct", "deduct: a hold needs a hold_ttl")
        self.budget = budget
        self.request = request
        self.timeout = timeout
        self.answer: api.DeductAnswer = {}  # type: ignore[typeddict-item]
        self.done = ""
        """How it ended: "confirmed", "rolled_back", or "lost" if it was over before; "" before."""
        self.lost: BudgetdError | None = None
        """Why the heartbeat found that the hold is over, if it was not settled after all."""
        self._lasts = seconds(request["hold_ttl"])  # after the latest answer
        self._dispatched = False
        self._step = 0  # the last one of the stream that is known to be done
        self._tried: tuple[str, int | None] | None = None  # a settling that may have happened

    def dispatched(self) -> None:
        """Notes that the work has begun, so that an end without a confirm uses the estimate."""
        self._dispatched = True

    def _learn(self, answer: Any) -> None:
        """Notes how long the hold lasts from an answer on."""
        self._lasts = answer.get("expires_in", self._lasts)

    def _period(self) -> float:
        """Returns the seconds between two heartbeats: a third of what is left."""
        return max(SHORTEST_BEAT, self._lasts / 3)

    def _settling(self, amount: int | None = None) -> dict[str, Any]:
        request: dict[str, Any] = {"request_id": self.request["request_id"]}
        if amount is not None:
            request["amount"] = amount
        if self.answer.get("receipt"):
            request["receipt"] = self.answer["receipt"]
        return request

    def _renewing(self, used: int, hold: int) -> dict[str, Any]:
        """Returns the request of the next step."""
        return {**self._beat(), "step": self._step + 1, "used": used, "hold": hold}

    def _renewed(self, answer: api.Renewal) -> None:
        self._step = answer["step"]
        self._learn(answer)

    def _last(self) -> tuple[str, int | None]:
        """Returns how the hold is settled that the block left open."""
        return self._tried or ("confirm" if self._dispatched else "rollback", None)

    def _ends(self, op: str, amount: int | None, error: BudgetdError | None) -> None:
        """Notes what came of a settling."""
        if error is None:
            self.done = "confirmed" if op == "confirm" else "rolled_back"
            self.lost = None  # what a heartbeat found was this end
        elif isinstance(error, Conflict):
            self.done = "lost"
        self._tried = (op, amount) if isinstance(error, (NotNow, Unknown)) else None

    def _beat(self) -> dict[str, Any]:
        return {**self._settling(), "hold_ttl": self.request["hold_ttl"]}

    def _goes_on(self, error: BudgetdError) -> bool:
        """Returns whether another heartbeat follows one that failed."""
        if isinstance(error, (NotNow, Unknown)):
            return True
        self.lost = error
        return False


class Hold(Scope):
    """A hold around a block of code. Left without a confirm it is rolled back, or, after
    dispatched(), confirmed with the estimate. A heartbeat extends it at a third of its time."""

    def __init__(self, client: Client, budget: str, request: Any, timeout: float | None) -> None:
        super().__init__(budget, request, timeout)
        self._client = client
        self._stop: Callable[[], None] = lambda: None
        self._ended = False
        self._lock = threading.Lock()  # of _ended, _stop and lost

    def __enter__(self) -> Hold:
        self.answer = self._client.deduct(self.budget, timeout=self.timeout, **self.request)
        self._learn(self.answer)
        self._beat_later()
        return self

    def confirm(self, amount: int | None = None) -> api.Settlement:
        """Uses what is held, or a part of it, and gives the rest back."""
        return self._end("confirm", amount)

    def renew(self, used: int, hold: int) -> api.Renewal:
        """Makes the next step of a stream: `used` of what is held becomes used, and `hold` is held from now
        on. After an unknown outcome repeat it with the same amounts. The work counts as dispatched."""
        self.dispatched()
        step = self._renewing(used, hold)
        answer = self._client.renew(self.budget, timeout=self.timeout, **step)
        self._renewed(answer)
        return answer

    def rollback(self) -> api.Settlement:
        """Gives everything back."""
        return self._end("rollback", None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()
        if self.done:
            return
        try:
            self._end(*self._last())
        except BudgetdError as failure:
            if error is None:
                raise
            error.add_note(f"the hold {self.request['request_id']!r} was not settled: {failure}")

    def _end(self, op: str, amount: int | None) -> Any:
        try:
            answer = self._client._settle(op, self.budget, self._settling(amount), self.timeout)
        except BudgetdError as error:
            self._ends(op, amount, error)
            raise
        self._finish()
        self._ends(op, amount, None)
        return answer

    def _finish(self) -> None:
        with self._lock:
            self._ended = True
            self._stop()

    def _beat_later(self) -> None:
        with self._lock:
            if not self._ended:
                self._stop = self._client.clock.later(self._period(), self._heartbeat)

    def _heartbeat(self) -> None:
        if self._ended:
            return
        try:
            self._learn(self._client._settle("extend", self.budget, self._beat(), self._period()))
        except BudgetdError as error:
            with self._lock:
                if self._ended or not self._goes_on(error):
                    return
        self._beat_later()
