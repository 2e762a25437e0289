// The answers of the API as far as the page uses them. Quantities are in minor units.
import type { Unit } from './format'

export interface Identity {
  principal: string
  role: 'read' | 'deduct' | 'rollback' | 'operator' | 'admin'
  tenant?: string
  budgets?: string[]
  key_id?: string
  expires_at?: string
}

export interface Limit {
  name: string
  dimension: string
  max: number
  measure: 'amount' | 'count'
  enforce?: boolean
  window: { kind: string; every?: string; timezone?: string; length?: string; slot?: string }
  overrides?: unknown[]
}

export interface Budget {
  id: number
  tenant: string
  name: string
  gl_code?: string
  unit: Unit
  durability: 'ledger' | 'store'
  type: 'promo' | 'daily'
  type_rule?: Record<string, unknown>
  timezone?: string
  unlimited?: boolean
  start_at?: string
  end_at?: string
  effective_at?: string
  next_reset_at?: string
  created_at?: string
  status: 'pending' | 'effective' | 'paused' | 'expired'
  version: number
  bucket_quantity: number
  sharding_quantity?: number
  total_quantity: number | null
  out_quantity: number | null
  undistributed: number | null
  not_funded: number | null
  pending_shrink?: number
  remaining: number | null
  in_buckets: number | null
  held: number
  used: number
  in_transit: number
  quarantined: number
  forfeited: number
  period?: { number: number; start?: string; end?: string; total: number; used: number }
  buckets: { online: number; offline: number }
  limits: Limit[]
  exhausted_at?: string
  refusals?: number
}

export interface BudgetPage {
  budgets: Budget[]
  total?: number
  ranked_at?: string
  next_page_token?: string
}

/** Where a bucket's balance is: SQL, or a partition of a store. */
export type Home = 'sql' | { instance: string; partition: number }

/** The store of a home, and the whole home, as people name them. */
export const storeOf = (h: Home): string => (h === 'sql' ? 'SQL' : h.instance)
export const homeName = (h: Home): string => (h === 'sql' ? 'SQL' : `${h.instance}/${h.partition}`)

export interface Bucket {
  key: string
  ordinal: number
  status: 'online' | 'offline'
  offline_by?: string
  home: Home
  epoch: number
  epoch_status?: string
  remaining: number
  out_quantity: number
  out_cnt: number
  outstanding: number
  held: number
  used: number
  returning: number
  halted?: string
  updated_at?: string
}

export interface Partition {
  partition: number
  incarnation: number
  reachable: boolean
  buckets?: number
  problem?: string
  role?: string
  at_risk?: number
  began_at?: string
  cause?: string
}

export interface Instance {
  name: string
  driver?: string
  health: 'up' | 'down'
  draining: boolean
  partitions: Partition[]
}

/** What is left of a budget, wherever it lies. */
export const left = (b: Budget): number | null =>
  b.in_buckets == null || b.undistributed == null ? null
    : b.in_buckets + b.undistributed + b.in_transit

export interface Standing {
  tenant: string
  name: string
  unit: Unit
  total_quantity: number
  left: number
  held: number
  used: number
  rate_per_s: number
  exhausted_at?: string
  refusals?: Record<string, number>
}

export interface Overview {
  ready: boolean
  reasons: string[]
  books: { checked_at?: string; budgets: Record<string, number>; exhausted: number
    discrepancies: number; gap: number; halted: number; quarantined: number }
  instances: Instance[]
  outcomes: { at: string; accepted: number; refused: number; limited: number; failed: number
    faulty: number }[]
  next: Standing[]
  refused: Standing[]
}

export interface Refusal {
  at: string
  tenant: string
  budget: string
  request_id: string
  amount: number
  key?: string
  dimensions?: Record<string, string>
  hold?: boolean
  reference?: string
  routing_key?: string
  bucket?: string
  home?: Home
  problem: {
    title: string; code: string; detail?: string; available?: number; never?: boolean
    retry_after?: number; start_at?: string; reason?: string
    limit?: string; dimension?: string; value?: string; used?: number; max?: number
    reset_at?: string; limits?: LimitState[]
  }
}

export interface LimitState {
  name: string
  dimension: string
  value: string
  used: number
  max?: number
  exempt?: boolean
  asked?: number
  reset_at?: string
}

export interface NearestValues {
  values: LimitState[]
  read: number
  complete: boolean
}

export interface Point {
  at: string
  total: number
  undistributed: number
  released: number
  used: number
  held: number
  in_buckets: number
  in_transit: number
  stranded: number
}

export interface Series {
  from: string
  to: string
  step_s: number
  points: Point[]
  now: Point
  rate_per_s: number
  exhausted_at: string | null
  projection: 'exhausted' | 'projected' | 'not_before_end' | 'not_for_years' | 'not_used' | 'not_known'
}

export interface Audit {
  ok: boolean
  total: number
  undistributed: number
  not_funded: number
  in_transit: number
  in_buckets: number
  held: number
  used: number
  quarantined: number
  forfeited: number
  at_risk: number
  discrepancies: Record<string, unknown>[]
  unchecked?: string[]
}

export interface Entry {
  kind: string
  bucket: string
  entry: number
  request_id: string
  amount: number
  held: boolean
  dimensions?: Record<string, string>
  reference?: string
  at: string
}

export interface Recycle {
  run: number
  status: string
  cause: string
  buckets: number
  moved: number
  units_before: number
  stranded_before: number
  stranded_after: number
  began_at: string
  ended_at?: string
}

export interface Hold {
  request_id: string
  group?: string
  amount: number
  bucket: string
  held_at: string
  hold_until: string
}
