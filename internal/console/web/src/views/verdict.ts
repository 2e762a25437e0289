// Whether the installation is well, in words.
import { units } from '../format'
import type { Tone } from '../tone'
import type { Overview } from '../types'
import { grouped, toneOf, type Alert } from './groups'

/** What was looked at, how it is, and what to do about it. */
export type Line = [name: string, text: string, tone: Tone, advice?: string]

/** Says how the installation is: bad if it does not serve or does not know where every unit is, a
 * warning if a store is down or units are in quarantine; and never better than the alerts that fire. */
export function verdict(o: Overview, firing: Alert[] = []): { tone: Tone; text: string; lines: Line[] } {
  const b = o.books
  const whole = b.discrepancies === 0 && b.gap === 0
  const down = o.instances.filter((i) => i.health !== 'up').length
  const none = ['store_down', 'budget_exhausted', 'period_exhausted']
    .reduce((n, word) => n + (b.serving[word] ?? 0), 0)
  const groups = grouped(firing)
  const alerts = groups.some((g) => toneOf(g.cause) === 'bad') ? 'bad' : groups.length ? 'warn' : 'good'
  const lines: Line[] = [
    ['Conservation', whole ? 'every unit is accounted for' : `${units(b.gap)} units differ`,
      whole ? 'good' : 'bad',
      whole ? undefined : `${units(b.discrepancies)} discrepancies: look at the audit of the budgets`],
    ['Database', o.ready ? 'answers' : 'does not serve', o.ready ? 'good' : 'bad'],
    ['Instances', down ? `${down} of ${o.instances.length} down` : `${o.instances.length} up`,
      down ? 'bad' : 'good'],
    ['Halted buckets', units(b.halted), b.halted ? 'bad' : 'good'],
    ['Quarantined', `units of ${units(b.quarantined)} budgets`, b.quarantined ? 'warn' : 'good'],
    ['Cannot serve', b.serving.store_down ? `${units(none)} budgets, ${units(b.serving.store_down)} for a store`
      : `${units(none)} budgets`, b.serving.store_down ? 'bad' : none ? '' : 'good'],
    ['Alerts', groups.length ? groups.map((g) => `${g.title}: ${units(g.alerts.length)}`).join('; ') : 'none fires',
      alerts],
  ]
  const health: Tone = !o.ready || !whole || b.halted || b.serving.store_down ? 'bad'
    : down || b.quarantined ? 'warn' : 'good'
  const tone: Tone = [health, alerts].includes('bad') ? 'bad' : [health, alerts].includes('warn') ? 'warn' : 'good'
  return { tone, text: tone === 'good' ? 'all is well' : 'look here', lines }
}
