// The order of the squares that stand for buckets, and what their colour says.
import { storeOf, type Bucket } from '../../types'

/** Buckets by store, and by number within a store. */
export const inOrder = (buckets: Bucket[]): Bucket[] => buckets.toSorted((x, y) =>
  (storeOf(x.home) < storeOf(y.home) ? -1 : storeOf(x.home) > storeOf(y.home) ? 1 : x.ordinal - y.ordinal))

/** What is wrong with a bucket, the worst first; '' if it serves. */
export const stateOf = (k: Bucket): 'halted' | 'unreachable' | 'offline' | 'quarantined' | '' =>
  (k.halted ? 'halted' : k.problem ? 'unreachable' : k.status === 'offline' ? 'offline'
    : k.epoch_status === 'lost' ? 'quarantined' : '')

/** The state of a bucket in words. */
export const wordOf = (k: Bucket): string =>
  (k.halted ? 'halted' : k.problem ? 'out of reach' : k.status)

/** What counts as full: the largest remainder but for a few outliers, at least 1. */
export function fullOf(remainders: number[]): number {
  const sorted = remainders.toSorted((a, b) => a - b)
  return Math.max(sorted[Math.floor(0.95 * (sorted.length - 1))] ?? 1, 1)
}

/** The place to which a key moves the focus among n squares; undefined for any other key. */
export function moved(at: number, key: string, n: number): number | undefined {
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: n - 1 }[key]
  return to === undefined ? undefined : Math.min(Math.max(to, 0), n - 1)
}
