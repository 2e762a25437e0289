import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Instance, Overview } from '../types'
import { verdict } from './verdict'

const store = (health: Instance['health']): Instance => ({ name: 'r1', health, draining: false, partitions: [] })

function overview(books: Partial<Overview['books']> = {}, more: Partial<Overview> = {}): Overview {
  return { troubles: [], ready: true, reasons: [], instances: [store('up'), store('up')], outcomes: [], next: [], refused: [],
    books: { budgets: {}, serving: {}, discrepancies: 0, gap: 0, halted: 0, quarantined: 0, ...books }, ...more }
}

test('the verdict', () => {
  const cases: [string, Overview, string, string][] = [
    ['nothing is wrong', overview(), 'good', 'all is well'],
    ['the database does not serve', overview({}, { ready: false }), 'bad', 'look here'],
    ['units differ', overview({ gap: 3, discrepancies: 1 }), 'bad', 'look here'],
    ['a discrepancy without a difference', overview({ discrepancies: 1 }), 'bad', 'look here'],
    ['a bucket is halted', overview({ halted: 1 }), 'bad', 'look here'],
    ['units are in quarantine', overview({ quarantined: 5 }), 'warn', 'look here'],
    ['a budget cannot serve for a store', overview({ serving: { full: 3, store_down: 1 } }), 'bad', 'look here'],
    ['budgets are used up', overview({ serving: { budget_exhausted: 2 } }), 'good', 'all is well'],
    ['a store is down', overview({}, { instances: [store('up'), store('down')] }), 'warn', 'look here'],
    ['the worst of several', overview({ quarantined: 5, halted: 1 }), 'bad', 'look here'],
  ]
  for (const [name, o, tone, text] of cases) {
    const got = verdict(o)
    equal(`${got.tone}: ${got.text}`, `${tone}: ${text}`, name)
  }
})

test('the verdict is never better than the alerts', () => {
  const alert = (threshold: string) => ({ id: 1, state: 'firing' as const, tenant: 'shop', budget: 'sale', threshold,
    total: 10, spent: 9, left: 1, fired_at: '2026-03-01T12:00:00Z' })
  equal(verdict(overview(), [alert('used_share/total/80')]).tone, 'warn')
  equal(verdict(overview(), [alert('exhausted/total')]).tone, 'bad')
  equal(verdict(overview({ halted: 1 }), [alert('used_share/total/80')]).tone, 'bad')
  deepEqual(verdict(overview(), [alert('used_share/total/80')]).lines.at(-1),
    ['Alerts', 'Much of the total is spent: 1', 'warn'])
})

test('each line of the verdict says what it looked at', () => {
  const { lines } = verdict(overview({ gap: 1200, discrepancies: 2, halted: 3, quarantined: 4,
    serving: { store_down: 2, period_exhausted: 1, full: 9 } },
    { ready: false, instances: [store('up'), store('down')] }))
  deepEqual(lines, [
    ['Conservation', '1,200 units differ', 'bad', '2 discrepancies: look at the audit of the budgets'],
    ['Database', 'does not serve', 'bad'], ['Instances', '1 of 2 down', 'bad'],
    ['Halted buckets', '3', 'bad'], ['Quarantined', 'units of 4 budgets', 'warn'],
    ['Cannot serve', '3 budgets, 2 for a store', 'bad'], ['Alerts', 'none fires', 'good'],
  ])
})
