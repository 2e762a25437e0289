// What needs a person, in words.
import type { Tone } from '../tone'
import type { Trouble } from '../types'

/** The words of a trouble, and the list of budgets where it is decided. */
export function titled(t: Pick<Trouble, 'cause' | 'instance'>):
  { title: string; tone: Tone; action: string; query: Record<string, string> } {
  const list = (trouble: string) => ({ sort: 'serving', trouble })
  switch (t.cause) {
    case 'store_down': return { title: `${t.instance} does not answer`, tone: 'bad',
      action: 'See the budgets that it hurts', query: list(`store_down:${t.instance}`) }
    case 'quarantined': return { title: 'Units in quarantine', tone: 'bad', action: 'Decide on them',
      query: list('quarantined') }
    case 'halted': return { title: 'Halted buckets', tone: 'bad', action: 'Audit and resume them',
      query: list('halted') }
    case 'used_up': return { title: 'Used up, and still asked', tone: 'warn', action: 'Append to them',
      query: list('used_up') }
    case 'period_used_up': return { title: 'Used up until the next period', tone: 'warn',
      action: 'See them', query: list('period_used_up') }
  }
}
