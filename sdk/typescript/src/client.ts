// The client: when it repeats, waits, cancels and gives up.
import type { components } from './api.js'
import { BudgetdError, Conflict, Faulty, NotNow, ofProblem, Unknown } from './errors.js'
import { Hold } from './hold.js'
import { attempt, NoAnswer, pause, realClock, type Clock } from './http.js'

type Schemas = components['schemas']

/** The bounds of repeats; times are in milliseconds. Without attempts a call repeats as long as
 * another attempt begins within `within` of the first, by default 10 s. Before attempt n+1 it waits
 * for Retry-After and a random time up to min(max, base * 2 ** (n - 1)). */
export interface Retry {
  attempts?: number | undefined
  within?: number | undefined
  base?: number | undefined
  max?: number | undefined
  attemptTimeout?: number | undefined
}

export interface Options {
  tenant?: string
  /** The API key, or what returns it before each attempt. */
  key?: string | (() => string | Promise<string>)
  retry?: Retry
  /** A deduct whose outcome stays unknown is cancelled within so many milliseconds. */
  cancelWithin?: number
  /** Another fetch, for TLS settings of its own or for tests. */
  fetch?: typeof globalThis.fetch
  clock?: Clock
}

/** What bounds a whole call: milliseconds, a signal, or both. */
export interface Bounds { timeout?: number | undefined; signal?: AbortSignal | undefined }

/** The result of one item: exactly one of them is set. */
export interface Result<A> { answer?: A; error?: BudgetdError }

/** Until when a call goes on. */
interface Until { deadline: number; signal?: AbortSignal | undefined }

/** A call, ready to be sent any number of times. */
interface What {
  op: string
  path: string[]
  body?: unknown
  query?: Record<string, string>
  requestId: string
  read?: boolean
  longer?: number
  /** Whether an answer is about the request; a proxy may have made another one. */
  good(answer: any): boolean
  /** The call that makes certain that this one has no effect. */
  cancel?: What
}

const maxRetryAfter = 30_000
const maxWait = 30_000
/** The milliseconds in which an aborted hold is cancelled. */
const settleTimeout = 10_000

/** Calls budgetd. servers is a base URL, or several of equal nodes with commas. Make one client per
 * service. Errors are Refused, Conflict, NotNow, Unknown and Faulty. */
export class Client {
  readonly #addresses: string[]
  readonly #options: Options
  readonly #retry: { attempts: number; within: number; base: number; max: number; attemptTimeout: number }
  readonly clock: Clock
  #failed = 0 // counts attempts without a usable answer, and selects the address

