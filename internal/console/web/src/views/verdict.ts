// Whether the installation is well, in words.
import { units } from '../format'
import type { Tone } from '../tone'
import type { Overview } from '../types'

/** What was looked at, how it is, and what to do about it. */
export type Line = [name: string, text: string, tone: Tone, advice?: string]

/** Says how the installation is: bad if it does not serve or does not know where every unit is, a
 * warning if a store is down or units are in quarantine. */
export function verdict(o: Overview): { tone: Tone; text: string; lines: Line[] } {
  const b = o.books
  const whole = b.discrepancies === 0 && b.gap === 0
  const down = o.instances.filter((i) => i.health !== 'up').length
  const lines: Line[] = [
    ['Conservation', whole ? 'every unit is accounted for' : `${units(b.gap)} units differ`,
      whole ? 'good' : 'bad',
      whole ? undefined : `${units(b.discrepancies)} discrepancies: look at the audit of the budgets`],
    ['Database', o.ready ? 'answers' : 'does not serve', o.ready ? 'good' : 'bad'],
    ['Instances', down ? `${down} of ${o.instances.length} down` : `${o.instances.length} up`,
      down ? 'bad' : 'good'],
    ['Halted buckets', units(b.halted), b.halted ? 'bad' : 'good'],
    ['Quarantined', `${units(b.quarantined)} units`, b.quarantined ? 'warn' : 'good'],
  ]
  const tone = !o.ready || !whole || b.halted ? 'bad' : down || b.quarantined ? 'warn' : 'good'
  return { tone, text: tone === 'good' ? 'all is well' : 'look here', lines }
}
