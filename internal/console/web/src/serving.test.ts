import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { served, unserved } from './serving'
import type { Budget } from './types'

type Calls = NonNullable<Budget['calls']>

test('how a budget serves', () => {
  const calls = (accepted: number, refused: number, unserved: number): Calls => ({ accepted, refused, unserved })
  const cases: [Budget['serving'], Calls | undefined, string][] = [
    ['full', undefined, 'good: serves'], ['full', calls(95, 0, 5), 'good: serves'],
    ['full', calls(94, 0, 6), 'bad: serves, refuses 6%'], ['full', calls(0, 100, 0), 'good: serves'],
    ['partly', calls(2, 0, 1), 'warn: serves partly, refuses 33.3%'],
    ['period_exhausted', undefined, 'bad: period used up'], ['budget_exhausted', undefined, 'bad: used up'],
    ['store_down', undefined, 'bad: store down'], ['paused', undefined, 'warn: paused'],
    ['pending', undefined, ': pending'], ['expired', calls(0, 0, 3), 'bad: expired, refuses 100%'],
  ]
  for (const [serving, calls, want] of cases) {
    const got = served({ serving, calls, buckets: { online: 1, offline: 1, unreachable: 1 } })
    equal(`${got.tone}: ${got.text}`, want)
  }
  equal(served({ serving: 'partly', calls: undefined, buckets: { online: 1, offline: 1 } }).tone, '')
  equal(unserved({ calls: undefined }), 0)
})
