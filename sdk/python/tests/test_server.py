"""Calls real servers: budgetd at BUDGETD_URL, the fake one, and sockets that misbehave."""

import asyncio
import os
import pathlib
import re
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import budgetd
from budgetd.fake import FakeServer

URL = os.environ["BUDGETD_URL"]
ONE = budgetd.Retry(attempts=1, attempt_timeout=0.3)


class Program(unittest.TestCase):
    """What a program does with a server, over both clients."""

    def both(self, url, test):
        with budgetd.Client(url) as client:
            test(lambda call, *a, **k: getattr(client, call)(*a, **k))

        async def on_loop():
            async with budgetd.AsyncClient(url) as client:
                loop = asyncio.get_running_loop()
                ask = lambda call, *a, **k: asyncio.run_coroutine_threadsafe(getattr(client, call)(*a, **k), loop).result()
                await asyncio.to_thread(test, ask)

        asyncio.run(on_loop())

    def program(self, ask):
        one, two, three = (budgetd.new_request_id() for _ in range(3))
        answer = ask("deduct", "sale", request_id=one, amount=3)
        self.assertEqual((answer["state"], answer["replayed"]), ("used", False))
        self.assertTrue(ask("deduct", "sale", request_id=one, amount=3)["replayed"])
        with self.assertRaises(budgetd.Conflict):
            ask("deduct", "sale", request_id=one, amount=4)
        with self.assertRaises(budgetd.Refused) as refused:
            ask("deduct", "sale", request_id=two, amount=10**6)
        self.assertEqual(refused.exception.code, "budget_exhausted")
        self.assertGreater(refused.exception.available, 0)
        with self.assertRaises(budgetd.Faulty):
            ask("deduct", "no-such", request_id=two, amount=1)
        items = [{"budget": "sale", "request_id": two, "amount": 1}, {"budget": "no-such", "request_id": "x", "amount": 1}]
        results = ask("batch", items)
        self.assertEqual(results[0].answer["state"], "used")
        self.assertIsInstance(results[1].error, budgetd.Faulty)
        self.assertEqual(ask("check", [{"budget": "sale", "amount": 1}])[0].answer["outcome"], "would_be_accepted")
        ask("deduct", "sale", request_id=three, amount=5, hold_ttl="1m")
        ask("extend", "sale", request_id=three, hold_ttl="2m")
        self.assertEqual(ask("confirm", "sale", request_id=three, amount=2)["confirmed"], 2)
        self.assertEqual(ask("rollback", "sale", request_id=one)["state"], "rolled_back")
        self.assertEqual(ask("cancel", "sale", request_id=three + "-never")["state"], "void")
        self.assertEqual(ask("find", "sale", one)["state"], "rolled_back")
        page = ask("feed", "sale", limit=1000)
        self.assertIn(three, [e["request_id"] for e in page["entries"]])
        self.assertEqual(ask("feed", "sale", page["next"])["entries"], [])

    def test_budgetd(self):
        self.both(URL, self.program)

    def test_fake(self):
        with FakeServer({"sale": 1000}) as server:
            self.both(server.url, self.program)

    def test_holds(self):
        async def cancelled(client, name):
            async def work():
                async with client.hold("sale", request_id=name, amount=7, hold_ttl="600ms") as h:
                    h.dispatched()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await asyncio.sleep(0.9)  # longer than the hold: a heartbeat extends it
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await client.find("sale", name)

        async def on_loop(name):
            async with budgetd.AsyncClient(URL) as client:
                return await cancelled(client, name)

        recorded = asyncio.run(on_loop(budgetd.new_request_id()))
        self.assertEqual((recorded["state"], recorded["confirmed"]), ("used", 7))
        name = budgetd.new_request_id()
        with budgetd.Client(URL) as client:
            with client.hold("sale", request_id=name, amount=7, hold_ttl="600ms"):
                time.sleep(0.9)
            self.assertEqual(client.find("sale", name)["state"], "rolled_back")

    def test_readme(self):
        text = (pathlib.Path(__file__).parents[1] / "README.md").read_text("utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertEqual(len(blocks), 2)
        self.assertLessEqual(len(blocks[0].strip().split("\n")), 11)
        names, said = {}, []
        names["print"] = lambda *words: said.append(" ".join(map(str, words)))
        for block in blocks:
            exec(block.replace("http://127.0.0.1:8080", URL), names)
        self.assertEqual(said, ["used"])
        name = names["order"] + "-ai"
        with budgetd.Client(URL) as client:
            self.assertEqual(client.find("sale", name)["confirmed"], 42)

    def test_ids(self):
        ids = [budgetd.new_request_id() for _ in range(100)]
        self.assertEqual(len(set(ids)), 100)
        self.assertRegex(ids[0], r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class Transport(unittest.TestCase):
    """What counts as sent, and how answers are framed."""

    def serve(self, *replies):
        """Starts a server that answers one request per reply, each reply on its own connection
        unless it is a list."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.connections = 0

        def serve():
            for reply in replies:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                self.connections += 1
                with connection:
                    for part in reply if isinstance(reply, list) else [reply]:
                        connection.recv(1 << 16)
                        if part is None:
                            time.sleep(1)
                        elif part:
                            connection.sendall(part)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def outcome(self, url, retry=ONE):
        """Returns what both clients make of a server, which must be the same."""
        try:
            with budgetd.Client(url, retry=retry) as client:
                return client.deduct("b", request_id="o1", amount=1)["state"]
        except budgetd.BudgetdError as error:
            return type(error)

    def outcome_async(self, url, retry=ONE):
        async def call():
            async with budgetd.AsyncClient(url, retry=retry) as client:
                return (await client.deduct("b", request_id="o1", amount=1))["state"]

        try:
            return asyncio.run(call())
        except budgetd.BudgetdError as error:
            return type(error)

    def test_framing(self):
        body = b'{"outcome":"accepted","state":"used"}'
        head = b"HTTP/1.1 200 OK\r\n"
        chunks = b"5;x=1\r\n" + body[:5] + b"\r\n20\r\n" + body[5:] + b"\r\n0\r\n\r\n"
        for name, reply, want in (
            ("length", head + b"Content-Length: %d\r\n\r\n" % len(body) + body, "used"),
            ("chunks", head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, "used"),
            ("to the end", head + b"\r\n" + body, "used"),
            ("after a 100", b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n" + body, "used"),
            ("lost", b"", budgetd.Unknown),
            ("cut", head + b"Content-Length: 1000\r\n\r\n" + body, budgetd.Unknown),
            ("cut in a chunk", head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks[:30], budgetd.Unknown),
            ("too slow", None, budgetd.Unknown),
            ("another protocol", b"SSH-2.0-OpenSSH\r\n\r\n", budgetd.Unknown),
        ):
            with self.subTest(name):
                self.assertEqual(self.outcome(self.serve(reply)), want)
                self.assertEqual(self.outcome_async(self.serve(reply)), want)

    def test_a_heartbeat_after_the_end_is_not_lost(self):
        beating, ended = threading.Event(), threading.Event()

        def transport(send):
            op = send.target.rpartition("/")[2]
            if op == "extend":
                beating.set()
                ended.wait(10)
                return budgetd.Answer(409, {}, b'{"code":"not_held","status":409}')
            body = b'{"state":"held","outcome":"accepted","expires_in":0}'
            return budgetd.Answer(200, {}, body if op == "deduct" else b'{"state":"rolled_back"}')

        client = budgetd.Client("http://node", transport=transport)
        with client.hold("b", request_id="o1", amount=1, hold_ttl="1m") as hold:
            self.assertTrue(beating.wait(10))
        ended.set()
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer):
                timer.join(10)
        self.assertEqual((hold.done, hold.lost), ("rolled_back", None))

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.assertEqual(self.outcome(url), budgetd.NotNow)
        self.assertEqual(self.outcome_async(url), budgetd.NotNow)

    def test_connections_are_reused(self):
        body = b'{"outcome":"accepted","state":"used"}'
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        url = self.serve([reply, reply], [reply])
        with budgetd.Client(url, retry=ONE) as client:
            for n in range(3):
                client.deduct("b", request_id=f"o{n}", amount=1)
                time.sleep(0.05)  # the server has closed the connection after the second
        self.assertEqual(self.connections, 2)

    def test_addresses(self):
        for address in ("", "http://", "ftp://h", "http://h?x=1", "http://u:secret@h", "h,"):
            with self.subTest(address), self.assertRaises(ValueError) as error:
                budgetd.Client(address)
            self.assertNotIn("secret", str(error.exception))


if __name__ == "__main__":
    unittest.main()