  constructor(servers: string, options: Options = {}) {
    this.#addresses = servers.split(',').map((one) => baseOf(one.trim()))
    this.#options = options
    this.clock = options.clock ?? realClock
    const { attempts, within, base, max, attemptTimeout } = options.retry ?? {}
    this.#retry = { attempts: attempts || 1000, within: within || (attempts ? Infinity : 10_000),
      base: base || 50, max: max || 1000, attemptTimeout: attemptTimeout || 10_000 }
  }

  /** Takes units from a budget, at most once per request id. */
  deduct(budget: string, request: Schemas['DeductRequest'], bounds?: Bounds): Promise<Schemas['DeductAnswer']> {
    return this.#run(this.#deduct(budget, request), this.#until(bounds))
  }

  /** Makes a hold and returns it as a scope: `await using h = await client.hold(...)`. If it is
   * aborted, it cancels the hold that may have been made. */
  async hold(
    budget: string, request: Schemas['DeductRequest'] & { hold_ttl: string }, bounds?: Bounds,
  ): Promise<Hold> {
    if (!request.hold_ttl) throw new Faulty('deduct', 'deduct: a hold needs a hold_ttl')
    try {
      return new Hold(this, budget, request, await this.deduct(budget, request, bounds), bounds?.timeout)
    } catch (error) {
      const { cancel } = this.#deduct(budget, request)
      if (bounds?.signal?.aborted && error instanceof Unknown && cancel) {
        await this.#run(cancel, this.#until({ timeout: settleTimeout })).catch(failure)
      }
      throw error
    }
  }

  /** Makes up to 1,000 deductions, each by itself. */
  async batch(items: Schemas['BatchItem'][], bounds?: Bounds): Promise<Result<Schemas['DeductAnswer']>[]> {
    const until = this.#until(bounds)
    const calls = items.map((item) => this.#deduct(item.budget, item))
    const results: Result<any>[] = items.map(() => ({}))
    const unanswered = items.map(() => false)
    const began = this.clock.now()
    let open = items.map((_, i) => i)
    let answered = false
    for (let n = 1; open.length > 0; n++) {
      const what: What = { op: 'batch', path: ['v1', 'deductions:batch'], requestId: '',
        body: { deductions: open.map((i) => items[i]) }, good: complete(open.length) }
      let texts: unknown[] = []
      let whole: BudgetdError | undefined
      try {
        texts = (await this.#attempt(what, until)).results
        answered = true
      } catch (error) {
        whole = failure(error)
        if (!undecided(whole) && !answered && !unanswered.includes(true)) throw whole
      }
      const settling = this.#settling(until)
      const still: number[] = []
      for (const [at, i] of open.entries()) {
        const result: Result<any> = whole ? { error: whole } : item(calls[i]!, texts[at])
        if (result.error && undecided(result.error)) {
          unanswered[i] ||= result.error instanceof Unknown
          still.push(i)
        } else if (result.error) {
          result.error = await this.#certain(calls[i]!, settling, unanswered[i]!, result.error)
        }
        results[i] = result
      }
      open = still
      if (open.length === 0) break
      const first = results[open[0]!]!.error!
      if (await this.#waits(n, began, until, first)) continue
      if (!answered && !unanswered.includes(true)) throw first
      const last = this.#settling(until)
      for (const i of open.filter((i) => unanswered[i])) {
        results[i] = { error: await this.#givenUp(calls[i]!, last, results[i]!.error!) }
      }
      break
    }
    return results
  }

  /** Tells which deductions would be accepted now. */
  async check(items: Schemas['CheckItem'][], bounds?: Bounds): Promise<Result<Schemas['DeductAnswer']>[]> {
    if (items.length === 0) return []
    const what: What = { op: 'check', path: ['v1', 'checks'], body: { checks: items }, requestId: '', read: true,
      good: isObject }
    const answer = await this.#run(what, this.#until(bounds))
    if (!complete(items.length)(answer)) throw new NotNow('check', 'check: the answer has another number of results')
    return answer.results.map((one: unknown) => item(what, one))
  }

  /** Uses what is held, or a part of it, and gives the rest back. */
  confirm(budget: string, request: Schemas['ConfirmRequest'], bounds?: Bounds): Promise<Schemas['Settlement']> {
    return this.#run(this.#settle('confirm', budget, request), this.#until(bounds))
  }

  /** Holds for longer, from now on. */
  extend(budget: string, request: Schemas['ExtendRequest'], bounds?: Bounds): Promise<Schemas['Settlement']> {
    return this.#run(this.#settle('extend', budget, request), this.#until(bounds))
  }

  /** Makes one step of a stream: `used` of what is held becomes used, and `hold` is held from now on. */
  renew(budget: string, request: Schemas['RenewRequest'], bounds?: Bounds): Promise<Schemas['Renewal']> {
    const what = this.#settle('renew', budget, { ...request })
    return this.#run({ ...what, good: about(request.request_id, 'step') }, this.#until(bounds))
  }

  /** Takes units from several budgets, all or none, at most once per request id of the tenant. */
  deductSet(request: Schemas['SetRequest'], bounds?: Bounds): Promise<Schemas['SetAnswer']> {
    const what = this.#onSet('', request, 'outcome')
    if (request.dry_run) what.read = true
    else what.cancel = this.#onSet('cancel', { request_id: request.request_id })
    return this.#run(what, this.#until(bounds))
  }

  /** Uses what a set holds, or the parts of `amounts`, and gives the rest back. */
  confirmSet(request: Schemas['SetConfirm'], bounds?: Bounds): Promise<Schemas['Set']> {
    return this.#run(this.#onSet('confirm', request), this.#until(bounds))
  }

  /** Holds a set for longer, from now on. */
  extendSet(request: Schemas['SetExtend'], bounds?: Bounds): Promise<Schemas['Set']> {
    return this.#run(this.#onSet('extend', request), this.#until(bounds))
  }

  /** Gives units of a set back. */
  rollbackSet(request: Schemas['SetRollback'], bounds?: Bounds): Promise<Schemas['Set']> {
    return this.#run(this.#onSet('rollback', request), this.#until(bounds))
  }

  /** Makes certain that the request id of a set has no effect. */
  cancelSet(request: Schemas['SetCancel'], bounds?: Bounds): Promise<Schemas['Set']> {
    return this.#run(this.#onSet('cancel', request), this.#until(bounds))
  }

  /** Gives units back. */
  rollback(budget: string, request: Schemas['RollbackRequest'], bounds?: Bounds): Promise<Schemas['Settlement']> {
    return this.#run(this.#settle('rollback', budget, request), this.#until(bounds))
  }

  /** Makes certain that a request id has no effect. */
  cancel(budget: string, request: Schemas['CancelRequest'], bounds?: Bounds): Promise<Schemas['Deduction']> {
    return this.#run(this.#settle('cancel', budget, request), this.#until(bounds))
  }

  /** Returns what is recorded of a request id. */
  find(budget: string, requestId: string, key = '', bounds?: Bounds): Promise<Schemas['Deduction']> {
    return this.#run({ op: 'find', path: ['v1', 'budgets', budget, 'deductions'], requestId, read: true,
      query: { request_id: requestId, key }, good: about(requestId, 'state') }, this.#until(bounds))
  }

  /** Returns a page of the feed; its `next` is the cursor of the page after it. wait is in
   * milliseconds. */
  feed(
    budget: string, from: { after?: string; limit?: number; wait?: number } = {}, bounds?: Bounds,
  ): Promise<Schemas['FeedPage']> {
    const longer = Math.min(from.wait ?? 0, maxWait)
    const query: Record<string, string> = {}
    if (from.after) query['after'] = from.after
    if (from.limit) query['limit'] = String(from.limit)
    if (longer > 0) query['wait'] = `${longer / 1000}s`
    return this.#run({ op: 'feed', path: ['v1', 'budgets', budget, 'ledger'], requestId: '', read: true, longer,
      query, good: (a) => isObject(a) && Array.isArray(a['entries']) }, this.#until(bounds))
  }

  /** Yields the pages of the feed until the signal, and throws final errors only. */
  async *follow(
    budget: string, from: { after?: string; limit?: number; wait?: number } = {}, signal?: AbortSignal,
  ): AsyncGenerator<Schemas['FeedPage']> {
    const wait = Math.min(from.wait || 20_000, maxWait)
    let after = from.after ?? ''
    for (let idle = 0; !signal?.aborted;) {
      const began = this.clock.now()
      let asked = 0
      try {
        const page = await this.feed(budget, { ...from, after, wait }, { signal })
        after = page.next
        if (page.entries.length > 0) {
          idle = 0
          yield page
          continue
        }
        if (this.clock.now() - began >= wait / 2) continue // the server has waited already
      } catch (error) {
        const cause = failure(error)
        if (signal?.aborted) return
        if (!undecided(cause) || cause.code === 'internal') throw cause
        asked = Math.min(cause.retryAfter, maxRetryAfter)
      }
      idle++
      await pause(this.clock, Math.max(asked, Math.random() * this.#ceiling(idle)), signal)
    }
  }

  #deduct(budget: string, request: Schemas['DeductRequest']): What {
    const id = request.request_id
    const what: What = { op: 'deduct', path: ['v1', 'budgets', budget, 'deduct'], body: request, requestId: id,
      read: request.dry_run ?? false, good: about(id, 'outcome') }
    if (!what.read) {
      what.cancel = this.#settle('cancel', budget,
        { request_id: id, key: request.key ?? '', dimensions: request.dimensions ?? {} })
    }
    return what
  }

  #settle(op: string, budget: string, request: { request_id?: string; group?: string; [more: string]: unknown }): What {
    const id = request.request_id ?? ''
    const group = request.group ?? ''
    return { op, path: ['v1', 'budgets', budget, op], body: request, requestId: id || group,
      good: id ? about(id, 'state') : aboutGroup(group) }
  }

  #onSet(verb: string, request: { request_id: string }, member = 'state'): What {
    return { op: verb ? `${verb} set` : 'deduct set', path: ['v1', 'deductions', ...(verb ? [verb] : [])],
      body: request, requestId: request.request_id, good: about(request.request_id, member) }
  }

  #until(bounds: Bounds = {}): Until {
    return { deadline: bounds.timeout === undefined ? Infinity : this.clock.now() + bounds.timeout,
      signal: bounds.signal }
  }

  /** Returns until when a call is settled: in its own time, if cancelWithin grants some. */
  #settling(until: Until): Until {
    const within = this.#options.cancelWithin
    return within ? { deadline: this.clock.now() + within } : until
  }

  async #run(what: What, until: Until): Promise<any> {
    const began = this.clock.now()
    let unanswered = false
    for (let n = 1; ; n++) {
      try {
        return await this.#attempt(what, until)
      } catch (error) {
        const last = failure(error)
        if (!undecided(last)) throw await this.#certain(what, this.#settling(until), unanswered, last)
        unanswered ||= last instanceof Unknown
        if (await this.#waits(n, began, until, last)) continue
        throw unanswered ? await this.#givenUp(what, this.#settling(until), last) : last
      }
    }
  }

  /** Sends a call once and returns its answer. */
  async #attempt(what: What, until: Until): Promise<any> {
    const at = this.#failed
    const address = this.#addresses[at % this.#addresses.length]!
    const ms = Math.min(this.#retry.attemptTimeout + (what.longer ?? 0), until.deadline - this.clock.now())
    const { target, init } = await this.#request(what)
    try {
      const answer = await attempt(this.#options.fetch ?? globalThis.fetch, this.clock, address + target, init, ms,
        until.signal)
      if (answer.status < 200 || answer.status > 299) {
        throw ofProblem(what.op, answer.body, answer.status, what.read ?? false, answer.headers)
      }
      if (!what.good(answer.body)) throw new NoAnswer('the answer is not about this request', true)
      return answer.body
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error
      if (this.#failed === at) this.#failed = at + 1 // another attempt goes to the next address
      if (!error.sent) throw new NotNow(what.op, `${what.op}: nothing was sent to ${address}: ${error.message}`)
      const Type = what.read ? NotNow : Unknown
      throw new Type(what.op, `${what.op}: no usable answer from ${address}: ${error.message}`,
        { requestId: what.requestId })
    }
  }

  async #request(what: What): Promise<{ target: string; init: RequestInit }> {
    if (what.path.some((part) => part === '' || part === '.' || part === '..')) {
      throw new Faulty(what.op, `${what.op}: ${what.path.join('/')} names no budget`)
    }
    const query = new URLSearchParams(what.query)
    if (this.#options.tenant) query.set('tenant', this.#options.tenant)
    const path = what.path.map((part) => encodeURIComponent(part).replaceAll('%3A', ':')).join('/')
    const headers: Record<string, string> = { Accept: 'application/json, application/problem+json' }
    const { key } = this.#options
    const token = typeof key === 'function' ? await key() : key
    if (token && !/^[!-~]+$/.test(token)) {
      throw new Faulty(what.op, `${what.op}: the key has a character that no key has`)
    }
    if (token) headers['Authorization'] = `Bearer ${token}`
    const init: RequestInit = { method: what.body === undefined ? 'GET' : 'POST', headers }
    if (what.body !== undefined) {
      headers['Content-Type'] = 'application/json'
      init.body = JSON.stringify(what.body)
    }
    return { target: `/${path}${query.size > 0 ? `?${query}` : ''}`, init }
  }

  /** Waits before attempt n+1, and returns whether to make it. */
  async #waits(n: number, began: number, until: Until, cause: BudgetdError): Promise<boolean> {
    const r = this.#retry
    if (n >= r.attempts || cause.retryAfter > maxRetryAfter) return false
    const wait = cause.retryAfter + Math.random() * this.#ceiling(n)
    const now = this.clock.now()
    if (now + wait >= until.deadline || now - began + wait >= r.within) return false
    return pause(this.clock, wait, until.signal)
  }

  #ceiling(n: number): number { return Math.min(this.#retry.max, this.#retry.base * 2 ** (n - 1)) }

  /** Returns what a final answer means for the call as a whole. A refusal says only that its own
   * attempt did nothing. After one without an answer the id is cancelled. If a cancel finds the same
   * fault in the request, no server accepts the id. */
  async #certain(what: What, until: Until, unanswered: boolean, final: BudgetdError): Promise<BudgetdError> {
    if (!unanswered || final instanceof Conflict) return final
    if (!what.cancel) return unknown(what, final)
    try {
      await this.#run(what.cancel, until)
    } catch (error) {
      const faults = ['malformed', 'invalid', 'too_large', 'unsupported_media_type']
      return faults.includes(final.code) && faults.includes(failure(error).code) ? final : unknown(what, final)
    }
    return final.asCancelled()
  }

  /** Returns the error of a call whose attempts ended with one unanswered. */
  async #givenUp(what: What, until: Until, last: BudgetdError): Promise<BudgetdError> {
    if (!what.cancel || !this.#options.cancelWithin) return unknown(what, last)
    try {
      await this.#run(what.cancel, until)
    } catch (error) {
      failure(error)
      return unknown(what, last)
    }
    return new Conflict(what.op, `${what.op}: request_void: no attempt was answered in time`,
      { code: 'request_void', status: 409, cancelled: true, requestId: what.requestId })
  }
}

