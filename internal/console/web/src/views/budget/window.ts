// The window of a limit, in words.
import type { Limit } from '../../types'

export function windowOf(l: Limit): string {
  const w = l.window
  if (w.kind === 'calendar') return `each ${w.every} (${w.timezone || 'UTC'})`
  if (w.kind === 'lifetime') return 'ever'
  return `${w.kind === 'sliding' ? 'in any' : 'from the first, for'} ${w.length}`
}
