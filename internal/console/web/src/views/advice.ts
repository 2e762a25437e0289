// What to do about a refusal.
import { instant, span } from '../format'
import type { Refusal } from '../types'

/** Says in a sentence what a person can do about a refusal. */
export function advice(r: Refusal): string {
  const p = r.problem
  const later = p.retry_after ? new Date(Date.parse(r.at) + p.retry_after * 1000).toISOString() : ''
  const when = later ? `${instant(later)} (${span(p.retry_after! * 1000)} after the refusal)` : ''
  if (p.never) {
    return p.code === 'limit_exceeded'
      ? 'It can never be accepted as things are: ask for less, or raise the limit.'
      : 'It can never be accepted as things are: ask for less, or append to the budget.'
  }
  switch (p.code) {
    case 'budget_exhausted': return 'Append to the budget, or ask for at most what it has.'
    case 'period_exhausted': return `The next period that can have that much begins at ${when}.`
    case 'limit_exceeded': return when ? `Try again at ${when}, or raise the limit.` : 'Raise the limit.'
    case 'budget_paused': return 'An operator paused it; resume it on its page.'
    case 'budget_expired': return 'It has ended; an administrator can give it a later end.'
    case 'budget_not_effective': return `It begins at ${instant(p.start_at)}.`
    case 'unavailable': return 'Nothing was done. Repeat it with the same request id.'
    case 'outcome_unknown': return 'It may have happened. Repeat it with the same request id, or cancel it.'
  }
  return when ? `Try again at ${when}.` : 'See the detail.'
}
