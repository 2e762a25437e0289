import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Instance, Overview } from '../types'
import { verdict } from './verdict'

const store = (health: Instance['health']): Instance => ({ name: 'r1', health, draining: false, partitions: [] })

function overview(books: Partial<Overview['books']> = {}, more: Partial<Overview> = {}): Overview {
  return { ready: true, reasons: [], instances: [store('up'), store('up')], outcomes: [], next: [], refused: [],
    books: { budgets: {}, exhausted: 0, discrepancies: 0, gap: 0, halted: 0, quarantined: 0, ...books }, ...more }
}

test('the verdict', () => {
  const cases: [string, Overview, string, string][] = [
    ['nothing is wrong', overview(), 'good', 'all is well'],
    ['the database does not serve', overview({}, { ready: false }), 'bad', 'look here'],
    ['units differ', overview({ gap: 3, discrepancies: 1 }), 'bad', 'look here'],
    ['a discrepancy without a difference', overview({ discrepancies: 1 }), 'bad', 'look here'],
    ['a bucket is halted', overview({ halted: 1 }), 'bad', 'look here'],
    ['units are in quarantine', overview({ quarantined: 5 }), 'warn', 'look here'],
    ['a store is down', overview({}, { instances: [store('up'), store('down')] }), 'warn', 'look here'],
    ['the worst of several', overview({ quarantined: 5, halted: 1 }), 'bad', 'look here'],
  ]
  for (const [name, o, tone, text] of cases) {
    const got = verdict(o)
    equal(`${got.tone}: ${got.text}`, `${tone}: ${text}`, name)
  }
})

test('each line of the verdict says what it looked at', () => {
  const { lines } = verdict(overview({ gap: 1200, discrepancies: 2, halted: 3, quarantined: 4 },
    { ready: false, instances: [store('up'), store('down')] }))
  deepEqual(lines, [
    ['Conservation', '1,200 units differ', 'bad', '2 discrepancies: look at the audit of the budgets'],
    ['Database', 'does not serve', 'bad'], ['Instances', '1 of 2 down', 'bad'],
    ['Halted buckets', '3', 'bad'], ['Quarantined', '4 units', 'warn'],
  ])
})
