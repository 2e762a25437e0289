// What keeps a budget from serving, over its page.
import { ago, instant, share, unitName, units } from '../../format'
import { served, unserved } from '../../serving'
import type { Budget } from '../../types'

/** The stores that do not answer, what the budget has there, and what that costs. */
function lost(b: Budget): string {
  const { stores, unreachable = 0, unreachable_units = 0, online } = b.buckets
  if (!stores?.length) return ''
  const one = stores.length === 1
  return `${stores.join(' and ')} ${one ? 'does' : 'do'} not answer: ${units(unreachable)} of ${units(online)} ` +
    `online buckets with ${units(unreachable_units)} ${unitName(b.unit)} are out of reach, and with them about ${
      share(unreachable, online)} of the calls. They wait there; nothing of them is lost yet.`
}

/** Why else it does not serve. */
function short(b: Budget): string {
  switch (b.serving) {
    case 'period_exhausted': return `This period is used up, and every call is refused${
      b.until ? ` until ${instant(b.until, b.timezone)}, which is ${ago(b.until)}` : ''}.`
    case 'budget_exhausted': return 'It is used up, and every call is refused. Append to it, or let it end.'
  }
  return ''
}

export function Band({ b }: { b: Budget }) {
  const part = unserved(b)
  const texts = [lost(b), short(b)].filter(Boolean)
  if (part > 0 && (texts.length || served(b).tone !== 'good')) {
    texts.push(`In the last minute this node refused ${share(part, 1)} of its calls for a cause that is not the caller’s.`)
  }
  return texts.length ? <div class="failure band" role="status">{texts.map((t) => <p key={t}>{t}</p>)}</div> : null
}
