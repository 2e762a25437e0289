"""The client of budgetd. See README.md."""

from __future__ import annotations

import os
import time

from .aio import AsyncClient, AsyncHold
from .calls import Answer, NoAnswer, Result, Retry, Send
from .client import Client, Hold
from .errors import BudgetdError, Conflict, Faulty, NotNow, Refused, Unknown

__all__ = [
    "Answer", "AsyncClient", "AsyncHold", "BudgetdError", "Client", "Conflict", "Faulty", "Hold", "NoAnswer",
    "NotNow", "Refused", "Result", "Retry", "Send", "Unknown", "new_request_id",
]  # fmt: skip


def new_request_id() -> str:
    """Returns a fresh request id: a UUID of version 7, which begins with the time.

    Store it with its order before the first attempt: only the same id makes a repeat safe.
    """
    raw = bytearray(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
