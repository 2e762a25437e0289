"""Plays the conversations of sdk/vectors.json on a clock of their own."""

import asyncio
import json
import pathlib
import selectors
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import budgetd
from budgetd.calls import Retry

FILE = json.loads((pathlib.Path(__file__).parents[2] / "vectors.json").read_text("utf-8"))


class Script:
    """A server that plays the exchanges of a vector."""

    def __init__(self, test, exchanges):
        self.test, self.exchanges = test, exchanges
        self.n, self.ended, self.sent = 0, 0.0, {}

    def begins(self, send, now):
        """Checks a request, and returns how many seconds its reply takes and what it is."""
        self.test.assertLess(self.n, len(self.exchanges), f"a request too many: {send}")
        e = self.exchanges[self.n]
        self.n += 1
        self.test.assertEqual(send.address, f"http://node-{e.get('node', 0)}")
        if "wait_ms" in e:
            self.within(e["wait_ms"], now - self.ended, f"the wait before request {self.n}")
        want = FILE["requests"][e["request"]] if isinstance(e["request"], str) else e["request"]
        path, _, query = send.target.partition("?")
        self.test.assertEqual((send.method, path), (want["method"], want["path"]))
        got = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.test.assertEqual(got, want.get("query", {}))
        for name, value in want.get("headers", {}).items():
            self.test.assertEqual(send.headers.get(name), value)
        self.test.assertEqual(json.loads(send.body) if send.body else None, want.get("body"))
        before = self.sent.setdefault(json.dumps(e["request"]), send.body)
        self.test.assertEqual(send.body, before)
        reply = e["reply"]
        if reply == "time_out":
            if "ends_ms" in e:
                self.within(e["ends_ms"], send.timeout, "the time of the attempt")
            return send.timeout, reply
        if reply in ("lost", "cut", "no_server"):
            return 0, reply
        reply = FILE["replies"][reply] if isinstance(reply, str) else reply
        took = reply.get("after_ms", 0) / 1000
        return (took, reply) if took < send.timeout else (send.timeout, "time_out")

    def within(self, bounds, took, what):
        self.test.assertGreaterEqual(took + 1e-6, bounds[0] / 1000, what)
        self.test.assertLessEqual(took - 1e-6, bounds[1] / 1000, what)

    def ends(self, reply, now):
        self.ended = now
        if isinstance(reply, str):
            raise budgetd.NoAnswer(reply, sent=reply != "no_server")
        headers = {name.lower(): value for name, value in reply.get("headers", {}).items()}
        body = json.dumps(reply["body"]) if "body" in reply else reply["text"]
        return budgetd.Answer(reply["status"], headers, body.encode())


class FakeClock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self):
        self.time, self.timers = 0.0, []

    def now(self):
        return self.time

    def sleep(self, seconds):
        end = self.time + seconds
        while due := [t for t in self.timers if t[0] <= end]:
            timer = min(due, key=lambda t: t[0])
            self.timers.remove(timer)
            self.time = max(self.time, timer[0])
            timer[1]()
        self.time = max(self.time, end)

    def later(self, seconds, what):
        timer = (self.time + seconds, what)
        self.timers.append(timer)
        return lambda: timer in self.timers and self.timers.remove(timer)


class FakeSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting."""

    time = 0.0

    def select(self, timeout=None):
        self.time += timeout or 0
        return super().select(0)


class BodyFailed(Exception):
    pass


class Cases(unittest.TestCase):
    def options(self, v):
        s = {**FILE["settings"], **v.get("client", {})}
        ms = {"base": s["base_ms"], "max": s["max_ms"], "attempt_timeout": s["attempt_timeout_ms"]}
        retry = Retry(s["attempts"], **{k: n / 1000 for k, n in ms.items() if n is not None})
        servers = ",".join(f"node-{n}" for n in range(s.get("nodes", 1)))
        more = {"tenant": s.get("tenant", ""), "key": s.get("key", ""), "retry": retry}
        return servers, {**more, "cancel_within": s.get("cancel_within_ms", 0) / 1000}

    def blocking(self, v):
        script, clock = Script(self, v["exchanges"]), FakeClock()

        def transport(send):
            took, reply = script.begins(send, clock.now())
            clock.sleep(took)
            return script.ends(reply, clock.now())

        servers, options = self.options(v)
        client = budgetd.Client(servers, transport=transport, clock=clock, **options)
        began = clock.now()

        def scope(hold, steps):
            with hold as h:
                for step in steps:
                    word, _, n = step.partition(" ")
                    if word == "fail":
                        raise BodyFailed
                    if word == "work":
                        clock.sleep(int(n) / 1000)
                    elif word == "renew":
                        h.renew(*map(int, n.split()))
                    elif word == "confirm":
                        h.confirm(int(n) if n else None)
                    else:
                        getattr(h, word)()

        def ask(call, *args, **named):
            result = getattr(client, call)(*args, **named)
            return list(self.pages(result)) if call == "follow" else result

        self.judge(v, script, lambda: self.ask(v, ask, client.hold, scope), lambda: clock.now() - began)

    def for_asyncio(self, v):
        script, selector = Script(self, v["exchanges"]), FakeSelector()
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.time
        began = loop.time()

        async def transport(send):
            took, reply = script.begins(send, loop.time())
            await asyncio.sleep(took)
            return script.ends(reply, loop.time())

        servers, options = self.options(v)
        client = budgetd.AsyncClient(servers, transport=transport, **options)

        async def scoped(hold, steps):
            async with hold as h:
                for step in steps:
                    word, _, n = step.partition(" ")
                    if word == "fail":
                        raise BodyFailed
                    if word == "work":
                        await asyncio.sleep(int(n) / 1000)
                    elif word == "dispatched":
                        h.dispatched()
                    elif word == "renew":
                        await h.renew(*map(int, n.split()))
                    elif word == "confirm":
                        await h.confirm(int(n) if n else None)
                    else:
                        await h.rollback()

        async def asked(call, args, named):
            if call == "follow":
                self.seen = []
                async for page in client.follow(*args, **named):
                    self.seen.append(page["next"])
            return await getattr(client, call)(*args, **named)

        try:
            ask = lambda call, *args, **named: loop.run_until_complete(asked(call, args, named))
            scope = lambda hold, steps: loop.run_until_complete(scoped(hold, steps))
            self.judge(v, script, lambda: self.ask(v, ask, client.hold, scope), lambda: loop.time() - began)
        finally:
            loop.close()

    def pages(self, pages):
        self.seen = []
        for page in pages:
            self.seen.append(page["next"])
            yield page

    def ask(self, v, ask, hold, scope):
        call = v["call"]
        op, request = call["op"], call["request"]
        if "deadline_ms" in v:
            request = {**request, "timeout": v["deadline_ms"] / 1000}
        if op == "scope":
            h = hold(call["budget"], **request)
            try:
                scope(h, call["steps"])
            except BodyFailed:
                return {"done": h.done, "raised": True, **self.lost(h)}
            return {"done": h.done, **self.lost(h)}
        if op in ("batch", "check"):
            return {"results": [self.outcome(r) for r in ask(op, request)]}
        if op in ("feed", "follow"):
            request = {("wait" if k == "wait_ms" else k): (n / 1000 if k == "wait_ms" else n) for k, n in request.items()}
        if op.endswith("_set"):
            return {"answer": ask(op, **request)}
        return {"answer": ask(op, call["budget"], **request)}

    def lost(self, hold):
        return {"lost": hold.lost.code} if hold.lost else {}

    def outcome(self, result):
        self.assertNotEqual(result.answer is None, result.error is None)
        return {"answer": result.answer} if result.error is None else {"error": self.failure(result.error)}

    def failure(self, error):
        return {
            "kind": error.kind, "code": error.code, "status": error.status, "cancelled": error.cancelled,
            "never": error.never, "available": error.available, "limit": error.limit,
            "request_id": error.request_id, "retry_after_ms": round(error.retry_after * 1000), "says": str(error),
        }  # fmt: skip

    def judge(self, v, script, call, took):
        self.seen = None
        try:
            got = call()
        except budgetd.BudgetdError as error:
            got = {"error": self.failure(error)}
        if self.seen is not None:
            got["pages"] = self.seen
        if "took_ms" in v:
            script.within(v["took_ms"], took(), "the call")
        self.assertEqual(script.n, len(v["exchanges"]), f"not all requests came: {got}")
        self.assertEqual(got.keys(), v["result"].keys())
        self.has(got, v["result"], "result")

    def has(self, got, want, at):
        if isinstance(want, dict):
            for name, value in want.items():
                if name == "says":
                    for text in value:
                        self.assertIn(text, got["says"])
                else:
                    self.has(got.get(name), value, f"{at}.{name}")
        elif isinstance(want, list):
            self.assertEqual(len(got), len(want), at)
            for i, value in enumerate(want):
                self.has(got[i], value, f"{at}[{i}]")
        else:
            self.assertEqual(got, want, at)

    def test_blocking(self):
        for v in FILE["vectors"]:
            with self.subTest(v["name"]):
                self.blocking(v)

    def test_asyncio(self):
        for v in FILE["vectors"]:
            with self.subTest(v["name"]):
                self.for_asyncio(v)


if __name__ == "__main__":
    unittest.main()
