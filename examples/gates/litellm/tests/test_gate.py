"""Runs the gate with a proxy that is not real, and a budgetd at BUDGETD_URL that is."""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "stubs"), str(HERE.parent), str(HERE.parents[3] / "sdk/python")]
import budgetd
import fastapi
from budget_gate import HELD, BudgetGate

URL = os.environ["BUDGETD_URL"]


class Provider(Exception):
    def __init__(self, status_code):
        super().__init__("the provider failed")
        if status_code:
            self.status_code = status_code


class Gates(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = await self.enterAsyncContext(budgetd.AsyncClient(URL))
        self.open = []
        self.gate = BudgetGate(
            self.client,
            "sale",
            estimate=lambda data: data["max_tokens"],
            cost=lambda kwargs, response: (response.get("usage") or {}).get("total_tokens"),
            unsettled=self.open.append,
        )

    async def call(self, end, **more):
        """Makes a call that ends so, and returns what is recorded of it."""
        data = {"model": "m", "max_tokens": 10, **more}
        data = await self.gate.async_pre_call_hook(None, None, data, "completion")
        request_id = data["metadata"][HELD]
        self.assertEqual((await self.client.find("sale", request_id))["state"], "held")
        if isinstance(end, Exception):
            await self.gate.async_post_call_failure_hook(data, end, None)
        else:
            params = {k: v for k, v in data.items() if k.endswith("metadata")}
            await self.gate.async_log_success_event({"litellm_params": params}, end, None, None)
        return await self.client.find("sale", request_id)

    async def test_used(self):
        for used in (4, 10, 13):  # below, at and above the estimate
            found = await self.call({"usage": {"total_tokens": used}})
            self.assertEqual((found["state"], found["confirmed"]), ("used", used))

    async def test_unknown_usage(self):
        found = await self.call({})
        self.assertEqual((found["state"], found["confirmed"]), ("used", 10))

    async def test_failures(self):
        self.assertEqual((await self.call(Provider(400)))["state"], "rolled_back")
        self.assertEqual((await self.call(Provider(None)))["state"], "used")

    async def test_own_metadata(self):
        mine = {"metadata": {"team": "t1", HELD: "mine"}, "litellm_metadata": None}
        found = await self.call({"usage": {"total_tokens": 1}}, **mine)
        self.assertNotEqual(found["request_id"], "mine")

    async def test_refused(self):
        other = await self.gate.async_pre_call_hook(None, None, {"max_tokens": 10}, "completion")
        failed = {"max_tokens": 10**6, "metadata": dict(other["metadata"])}
        with self.assertRaises(fastapi.HTTPException) as refused:
            await self.gate.async_pre_call_hook(None, None, failed, "completion")
        self.assertEqual(refused.exception.status_code, 429)
        self.assertIn("budget_exhausted", refused.exception.detail["error"])
        # The proxy tells the hook about this refusal too, with what the caller sent.
        await self.gate.async_post_call_failure_hook(failed, refused.exception, None)
        self.assertEqual((await self.client.find("sale", other["metadata"][HELD]))["state"], "held")

    async def test_budgetd_away(self):
        once = budgetd.Retry(attempts=1, attempt_timeout=0.3)
        async with budgetd.AsyncClient("http://127.0.0.1:1", retry=once) as away:
            self.gate.client, here = away, self.gate.client
            with self.assertRaises(fastapi.HTTPException) as closed:
                await self.call({})
            self.assertEqual(closed.exception.status_code, 503)
            self.gate.client = here
            data = await self.gate.async_pre_call_hook(None, None, {"max_tokens": 10}, "completion")
            self.gate.client = away
            await self.gate.async_log_success_event(
                {"litellm_params": {"metadata": data["metadata"]}}, {"usage": {"total_tokens": 7}}, None, None)
        [left] = self.open
        self.assertEqual((left["request_id"], left["amount"]), (data["metadata"][HELD], 7))


if __name__ == "__main__":
    unittest.main()
