"""A gate for LiteLLM's proxy: a call's estimate is held before it, and what it used is charged after."""

import logging
import math

import budgetd
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

HELD = "budgetd_hold"
"""The member of a call's metadata with the request id of its hold."""

log = logging.getLogger("budget_gate")


def _unsettled(left: dict) -> None:
    log.error("not settled: %s", left)


class BudgetGate(CustomLogger):
    """Keeps the calls of a proxy within a budget.

    estimate(data) is the most units that a call may use; cost(kwargs, response) is what it did use, or
    None if that is not known. ttl is longer than the longest call: a hold that nobody settles ends then
    by itself. unsettled is told what could not be settled.
    """

    def __init__(self, client, budget, estimate, cost, ttl="10m", unsettled=_unsettled):
        super().__init__()
        self.client, self.budget, self.ttl = client, budget, ttl
        self.estimate, self.cost, self.unsettled = estimate, cost, unsettled

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        """Holds the estimate before the model is called; a refusal is the answer to the caller."""
        # With an id of the caller's own, he could repeat a call that was paid for once, or settle the
        # hold of somebody else.
        request_id = budgetd.new_request_id()
        _note(data, None)
        try:
            await self.client.deduct(
                self.budget, request_id=request_id, amount=self.estimate(data), hold_ttl=self.ttl, above="available")
        except budgetd.Refused as refusal:
            headers = {"Retry-After": str(math.ceil(refusal.retry_after))} if refusal.retry_after else None
            detail = {"error": f"The budget does not allow this call ({refusal.code})."}
            raise HTTPException(status_code=429, detail=detail, headers=headers) from refusal
        except budgetd.BudgetdError as error:
            detail = {"error": "The budget cannot be asked. Try again later."}
            raise HTTPException(status_code=503, detail=detail) from error
        _note(data, request_id)
        return data

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        """Charges what the call used; of a stream, at its end."""
        params = kwargs.get("litellm_params") or {}
        await self._used(_held(params), self.cost(kwargs, response_obj))

    async def async_post_call_failure_hook(self, request_data, original_exception, user_api_key_dict, *_):
        """Charges a call that failed for good, after LiteLLM's own retries.

        A status says that the provider refused it, which costs nothing; anything else may have been
        charged, and costs the estimate.
        """
        status = getattr(original_exception, "status_code", None)
        refused = isinstance(status, int) and status >= 400
        await self._used(_held(request_data), 0 if refused else None)

    async def _used(self, request_id, amount):
        if request_id is None:  # the gate was closed
            return
        try:
            if amount == 0:
                await self.client.rollback(self.budget, request_id=request_id)
            elif amount is None:
                await self.client.confirm(self.budget, request_id=request_id)
            else:
                await self.client.confirm(self.budget, request_id=request_id, amount=amount)
        except budgetd.BudgetdError as error:
            self.unsettled({"budget": self.budget, "request_id": request_id, "amount": amount, "error": error})


def _note(data, request_id):
    for name in ("metadata", "litellm_metadata"):  # each route passes on one of them
        if name == "metadata" or name in data:
            data[name] = {**(data.get(name) or {}), HELD: request_id}


def _held(call):
    for name in ("metadata", "litellm_metadata"):
        if request_id := (call.get(name) or {}).get(HELD):
            return request_id
    return None
