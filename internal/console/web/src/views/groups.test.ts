import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { crossed, grouped, toneOf, type Alert } from './groups'

let id = 0
const alert = (budget: string, threshold: string, spent = 0, total = 100): Alert => ({ id: ++id, state: 'firing',
  tenant: 'shop', budget, threshold, total, spent, left: total - spent, fired_at: '2026-03-01T12:00:00Z' })

test('alerts are grouped by cause, the worst first, each budget once', () => {
  const groups = grouped([alert('a', 'used_share/total/80', 96), alert('a', 'used_share/total/95', 96),
    alert('b', 'used_share/total/80', 81), alert('c', 'exhausted/total', 100), alert('d', 'quarantine'),
    alert('e', 'used_share/limit/per-day/u-7/80', 8, 10), alert('f', 'later_kind')])
  deepEqual(groups.map((g) => `${g.cause}: ${g.alerts.map((a) => `${a.budget} ${a.threshold}`).join(', ')}`), [
    'quarantine: d quarantine', 'exhausted/total: c exhausted/total',
    'used_share/total: a used_share/total/95, b used_share/total/80',
    'used_share/limit: e used_share/limit/per-day/u-7/80', 'other: f later_kind'])
  equal(groups.map((g) => toneOf(g.cause)).join(), 'bad,bad,warn,warn,warn')
})

test('the figure that crossed', () => {
  equal(crossed(alert('a', 'used_share/total/95', 960, 1000)), '96% spent: 960 of 1,000')
  equal(crossed(alert('a', 'exhausted/total', 1000, 1000)), '0 left of 1,000')
  equal(crossed(alert('a', 'quarantine')), '')
})
