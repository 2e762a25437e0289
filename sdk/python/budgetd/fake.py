"""A server for the tests of one's own code: budgets in memory, over HTTP on a port of its own."""

from __future__ import annotations

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeServer:
    """Knows deduct, batch, check, confirm, extend, rollback, cancel, find and feed of promo budgets
    in ledger mode, without limits; holds do not expire.

        with FakeServer({"sale": 100}) as server:
            client = Client(server.url)

    fails lists the (status, code) with which the next calls are answered, before they happen.
    """

    def __init__(self, budgets: dict[str, int]) -> None:
        self.budgets = dict(budgets)
        self.deductions: dict[tuple[str, str], dict[str, Any]] = {}
        self.entries: list[dict[str, Any]] = []
        self.fails: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.reply(json.loads(body))

            def do_GET(self) -> None:
                self.reply(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)))

            def reply(self, request: Any) -> None:
                parts = urllib.parse.urlsplit(self.path).path.strip("/").split("/")
                with fake._lock:
                    answer = fake.answer(parts[1:], request)
                text = json.dumps(answer).encode()
                self.send_response(answer.get("status", 200))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            disable_nagle_algorithm = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: list[str], request: Any) -> dict[str, Any]:
        """Returns the answer to a call; that of a problem has a status."""
        if self.fails:
            return problem(*self.fails.pop(0))
        if path == ["deductions:batch"]:
            return {"results": [self.deduct(r["budget"], r) for r in request["deductions"]]}
        if path == ["checks"]:
            return {"results": [self.deduct(r["budget"], {"dry_run": True, **r}) for r in request["checks"]]}
        if len(path) != 3 or path[0] != "budgets" or path[1] not in self.budgets:
            return problem(404, "budget_not_found")
        budget, verb = path[1], path[2]
        if verb == "deduct":
            return self.deduct(budget, request)
        if verb == "ledger":
            after = int(request.get("after", "0"))
            entries = [e for e in self.entries[after:] if e["budget"] == budget]
            return {"entries": entries, "next": str(len(self.entries))}
        d = self.deductions.get((budget, request.get("request_id", "")))
        if d is None:
            if verb != "cancel":
                return problem(404, "deduction_not_found")
            d = {"request_id": request["request_id"], "state": "void", "amount": 0, "rolled_back": 0}
            self.deductions[budget, d["request_id"]] = d
        return d if verb == "deductions" else self.settle(budget, verb, d, request)

    def deduct(self, budget: str, request: Any) -> dict[str, Any]:
        if budget not in self.budgets:
            return problem(404, "budget_not_found")
        amount, name = request["amount"], request.get("request_id", "")
        known = self.deductions.get((budget, name))
        if known and known["state"] == "void":
            return problem(409, "request_void")
        if known and known["state"] == "rolled_back":
            return problem(409, "already_rolled_back")
        if known and known["amount"] != amount:
            return problem(409, "request_conflict")
        if not known and amount > self.budgets[budget]:
            return problem(409, "budget_exhausted", available=self.budgets[budget])
        if request.get("dry_run"):
            left = self.budgets[budget]
            return {"outcome": "would_be_accepted", "amount": amount, "budget_remaining": left, "limits": []}
        if not known:
            self.budgets[budget] -= amount
            state = "held" if request.get("hold_ttl") else "used"
            d = {"request_id": name, "state": state, "amount": amount, "rolled_back": 0, "bucket": "fake"}
            self.deductions[budget, name] = d
            self._note("deduct", budget, d, amount)
        left = self.budgets[budget]
        return {
            **self.deductions[budget, name], "outcome": "accepted", "bucket_remaining": left,
            "budget_remaining": left, "limits": [], "receipt": name, "replayed": known is not None,
        }  # fmt: skip

    def settle(self, budget: str, verb: str, d: dict[str, Any], request: Any) -> dict[str, Any]:
        amount = request.get("amount")
        if verb == "extend":
            return d if d["state"] == "held" else problem(409, "not_held")
        if verb == "confirm":
            if d["state"] == "used" and d.get("confirmed") == (amount or d["amount"]):
                return {**d, "replayed": True}
            if d["state"] != "held":
                return problem(409, "not_held")
            if (amount or 0) > d["amount"]:
                return problem(409, "amount_exceeds_remaining")
            d["confirmed"] = amount or d["amount"]
            d["state"] = "used"
            self._give_back(budget, d, d["amount"] - d["confirmed"])
            self._note("confirm", budget, d, d["confirmed"])
        elif d["state"] in ("used", "held"):
            left = d["amount"] - d["rolled_back"]
            if verb == "rollback" and (amount or 0) > left:
                return problem(409, "amount_exceeds_remaining")
            back = amount or left
            self._give_back(budget, d, back)
            if back == left:
                d["state"] = "rolled_back"
            self._note("rollback", budget, d, back)
        return {**d, "replayed": False}

    def _give_back(self, budget: str, d: dict[str, Any], amount: int) -> None:
        self.budgets[budget] += amount
        d["rolled_back"] += amount

    def _note(self, kind: str, budget: str, d: dict[str, Any], amount: int) -> None:
        entry = {"kind": kind, "budget": budget, "bucket": "fake", "entry": len(self.entries) + 1}
        held = d["state"] == "held"
        self.entries.append({**entry, "request_id": d["request_id"], "amount": amount, "held": held})


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    return {"type": f"urn:budgetd:problem:{code}", "title": code, "status": status, "code": code, **more}
