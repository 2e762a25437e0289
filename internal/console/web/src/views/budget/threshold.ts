// A threshold of a budget: its name, what it watches, and how a person's choice is read.
import { amount } from '../../format'

export interface Threshold { kind: string; of?: string; percent?: number; limit?: string; value?: string }

/** The name of a threshold, as alerts and budgetctl have it. */
export const nameOf = (t: Threshold) => [t.kind, t.of, t.limit, t.value, t.percent]
  .filter((part) => part !== undefined && part !== '').join('/')

/** What a threshold watches, in words. */
export function words(t: Threshold): string {
  const of = t.of === 'period' ? 'the period' : 'the total'
  switch (t.kind) {
    case 'used_share': return t.of === 'limit'
      ? `${t.percent} % of what ${t.value} may take within ${t.limit} is used or held`
      : `${t.percent} % of ${of} is used or held`
    case 'exhausted': return `nothing of ${of} is left`
    case 'projected': return `at the present rate, ${of} runs out before its end`
    case 'stranded_share': return `${t.percent} % of the total cannot be reached`
    case 'quarantine': return 'units of a lost store are in quarantine'
  }
  return t.kind
}

/** Reads what a person chose, or says what is missing. */
export function read(v: Record<string, string>): Threshold | string {
  const [kind, of, limit] = v.what.split('/')
  const t: Threshold = { kind }
  if (of) t.of = of
  if (limit) {
    t.limit = limit
    t.value = v.value.trim()
    if (!t.value) return 'Type whose use is watched.'
  }
  if (shared(v)) {
    const percent = amount(v.percent)
    if (percent === null || percent > 100) return 'Type a percentage: 1 to 100.'
    t.percent = percent
  }
  return t
}

/** Whether the choice watches a share, which needs a percentage. */
export const shared = (v: Record<string, string>) => /share/.test(v.what)
