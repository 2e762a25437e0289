// Whether a budget serves, in words and as a tone.
import { ago, share } from './format'
import type { Tone } from './tone'
import type { Budget } from './types'

type Serving = Budget['serving']

const words: Record<Serving, [Tone, string]> = {
  full: ['good', 'serves'], partly: ['warn', 'serves partly'],
  period_exhausted: ['bad', 'period used up'], budget_exhausted: ['bad', 'used up'],
  store_down: ['bad', 'store down'], pending: ['', 'pending'], paused: ['warn', 'paused'], expired: ['', 'expired'],
}

/** The words of serving, and what they mean to a person. */
export const servingWords = Object.entries(words).map(([serving, [, text]]) => [serving, text] as const)

/** The part of its calls of the last minute that a budget did not serve, for a cause that is not the
 * caller's; 0 without calls. */
export function unserved(b: Pick<Budget, 'calls'>): number {
  const c = b.calls
  return c ? c.unserved / (c.accepted + c.refused + c.unserved) : 0
}

/** More than this part of the calls unserved is never shown as good. */
const tolerated = 0.05

/** How a budget serves now. */
export function served(b: Pick<Budget, 'serving' | 'calls' | 'buckets'>): { tone: Tone; text: string } {
  const [usual, text] = words[b.serving]
  // Buckets that were taken offline lack nobody: the others get their calls and their units.
  const tone = b.serving === 'partly' && !b.buckets.unreachable ? '' : usual
  const part = unserved(b)
  if (part <= tolerated) return { tone, text }
  return { tone: tone === 'good' || tone === '' ? 'bad' : tone, text: `${text}, refuses ${share(part, 1)}` }
}

/** When a budget serves again, as the end of a sentence. */
export const again = (b: Pick<Budget, 'until'>, now?: number): string =>
  (b.until ? `until ${ago(b.until, now)}` : '')
