// What the API answers, as far as the page uses it. Quantities are minor units.
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
  held: number
  used: number
  in_transit: number
  quarantined: number
  forfeited: number
  period?: { number: number; start?: string; end?: string; total: number; used: number }
  buckets: { online: number; offline: number }
  limits: Limit[]
}

export interface BudgetPage {
  budgets: Budget[]
  total?: number
  ranked_at?: string
  next_page_token?: string
}

export interface Bucket {
  key: string
  ordinal: number
  status: 'online' | 'offline'
  offline_by?: string
  instance: string
  lane: number
  epoch: number
  epoch_status?: string
  remaining: number
  out_quantity: number
  out_cnt: number
  outstanding: number
  held: number
  used: number
  returning: number
  fenced?: string
  updated_at?: string
}

export interface Lane {
  lane: number
  activation: number
  reachable: boolean
  buckets?: number
  problem?: string
}

export interface Instance {
  name: string
  driver?: string
  health: 'up' | 'down'
  draining: boolean
  lanes: Lane[]
}

/** What is left of a budget, wherever it lies. */
export const left = (b: Budget): number | null =>
  b.remaining == null || b.undistributed == null ? null
    : b.remaining + b.undistributed + b.in_transit