/** Returns the base URL of an address. */
function baseOf(address: string): string {
  if (address.includes('@')) {
    throw new TypeError('server address: must not have a user or password; the key is an option')
  }
  const whole = address.includes('://') ? address : `http://${address}`
  const url = URL.canParse(whole) ? new URL(whole) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || !url.host || url.search || url.hash) {
    throw new TypeError(`server address "${address}": must look like http://host:port`)
  }
  return whole.replace(/\/+$/, '')
}

/** Returns the error of a call; anything else is a fault of the program and goes on. */
function failure(error: unknown): BudgetdError {
  if (error instanceof BudgetdError) return error
  throw error
}

function unknown(what: What, last: BudgetdError): Unknown {
  return new Unknown(what.op, `${what.op}: the outcome of "${what.requestId}" is unknown: ${last.message}`,
    { code: 'outcome_unknown', requestId: what.requestId })
}

/** Returns whether another attempt of the same call can help. */
function undecided(error: BudgetdError): boolean {
  return (error instanceof NotNow || error instanceof Unknown) && !error.never
}

function isObject(value: unknown): value is Record<string, any> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const complete = (n: number) => (a: unknown): boolean =>
  isObject(a) && Array.isArray(a['results']) && a['results'].length === n

const about = (id: string, member: string) => (a: unknown): boolean =>
  isObject(a) && Boolean(a[member]) && (!a['request_id'] || a['request_id'] === id)

const aboutGroup = (group: string) => (a: unknown): boolean =>
  isObject(a) && a['group'] === group && Array.isArray(a['deductions']) && a['deductions'].length > 0 &&
  a['deductions'].every((d: any) => Boolean(d?.state))

/** Reads the result of one item: an answer, which has an outcome, or a problem. */
function item(what: What, one: any): Result<any> {
  if (isObject(one) && one['outcome']) {
    if (what.op === 'check' || what.good(one)) return { answer: one }
  } else if (isObject(one) && one['code']) {
    const error = ofProblem(what.op, one, one['status'] ?? 0, what.read ?? false)
    if (what.op !== 'check') error.retryAfter = 1000 * Math.ceil(error.retryAfter / 1000)
    return { error }
  }
  const Type = what.read ? NotNow : Unknown
  return { error: new Type(what.op, `${what.op}: a result cannot be read`, { requestId: what.requestId }) }
}
