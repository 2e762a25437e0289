"""Makes the calls of `budgetctl drill --caller`: a call per line of stdin, its result on stdout.

    budgetctl drill --short --caller 'PYTHONPATH=sdk/python python3 sdk/python/examples/caller.py'
"""

import json
import os
import sys

import budgetd

with budgetd.Client(os.environ["BUDGETD_URL"]) as client:
    for line in sys.stdin:
        call = json.loads(line)
        make = {"deduct": client.deduct, "cancel": client.cancel}[call["op"]]
        try:
            result = {"answer": make(call["budget"], **call["request"])}
        except budgetd.BudgetdError as error:
            result = {"error": {"kind": error.kind, "code": error.code,
                                "cancelled": error.cancelled, "message": str(error)}}
        print(json.dumps(result), flush=True)
