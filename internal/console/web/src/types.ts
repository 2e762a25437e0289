// The answers of the API that the page uses, generated from openapi.yaml, and those that only the page
// gets. Quantities are in minor units.
import type { components } from '../../../../sdk/typescript/src/api'
import { units, type Unit } from './format'

type Schemas = components['schemas']

export type Identity = Schemas['Identity']

export type Limit = Schemas['Limit']

export type Budget = Schemas['Budget']

export type BudgetPage = Schemas['BudgetPage']

/** Where a bucket's balance is: SQL, or a partition of a store. */
export type Home = Schemas['Home']

/** The store of a home, and the whole home, as people name them. */
export const storeOf = (h: Home): string => (typeof h === 'string' ? 'SQL' : h.instance)
export const homeName = (h: Home): string =>
  (typeof h === 'string' ? 'SQL' : `${h.instance}/${h.partition}`)

export type Bucket = Schemas['Bucket']

export type Partition = Schemas['Partition']

export type Instance = Schemas['Instance']

/** What deductions of a budget can take now, or could if some units came back. */
export const remaining = (b: Budget, back = 0): string =>
  b.unlimited ? 'unlimited'
    : units(b.opens_at || b.status !== 'effective' ? 0 : (b.remaining ?? 0) + back)

/** What is neither used nor held of a budget, in this period or a later one. */
export const unspent = (
  b: Pick<Budget, 'in_buckets' | 'undistributed' | 'not_funded' | 'in_transit'>,
): number | null =>
  b.in_buckets == null || b.undistributed == null || b.not_funded == null ? null
    : b.not_funded + b.undistributed + b.in_transit + b.in_buckets

export interface Summary {
  tenant: string
  name: string
  unit: Unit
  serving: Budget['serving']
  total_quantity: number | null
  remaining: number | null
  opens_at?: string
  held: number
  used: number
  rate_per_s: number
  exhausted_at?: string
  refusals?: Record<string, number>
}

/** What has one cause and needs a person. */
export interface Trouble {
  cause: 'store_down' | 'quarantined' | 'halted' | 'used_up' | 'period_used_up'
  instance?: string
  budgets: number
  buckets?: number
  unserved: number
  since: string
  worst: { tenant: string; name: string }[]
}

export interface Overview {
  troubles: Trouble[]
  ready: boolean
  reasons: string[]
  books: { checked_at?: string; budgets: Record<string, number>; serving: Record<string, number>
    discrepancies: number; gap: number; halted: number; quarantined: number }
  instances: Instance[]
  outcomes: { at: string; accepted: number; refused: number; limited: number; failed: number
    faulty: number }[]
  next: Summary[]
  refused: Summary[]
}

export type Refusal = Schemas['Refusal']

export type LimitState = Schemas['LimitState']

export type NearestValues = Schemas['Nearest']

export type Point = Schemas['SeriesPoint']

export type Series = Schemas['Series']

export type Audit = Schemas['AuditReport']

export type Entry = Schemas['FeedEntry']

export type Recycle = Schemas['Recycle']

export type Hold = Schemas['OpenHold']
