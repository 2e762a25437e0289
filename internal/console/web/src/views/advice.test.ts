import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { instant } from '../format'
import type { Refusal } from '../types'
import { advice } from './advice'

type Problem = Refusal['problem']

const refusal = (problem: Partial<Problem>): Refusal => ({ at: '2026-03-01T12:00:00Z', tenant: 'shop',
  budget: 'sale', request_id: 'r', amount: 1,
  problem: { type: '', title: 'Refused', status: 409, code: 'internal', docs: '', ...problem } })

const another = 'another' as Problem['code'] // of a later server

test('the advice for a refusal', () => {
  const later = `${instant('2026-03-01T12:02:00Z')} (2 min after the refusal)`
  const cases: [Partial<Problem>, string][] = [
    [{ code: 'budget_exhausted' }, 'Append to the budget, or ask for at most what it has.'],
    [{ code: 'budget_exhausted', never: true },
      'It can never be accepted as things are: ask for less, or append to the budget.'],
    [{ code: 'limit_exceeded', never: true, retry_after: 120 },
      'It can never be accepted as things are: ask for less, or raise the limit.'],
    [{ code: 'limit_exceeded', retry_after: 120 }, `Try again at ${later}, or raise the limit.`],
    [{ code: 'limit_exceeded' }, 'Raise the limit.'],
    [{ code: 'period_exhausted', retry_after: 120 },
      `The next period that can have that much begins at ${later}.`],
    [{ code: 'unavailable', retry_after: 120 }, 'Nothing was done. Repeat it with the same request id.'],
    [{ code: 'outcome_unknown' },
      'It may have happened. Repeat it with the same request id, or cancel it.'],
    [{ code: another, retry_after: 120 }, `Try again at ${later}.`],
    [{ code: another }, 'See the detail.'],
  ]
  for (const [problem, text] of cases) equal(advice(refusal(problem)), text, problem.code)
})
