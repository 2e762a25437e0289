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
