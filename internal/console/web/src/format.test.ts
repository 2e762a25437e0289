import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { ago, amount, compact, instant, rate, share, span, unitName, units } from './format'

test('figures are grouped, and what is not known is a dash', () => {
  equal(units(1234567), '1,234,567')
  equal(units(0), '0')
  equal(units(null), '–')
  equal(units(undefined), '–')
  equal(compact(4_000_000), '4M')
  equal(unitName('amount'), 'minor units')
  equal(unitName('count'), 'units')
  equal(unitName(undefined), 'units')
})

test('a share of nothing is a dash', () => {
  equal(share(1, 3), '33.3%')
  equal(share(0, 3), '0%')
  equal(share(3, 0), '–')
  equal(share(3, null), '–')
})

test('a rate is per second, minute or hour, whichever is one or more', () => {
  const cases: [number, string][] = [[0, '0/s'], [1, '1/s'], [1234.5, '1,230/s'], [0.5, '30/min'],
    [1 / 60, '1/min'], [1 / 61, '59/h'], [1 / 7200, '0.5/h']]
  for (const [perSecond, text] of cases) equal(rate(perSecond), text)
})

test('a span has at most two units', () => {
  const s = 1000, min = 60 * s, h = 60 * min, d = 24 * h
  const cases: [number, string][] = [[0, '0 s'], [59 * s, '59 s'], [min, '1 min'], [9 * min + 5 * s, '9 min 5 s'],
    [10 * min + 5 * s, '10 min'], [h, '1 h'], [47 * h + 59 * min, '47 h 59 min'], [48 * h, '2 d'],
    [9 * d + 3 * h, '9 d 3 h'], [10 * d + 3 * h, '10 d'], [-5 * s, '5 s']]
  for (const [ms, text] of cases) equal(span(ms), text)
})

test('an instant is before or after now', () => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  equal(ago('2026-03-01T11:58:00Z', now), '2 min ago')
  equal(ago('2026-03-01T13:00:00Z', now), 'in 1 h')
  equal(ago(undefined, now), '–')
})

test('an instant is shown in a zone, and an unknown zone hides nothing', () => {
  equal(instant('2026-07-01T12:00:00Z', 'Europe/Berlin'), '01 Jul 2026, 14:00:00 CEST')
  equal(instant('2026-07-01T12:00:00Z', 'Mars/Base').startsWith('01 Jul 2026, '), true)
  equal(instant('soon'), '–')
  equal(instant(null), '–')
})

test('an amount is digits, grouped with one separator or not at all', () => {
  const read: [string, number][] = [['1', 1], [' 1200 ', 1200], ['1,200', 1200], ["1'200'300", 1200300],
    ['1 200', 1200], ['1_200', 1200], ['9007199254740991', 9007199254740991]]
  for (const [text, n] of read) equal(amount(text), n, text)
  const refused = ['', '0', '-1', '1.5', '12,5', '1,20', '1,200_300', '1e3', '9007199254740992', '1'.repeat(40), 'x']
  for (const text of refused) equal(amount(text), null, text)
})
