"""What a client does in a call, without I/O: when it repeats, waits, cancels and gives up.

A call is a generator. It yields a Send or a Sleep, and gets the Answer of a Send, or NoAnswer raised
where it waits. So the same rules serve the client that blocks and the one for asyncio.
"""

from __future__ import annotations

import json
import math
import random
import time
import urllib.parse
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import BudgetdError, Conflict, Faulty, NotNow, Unknown, of_problem

MAX_RETRY_AFTER = 30.0
"""The longest Retry-After, in seconds, that a call waits for."""
MAX_FEED_WAIT = 30.0
UNBOUNDED = 1000
"""The most attempts if only the time bounds them."""


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP. The names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class NoAnswer(Exception):
    """No usable answer arrived. sent is false if the request certainly did not leave."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


@dataclass(frozen=True)
class Send:
    """One attempt. timeout is in seconds, for all of it."""

    address: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float


@dataclass(frozen=True)
class Sleep:
    """A pause of so many seconds."""

    seconds: float


Steps = Generator[Send | Sleep, Any, Any]


@dataclass
class Retry:
    """The bounds of repeats; times are in seconds.

    Without attempts a call repeats as long as another attempt begins within `within` of the first,
    by default 10 s. Before attempt n+1 it waits for Retry-After and a random time up to
    min(max, base * 2**(n-1)).
    """

    attempts: int | None = None
    within: float | None = None
    base: float = 0.05
    max: float = 1.0
    attempt_timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.attempts:
            self.attempts = UNBOUNDED
            self.within = self.within or 10.0


@dataclass
class What:
    """A call, ready to be sent any number of times."""

    op: str
    method: str
    path: tuple[str, ...]
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    request_id: str = ""
    read: bool = False
    longer: float = 0.0
    good: Callable[[Any], bool] = lambda answer: isinstance(answer, dict)
    """Whether an answer is about the request; a proxy may have made another one."""
    cancel: What | None = None
    """The call that makes certain that this one has no effect."""


@dataclass
class Result:
    """The result of one item: answer or error, exactly one is set."""

    answer: Any = None
    error: BudgetdError | None = None


def about(request_id: str, member: str) -> Callable[[Any], bool]:
    """Returns whether an answer has a member and is about a request id."""
    return lambda a: (
        isinstance(a, dict) and bool(a.get(member)) and a.get("request_id", request_id) in (request_id, "")
    )


def about_group(group: str) -> Callable[[Any], bool]:
    """Returns whether an answer is about the holds of a group."""
    return lambda a: (
        isinstance(a, dict)
        and a.get("group") == group
        and bool(a.get("deductions"))
        and all(d.get("state") for d in a["deductions"])
    )


def base_of(address: str) -> str:
    """Returns the base URL of an address."""
    if "://" not in address:
        address = "http://" + address
    parts = urllib.parse.urlsplit(address)
    if "@" in parts.netloc:
        raise ValueError("server address: must not have a user or password; the key is an argument")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"server address {address!r}: must look like http://host:port")
    return address.rstrip("/")


class Calls:
    """The calls of a client as steps. It is safe for concurrent use."""

    def __init__(
        self,
        servers: str,
        tenant: str = "",
        key: str | Callable[[], str] = "",
        retry: Retry | None = None,
        cancel_within: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.addresses = [base_of(one.strip()) for one in servers.split(",")]
        self.tenant = tenant
        self.key = key
        self.retry = retry or Retry()
        self.cancel_within = cancel_within
        self.now = now
        self._failed = 0  # counts attempts without a usable answer, and selects the address

    # What the calls are.

    def deduct(self, budget: str, request: Any) -> What:
        what = self._on(budget, "deduct", request, about(request.get("request_id", ""), "outcome"))
        what.read = bool(request.get("dry_run"))
        if not what.read:
            routed = {"request_id": what.request_id, "key": request.get("key", "")}
            routed["dimensions"] = request.get("dimensions", {})
            what.cancel = self.settle("cancel", budget, routed)
        return what

    def settle(self, op: str, budget: str, request: Any) -> What:
        group = request.get("group")
        what = self._on(budget, op, request, about(request.get("request_id", ""), "state"))
        if group and not what.request_id:
            what.request_id, what.good = group, about_group(group)
        return what

    def renew(self, budget: str, request: Any) -> What:
        return self._on(budget, "renew", request, about(request.get("request_id", ""), "step"))

    def on_set(self, verb: str, request: Any) -> What:
        """A call on a set; "deduct" makes one."""
        request_id, makes = request.get("request_id", ""), verb == "deduct"
        path = ("v1", "deductions") if makes else ("v1", "deductions", verb)
        what = What(f"{verb} set", "POST", path, request, request_id=request_id)
        what.good = about(request_id, "outcome" if makes else "state")
        what.read = makes and bool(request.get("dry_run"))
        if makes and not what.read:
            what.cancel = self.on_set("cancel", {"request_id": request_id})
        return what

    def find(self, budget: str, request_id: str, key: str) -> What:
        return What(
            "find", "GET", ("v1", "budgets", budget, "deductions"), read=True,
            query={"request_id": request_id, "key": key}, good=about(request_id, "state"),
        )  # fmt: skip

    def feed(self, budget: str, after: str, limit: int, wait: float) -> What:
        wait = min(wait, MAX_FEED_WAIT)
        query = {"after": after, "limit": str(limit or ""), "wait": f"{wait:g}s" if wait > 0 else ""}
        return What(
            "feed", "GET", ("v1", "budgets", budget, "ledger"), read=True, longer=wait,
            query={name: value for name, value in query.items() if value},
            good=lambda a: isinstance(a, dict) and isinstance(a.get("entries"), list),
        )  # fmt: skip

    def _on(self, budget: str, op: str, body: Any, good: Callable[[Any], bool]) -> What:
        path = ("v1", "budgets", budget, op)
        return What(op, "POST", path, body, request_id=body.get("request_id", ""), good=good)

    # What is done in a call.

    def deadline(self, timeout: float | None) -> float:
        return math.inf if timeout is None else self.now() + timeout

    def run(self, what: What, deadline: float = math.inf) -> Steps:
        """Makes a call and returns its answer."""
        began, unanswered, n = self.now(), False, 0
        while True:
            n += 1
            try:
                return (yield from self._attempt(what, deadline))
            except BudgetdError as error:
                last = error
            if not undecided(last):
                raise (yield from self._certain(what, deadline, unanswered, last))
            unanswered = unanswered or isinstance(last, Unknown)
            pause = self._pause(n, began, deadline, last)
            if pause is None:
                raise (yield from self._given_up(what, deadline, last)) if unanswered else last
            yield Sleep(pause)

    def batch(self, items: Sequence[Any], deadline: float = math.inf) -> Steps:
        """Makes deductions together and returns a Result for each."""
        calls = [self.deduct(item.get("budget", ""), item) for item in items]
        results = [Result() for _ in items]
        unanswered = [False] * len(items)
        open_items, began, n, answered = list(range(len(items))), self.now(), 0, False
        while open_items:
            n += 1
            what = What("batch", "POST", ("v1", "deductions:batch"), {"deductions": [items[i] for i in open_items]},
                        good=complete(len(open_items)))  # fmt: skip
            texts: list[Any] = []
            whole: BudgetdError | None = None
            try:
                texts = (yield from self._attempt(what, deadline))["results"]
                answered = True
            except BudgetdError as error:
                whole = error
                if not undecided(error) and not answered and not any(unanswered):
                    raise
            still = []
            until = self._settle_until(deadline)
            for at, i in enumerate(open_items):
                result = Result(error=whole) if whole else self._item(calls[i], texts[at])
                if result.error and undecided(result.error):
                    unanswered[i] = unanswered[i] or isinstance(result.error, Unknown)
                    still.append(i)
                elif result.error:
                    result.error = yield from self._certain(calls[i], until, unanswered[i], result.error, True)
                results[i] = result
            open_items = still
            if not open_items:
                break
            first = results[open_items[0]].error
            assert first is not None
            pause = self._pause(n, began, deadline, first)
            if pause is None:
                if not answered and not any(unanswered):
                    raise first
                until = self._settle_until(deadline)
                for i in open_items:
                    last = results[i].error
                    if unanswered[i] and last:
                        results[i].error = yield from self._given_up(calls[i], until, last, True)
                break
            yield Sleep(pause)
        return results

    def check(self, items: Sequence[Any], deadline: float = math.inf) -> Steps:
        """Asks which deductions would be accepted and returns a Result for each."""
        if not items:
            return []
        what = What("check", "POST", ("v1", "checks"), {"checks": list(items)}, read=True)
        answer = yield from self.run(what, deadline)
        if not complete(len(items))(answer):
            raise NotNow("check", "check: the answer has another number of results")
        return [self._item(what, text) for text in answer["results"]]

    def _item(self, what: What, item: Any) -> Result:
        """Reads the result of one item: an answer, which has an outcome, or a problem."""
        if isinstance(item, dict) and item.get("outcome"):
            if what.op == "check" or what.good(item):
                return Result(answer=item)
        elif isinstance(item, dict) and item.get("code"):
            error = of_problem(what.op, item, item.get("status", 0), what.read, {})
            error.retry_after = float(math.ceil(error.retry_after)) if what.op != "check" else error.retry_after
            return Result(error=error)
        kind = NotNow if what.read else Unknown
        return Result(error=kind(what.op, f"{what.op}: a result cannot be read", request_id=what.request_id))

    def _attempt(self, what: What, deadline: float) -> Steps:
        """Sends a call once and returns its answer."""
        at = self._failed
        timeout = min(self.retry.attempt_timeout + what.longer, deadline - self.now())
        send = self._request(what, self.addresses[at % len(self.addresses)], timeout)
        lost: type[BudgetdError] = NotNow if what.read else Unknown
        try:
            if timeout <= 0:
                raise NoAnswer("the deadline has passed", sent=False)
            answer: Answer = yield send
            if not 200 <= answer.status <= 299:
                raise of_problem(what.op, _json(answer.body), answer.status, what.read, answer.headers)
            value = _json(answer.body)
            if not what.good(value):
                raise NoAnswer("the answer is not about this request", sent=True)
            return value
        except NoAnswer as error:
            if self._failed == at:
                self._failed = at + 1  # another attempt goes to the next address
            where = f"{what.op}: no usable answer from {send.address}: {error}"
            if not error.sent:
                raise NotNow(what.op, f"{what.op}: nothing was sent to {send.address}: {error}") from None
            raise lost(what.op, where, request_id=what.request_id) from None

    def _request(self, what: What, address: str, timeout: float) -> Send:
        if any(part in ("", ".", "..") for part in what.path):
            raise Faulty(what.op, f"{what.op}: {what.path} names no budget")
        query = dict(what.query)
        if self.tenant:
            query["tenant"] = self.tenant
        target = "/" + "/".join(urllib.parse.quote(part, safe=":") for part in what.path)
        if query:
            target += "?" + urllib.parse.urlencode(query)
        headers = {"Accept": "application/json, application/problem+json", "User-Agent": "budgetd-python"}
        key = self.key() if callable(self.key) else self.key
        if key:
            headers["Authorization"] = "Bearer " + key
        if any(not " " <= letter <= "~" for letter in key):
            raise Faulty(what.op, f"{what.op}: the key has a character that no key has")
        body = None
        if what.body is not None:
            headers["Content-Type"] = "application/json"
            try:
                body = json.dumps(what.body, ensure_ascii=False, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise Faulty(what.op, f"{what.op}: the request cannot be written: {error}") from error
        return Send(address, what.method, target, headers, body, timeout)

    def _pause(self, n: int, began: float, deadline: float, cause: BudgetdError) -> float | None:
        """Returns the wait before attempt n+1, or None if there is none."""
        r = self.retry
        assert r.attempts is not None
        if n >= r.attempts or cause.retry_after > MAX_RETRY_AFTER:
            return None
        pause = cause.retry_after + random.random() * self._ceiling(n)
        now = self.now()
        if now + pause >= deadline or r.within is not None and now - began + pause >= r.within:
            return None
        return pause

    def _ceiling(self, n: int) -> float:
        return min(self.retry.max, self.retry.base * 2.0 ** min(n - 1, 60))

    def _settle_until(self, deadline: float) -> float:
        """Returns until when a call is settled: in its own time, if cancel_within grants some."""
        return self.now() + self.cancel_within if self.cancel_within else deadline

    def _certain(
        self, what: What, deadline: float, unanswered: bool, final: BudgetdError, settling: bool = False
    ) -> Steps:
        """Returns what a final answer means for the call as a whole.

        A refusal says only that its own attempt did nothing. After one without an answer the id is
        cancelled. If a cancel finds the same fault in the request, no server accepts the id.
        """
        if not unanswered or isinstance(final, Conflict):
            return final
        if what.cancel is None:
            return self._unknown(what, final)
        try:
            yield from self.run(what.cancel, deadline if settling else self._settle_until(deadline))
        except BudgetdError as error:
            faults = ("malformed", "invalid", "too_large", "unsupported_media_type")
            return final if final.code in faults and error.code in faults else self._unknown(what, final)
        return final.as_cancelled()

    def _given_up(self, what: What, deadline: float, last: BudgetdError, settling: bool = False) -> Steps:
        """Returns the error of a call whose attempts ended with one unanswered."""
        if what.cancel is None or not self.cancel_within:
            return self._unknown(what, last)
        try:
            yield from self.run(what.cancel, deadline if settling else self._settle_until(deadline))
        except BudgetdError:
            return self._unknown(what, last)
        void = {"status": 409, "code": "request_void"}
        return Conflict(what.op, f"{what.op}: request_void: no attempt was answered in time", void, cancelled=True)

    def _unknown(self, what: What, last: BudgetdError) -> Unknown:
        message = f"{what.op}: the outcome of {what.request_id!r} is unknown: {last}"
        return Unknown(what.op, message, {"code": "outcome_unknown"}, request_id=what.request_id)

    def follow(self, budget: str, after: str, limit: int, wait: float) -> Feed:
        return Feed(self, budget, after, limit, min(wait if wait > 0 else 20.0, MAX_FEED_WAIT))


class Feed:
    """A reader of the feed from a cursor on."""

    def __init__(self, calls: Calls, budget: str, after: str, limit: int, wait: float) -> None:
        self.calls, self.budget, self.after, self.limit, self.wait = calls, budget, after, limit, wait

    def next(self) -> Steps:
        """Waits for a page with entries. Only final errors end it."""
        calls, idle = self.calls, 0
        while True:
            began, after = calls.now(), 0.0
            try:
                page = yield from calls.run(calls.feed(self.budget, self.after, self.limit, self.wait))
            except BudgetdError as error:
                if not undecided(error) or error.code == "internal":
                    raise
                after = min(error.retry_after, MAX_RETRY_AFTER)
            else:
                self.after = page["next"]
                if page["entries"]:
                    return page
                if calls.now() - began >= self.wait / 2:
                    continue  # the server has waited already
            idle += 1
            yield Sleep(max(after, random.random() * calls._ceiling(idle)))


def undecided(error: BudgetdError) -> bool:
    """Returns whether another attempt of the same call can help."""
    return isinstance(error, (NotNow, Unknown)) and not error.never


def complete(n: int) -> Callable[[Any], bool]:
    """Returns whether an answer has n results."""
    return lambda a: isinstance(a, dict) and isinstance(a.get("results"), list) and len(a["results"]) == n


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as "15m" or "1h30m"."""
    units = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    total, number, unit = 0.0, "", ""
    for letter in text + "0":
        if letter.isdigit() or letter == ".":
            if unit:
                total += float(number) * units[unit]
                number, unit = "", ""
            number += letter
        else:
            unit += letter
    return total
