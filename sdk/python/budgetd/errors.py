"""The errors of a call, one type for each kind."""

from __future__ import annotations

from typing import Any

from . import api


class BudgetdError(Exception):
    """What is known of a failed call. Its subclasses say what that means for the caller."""

    kind = ""

    def __init__(self, op: str, message: str, problem: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(message)
        p = problem or {}
        self.op = op
        self.code: str = p.get("code", "")
        self.status: int = p.get("status", 0)
        self.title: str = p.get("title", "")
        self.detail: str = p.get("detail", "")
        self.problem = p
        """The whole problem document (api.Problem); empty if there was no answer."""
        self.available: int | None = p.get("available")
        self.limit: str | None = p.get("limit")
        self.never: bool = p.get("never", False)
        """No repetition can help, as things are defined."""
        self.retry_after: float = 0.0
        """In so many seconds it is worth while to repeat the call; 0 if unknown."""
        self.request_id: str = p.get("request_id", "")
        self.correlation_id: str = p.get("correlation_id", "")
        self.cancelled = False
        """An earlier attempt was unanswered, so the client cancelled the request id."""
        self.__dict__.update(more)

    def as_cancelled(self) -> BudgetdError:
        """Returns a copy that is cancelled, because the items of a batch may share an error."""
        copy = type(self)(self.op, super().__str__())
        copy.__dict__.update(self.__dict__, cancelled=True)
        return copy.with_traceback(self.__traceback__)

    def __str__(self) -> str:
        text = super().__str__()
        if self.retry_after:
            text += f" (retry after {self.retry_after:g} s)"
        if self.cancelled:
            text += " (the request id was cancelled: try again with another)"
        return text


class Refused(BudgetdError):
    """Understood, and the answer is no; nothing was changed."""

    kind = "refused"


class Conflict(BudgetdError):
    """It contradicts what is recorded; nothing was changed."""

    kind = "conflict"


class NotNow(BudgetdError):
    """It certainly did not happen: not reachable, unavailable, or a failed read. Repeat it later."""

    kind = "not_now"


class Unknown(BudgetdError):
    """It may have happened. Repeat it with the same request id, or cancel that id."""

    kind = "unknown"


class Faulty(BudgetdError):
    """The request is wrong, or names something that does not exist."""

    kind = "faulty"


TYPES: dict[str, type[BudgetdError]] = {t.kind: t for t in (Refused, Conflict, NotNow, Unknown, Faulty)}


def of_problem(op: str, problem: Any, status: int, read: bool, headers: dict[str, str]) -> BudgetdError:
    """Returns the error of an answer that is no success."""
    p: dict[str, Any] = problem if isinstance(problem, dict) else {}
    p = {**p, "status": status}
    known = isinstance(p.get("code"), str) and p["code"] != ""
    if not known:
        p.pop("code", None)
    kind = api.KINDS.get(p.get("code", "")) or _of_status(status, known)
    if kind == "unknown" and read:
        kind = "not_now"
    if known:
        message = f"{op}: {p['code']}: {p.get('detail') or p.get('title', '')}"
    elif "location" in headers:
        message = f"{op}: HTTP status {status}: the server redirects to {headers['location']}; use that address"
    else:
        message = f"{op}: HTTP status {status}: not an answer of budgetd; is this the right address?"
    for fault in p.get("errors", []):
        message += f"; {fault['field']}: {fault['message']}"
    error = TYPES[kind](op, message, p)
    error.retry_after = max(_number(p.get("retry_after")), _number(headers.get("retry-after")))
    error.correlation_id = headers.get("x-correlation-id", error.correlation_id)
    return error


def _of_status(status: int, ours: bool) -> str:
    """Returns the kind of a status. Only one of a server that is not budgetd's proves little."""
    if status >= 500 or status == 408 or status == 429 and not ours:
        return "unknown"
    if ours and status in (409, 429):
        return "refused"
    return "conflict" if ours and status == 412 else "faulty"


def _number(value: Any) -> float:
    try:
        return max(0.0, float(value or 0))
    except (TypeError, ValueError):
        return 0.0
