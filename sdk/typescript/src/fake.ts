// A server for the tests of one's own code: budgets in memory, behind a fetch.
import type { components } from './api.js'

type Deduction = Omit<components['schemas']['Deduction'], 'replayed'>
type Entry = { kind: string; budget: string; bucket: string; entry: number; request_id: string; amount: number
  held: boolean }
type Body = Record<string, any>

/** Knows deduct, batch, check, confirm, extend, rollback, cancel, find and feed of promo budgets in
 * ledger mode, without limits; holds do not expire.
 *
 *     const server = new FakeServer({ sale: 100 })
 *     const client = new Client('http://fake', { fetch: server.fetch }) */
export class FakeServer {
  readonly deductions = new Map<string, Deduction>()
  readonly entries: Entry[] = []
  /** The status and code with which the next calls are answered, before they happen. */
  fails: [status: number, code: string][] = []

  constructor(readonly budgets: Record<string, number>) {}

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(String(input))
    const body: Body = init?.body ? JSON.parse(String(init.body)) : Object.fromEntries(url.searchParams)
    const answer = this.#answer(url.pathname.split('/').slice(2).map(decodeURIComponent), body)
    return new Response(JSON.stringify(answer), { status: answer['status'] ?? 200 })
  }

  #answer(path: string[], body: Body): Body {
    const fails = this.fails.shift()
    if (fails) return problem(...fails)
    const [first, budget = '', verb = ''] = path
    if (first === 'deductions:batch') {
      return { results: body['deductions'].map((one: Body) => this.#deduct(one['budget'], one)) }
    }
    if (first === 'checks') {
      return { results: body['checks'].map((one: Body) => this.#deduct(one['budget'], { ...one, dry_run: true })) }
    }
    if (!(budget in this.budgets)) return problem(404, 'budget_not_found')
    if (verb === 'deduct') return this.#deduct(budget, body)
    if (verb === 'ledger') {
      const entries = this.entries.slice(Number(body['after'] ?? 0)).filter((one) => one.budget === budget)
      return { entries, next: String(this.entries.length) }
    }
    const name = `${budget}/${body['request_id']}`
    let d = this.deductions.get(name)
    if (!d) {
      if (verb !== 'cancel') return problem(404, 'deduction_not_found')
      d = { request_id: body['request_id'], state: 'void', amount: 0, rolled_back: 0 }
      this.deductions.set(name, d)
    }
    return verb === 'deductions' ? d : this.#settle(budget, verb, d, body['amount'])
  }

  #deduct(budget: string, body: Body): Body {
    const left = this.budgets[budget]
    if (left === undefined) return problem(404, 'budget_not_found')
    const { request_id: id = '', amount } = body
    let d = this.deductions.get(`${budget}/${id}`)
    const replayed = d !== undefined
    if (d?.state === 'void') return problem(409, 'request_void')
    if (d?.state === 'rolled_back') return problem(409, 'already_rolled_back')
    if (d && d.amount !== amount) return problem(409, 'request_conflict')
    if (!d && amount > left) return problem(409, 'budget_exhausted', { available: left })
    if (body['dry_run']) return { outcome: 'would_be_accepted', amount, budget_remaining: left, limits: [] }
    if (!d) {
      this.budgets[budget] = left - amount
      d = { request_id: id, state: body['hold_ttl'] ? 'held' : 'used', amount, rolled_back: 0, bucket: 'fake' }
      this.deductions.set(`${budget}/${id}`, d)
      this.#note('deduct', budget, d, amount)
    }
    const remaining = this.budgets[budget]
    return { ...d, outcome: 'accepted', bucket_remaining: remaining, budget_remaining: remaining, limits: [],
      receipt: id, replayed }
  }

  #settle(budget: string, verb: string, d: Deduction, amount?: number): Body {
    const held = d.state === 'held'
    if (verb === 'extend') return held ? { ...d, replayed: false } : problem(409, 'not_held')
    if (verb === 'confirm') {
      if (d.state === 'used' && d.confirmed === (amount ?? d.amount)) return { ...d, replayed: true }
      if (!held) return problem(409, 'not_held')
      if ((amount ?? 0) > d.amount) return problem(409, 'amount_exceeds_remaining')
      d.confirmed = amount ?? d.amount
      d.state = 'used'
      this.#giveBack(budget, d, d.amount - d.confirmed)
      this.#note('confirm', budget, d, d.confirmed)
    } else if (held || d.state === 'used') {
      const left = d.amount - d.rolled_back
      const back = amount ?? left
      if (back > left) return problem(409, 'amount_exceeds_remaining')
      this.#giveBack(budget, d, back)
      if (back === left) d.state = 'rolled_back'
      this.#note('rollback', budget, d, back)
    }
    return { ...d, replayed: false }
  }

  #giveBack(budget: string, d: Deduction, amount: number): void {
    this.budgets[budget] = (this.budgets[budget] ?? 0) + amount
    d.rolled_back += amount
  }

  #note(kind: string, budget: string, d: Deduction, amount: number): void {
    this.entries.push({ kind, budget, bucket: 'fake', entry: this.entries.length + 1, request_id: d.request_id,
      amount, held: d.state === 'held' })
  }
}

function problem(status: number, code: string, more: Body = {}): Body {
  return { type: `urn:budgetd:problem:${code}`, title: code, status, code, ...more }
}
