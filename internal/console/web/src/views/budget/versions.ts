// Which of two versions of a budget is shown.
import type { Budget } from '../../types'

/** Takes what a change answered: the next change is of that version. */
export type Took = (now: Budget) => void

/** The later of two versions of a budget: an event may be older than the answer to a change. */
export function newer(old: Budget | undefined, now: Budget): Budget {
  return old?.id === now.id && old.version > now.version ? old : now
}
