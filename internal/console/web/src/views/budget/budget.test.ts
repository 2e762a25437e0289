import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Bucket, Budget, Home, Limit, Point, Series } from '../../types'
import { curve, outlook } from './projection'
import { fullOf, inOrder, moved, stateOf } from './squares'
import { nameOf, read, words } from './threshold'
import { newer } from './versions'
import { windowOf } from './window'

const budget = (more: Partial<Budget>) => ({ id: 1, version: 1, timezone: 'UTC', ...more }) as Budget

test('the later version of a budget is shown, and another budget always', () => {
  const old = budget({ version: 5 }), late = budget({ version: 4 }), next = budget({ version: 6 })
  const other = budget({ id: 2, version: 1 })
  equal(newer(undefined, late), late)
  equal(newer(old, late), old)
  equal(newer(old, next), next)
  equal(newer(old, other), other)
})

const bucket = (key: string, ordinal: number, home: Home, more: Partial<Bucket> = {}) =>
  ({ key, ordinal, home, status: 'online', ...more }) as Bucket

test('buckets are in the order of their stores and numbers', () => {
  const r1 = { instance: 'r1', partition: 0 }, r2 = { instance: 'r2', partition: 3 }
  const list = [bucket('d', 10, r2), bucket('c', 2, r2), bucket('b', 9, r1), bucket('a', 7, 'sql')]
  equal(inOrder(list).map((k) => k.key).join(''), 'abcd')
  equal(list[0].key, 'd', 'the list itself stays')
})

test('a square shows the worst of its bucket', () => {
  const all = { halted: 'why', status: 'offline', epoch_status: 'lost' } as const
  equal(stateOf(bucket('a', 1, 'sql', all)), 'halted')
  equal(stateOf(bucket('a', 1, 'sql', { ...all, halted: undefined })), 'offline')
  equal(stateOf(bucket('a', 1, 'sql', { epoch_status: 'lost' })), 'quarantined')
  equal(stateOf(bucket('a', 1, 'sql')), '')
})

test('the window of a limit', () => {
  const cases: [Limit['window'], string][] = [
    [{ kind: 'calendar', every: 'day' }, 'each day (UTC)'],
    [{ kind: 'calendar', every: 'week', timezone: 'Europe/Berlin' }, 'each week (Europe/Berlin)'],
    [{ kind: 'lifetime' }, 'ever'], [{ kind: 'sliding', length: '1h' }, 'in any 1h'],
    [{ kind: 'first_hit', length: '24h' }, 'from the first, for 24h']]
  for (const [window, text] of cases) equal(windowOf({ window } as Limit), text)
})

test('a threshold has a name and words, and is read from what a person chose', () => {
  const t = { kind: 'used_share', of: 'limit', limit: 'per-user', value: 'u7', percent: 80 }
  equal(nameOf(t), 'used_share/limit/per-user/u7/80')
  equal(words(t), '80 % of what u7 may take within per-user is used or held')
  deepEqual(read({ what: 'used_share/limit/per-user', value: ' u7 ', percent: '80' }), t)
  deepEqual(read({ what: 'exhausted/period', value: '', percent: '' }), { kind: 'exhausted', of: 'period' })
  equal(words({ kind: 'exhausted', of: 'period' }), 'nothing of the period is left')
  equal(read({ what: 'used_share/limit/per-user', value: ' ', percent: '80' }), 'Type whose use is watched.')
  for (const percent of ['', '0', '101', '1.5']) {
    equal(read({ what: 'stranded_share', value: '', percent }), 'Type a percentage: 1 to 100.')
  }
})

const point = (at: string, left: number, used: number): Point => ({ at, total: 100, undistributed: left, not_funded: 0,
  released: 90, used, held: 1, remaining: left, in_buckets: 0, in_transit: 0, stranded: 0, quarantined: 0, forfeited: 0 })

const series = (more: Partial<Series>): Series => ({ from: '1970-01-01T00:01:00Z', to: '1970-01-01T00:02:00Z', step_s: 60,
  points: [point('1970-01-01T00:01:00Z', 50, 49)], now: point('1970-01-01T00:02:00Z', 40, 59), rate_per_s: 0.5,
  exhausted_at: null, projection: 'not_known', ...more })

test('the chart has a point per sample and now', () => {
  deepEqual(curve(series({})), [[60, 120], [[50, 40], [90, 90], [50, 60], [null, null]]])
})

test('the chart begins with the span, although the samples begin later', () => {
  deepEqual(curve(series({ from: '1970-01-01T00:00:30Z' })),
    [[30, 60, 120], [[null, 50, 40], [null, 90, 90], [null, 50, 60], [null, null, null]]])
})

test('the projection goes on from now until nothing is left, or for half the span', () => {
  const [x, rows] = curve(series({ exhausted_at: '1970-01-01T00:03:20Z' }))
  deepEqual([x, rows[3]], [[60, 120, 200], [null, 40, 0]])
  deepEqual(rows[0], [50, 40, null])
  const far = curve(series({ exhausted_at: '1970-01-02T00:00:00Z', rate_per_s: 0.1 }))
  deepEqual([far[0], far[1][3]], [[60, 120, 210], [null, 40, 31]])
})

test('nothing of an unlimited budget is left or runs out', () => {
  const now = { ...point('1970-01-01T00:02:00Z', 0, 59), total: null, undistributed: null, not_funded: null,
    released: null, remaining: null, in_buckets: null }
  const s = series({ points: [], now, projection: 'unlimited', from: '1970-01-01T00:02:00Z' })
  deepEqual(curve(s), [[120], [[null], [null], [60], [null]]])
  equal(outlook(s, budget({})), 'It is unlimited: nothing of it runs out.')
})

test('the outlook', () => {
  const b = budget({ end_at: '2026-07-01T12:00:00Z' })
  equal(outlook(series({ projection: 'exhausted' }), b), 'Nothing is left.')
  equal(outlook(series({ projection: 'not_before_end' }), b),
    'At 30/min it lasts until its end, 01 Jul 2026, 12:00:00 UTC.')
})

test('a few outliers do not make the other squares look empty', () => {
  equal(fullOf([...Array(252).fill(10), 5000, 5000, 5000, 5000]), 10)
  equal(fullOf([3, 7, 7]), 7)
  equal(fullOf([0, 0]), 1)
  equal(fullOf([]), 1)
})

test('arrows move the focus among squares, and not beyond them', () => {
  const cases: [number, string, number | undefined][] = [[0, 'ArrowRight', 1], [0, 'ArrowLeft', 0], [3, 'ArrowDown', 3],
    [3, 'ArrowUp', 2], [2, 'Home', 0], [1, 'End', 3], [1, 'Tab', undefined], [1, 'Enter', undefined]]
  for (const [at, key, to] of cases) equal(moved(at, key, 4), to)
})
