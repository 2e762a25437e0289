// Plays the conversations of sdk/vectors.json on a clock of their own.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { BudgetdError, Client } from '../build/index.js'

const file = JSON.parse(readFileSync(new URL('../../vectors.json', import.meta.url), 'utf8'))

/** A clock that moves to the next timer when nothing else happens. */
class FakeClock {
  time = 0
  timers = []
  now() { return this.time }
  later(ms, what) {
    const timer = { at: this.time + ms, what }
    this.timers.push(timer)
    return () => { this.timers = this.timers.filter((one) => one !== timer) }
  }
  sleep(ms) { return new Promise((resolve) => this.later(ms, resolve)) }
  async run(promise, faults) {
    let over = false
    promise.finally(() => { over = true }).catch(() => {})
    while (true) {
      for (let i = 0; i < 2 && !over; i++) await new Promise(setImmediate)
      if (faults.length > 0) throw faults[0]
      if (over) return promise
      const next = this.timers.reduce((a, b) => (b.at < a.at ? b : a), { at: Infinity })
      assert.ok(next.what, 'the client waits for nothing')
      this.timers = this.timers.filter((one) => one !== next)
      this.time = Math.max(this.time, next.at)
      next.what()
    }
  }
}

/** A server that plays the exchanges of a vector, as a fetch. */
class Script {
  n = 0
  ended = 0
  sent = new Map()
  faults = []
  constructor(exchanges, clock) { Object.assign(this, { exchanges, clock }) }

  fetch = async (url, init) => {
    try {
      this.check(url, init)
    } catch (fault) {
      this.faults.push(fault)
      throw fault
    }
    const { reply, ends_ms: ends } = this.exchanges[this.n++]
    const began = this.clock.now()
    try {
      return await this.answer(reply, init.signal)
    } finally {
      this.ended = this.clock.now()
      if (ends && !within(ends, this.ended - began)) this.faults.push(new Error(`an attempt of ${this.ended - began} ms`))
    }
  }

  check(url, init) {
    const e = this.exchanges[this.n]
    assert.ok(e, `a request too many: ${init.method} ${url}`)
    const at = new URL(url)
    assert.equal(at.host, `node-${e.node ?? 0}`)
    const waited = this.clock.now() - this.ended
    if (e.wait_ms) assert.ok(within(e.wait_ms, waited), `request ${this.n} after ${waited} ms, want ${e.wait_ms}`)
    const want = typeof e.request === 'string' ? file.requests[e.request] : e.request
    assert.deepEqual([init.method, at.pathname], [want.method, want.path])
    assert.deepEqual(Object.fromEntries(at.searchParams), want.query ?? {})
    for (const [name, value] of Object.entries(want.headers ?? {})) assert.equal(init.headers[name], value)
    assert.deepEqual(init.body === undefined ? undefined : JSON.parse(init.body), want.body)
    const name = JSON.stringify(e.request)
    assert.equal(init.body, this.sent.has(name) ? this.sent.get(name) : init.body)
    this.sent.set(name, init.body)
  }

  async answer(reply, signal) {
    const failed = (code) => new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) })
    if (reply === 'lost') throw failed('ECONNRESET')
    if (reply === 'no_server') throw failed('ECONNREFUSED')
    if (reply === 'time_out') {
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    if (reply === 'cut') {
      let begun = false
      return new Response(new ReadableStream({ pull(stream) {
        if (begun) return stream.error(failed('UND_ERR_SOCKET'))
        begun = true
        stream.enqueue(new TextEncoder().encode('{"request_id":"o1","outcome":"accepted","state":"used"}'))
      } }))
    }
    const a = typeof reply === 'string' ? file.replies[reply] : reply
    if (a.after_ms) {
      await Promise.race([this.clock.sleep(a.after_ms),
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))])
    }
    return new Response(a.body === undefined ? a.text : JSON.stringify(a.body), { status: a.status, headers: a.headers })
  }
}

const within = ([least, most], took) => took > least - 1e-6 && took < most + 1e-6

class BodyFailed extends Error {}

async function scope(client, clock, v, bounds) {
  const { budget, request, steps } = v.call
  let end = () => ({})
  const body = async () => {
    const h = await client.hold(budget, request, bounds)
    end = () => ({ done: h.done, ...(h.lost ? { lost: h.lost.code } : {}) })
    let failed
    try { // what `await using` does
      for (const step of steps) {
        const [word, n, more] = step.split(' ')
        if (word === 'fail') throw new BodyFailed()
        else if (word === 'work') await clock.sleep(Number(n))
        else if (word === 'renew') await h.renew(Number(n), Number(more))
        else await h[word](n === undefined ? undefined : Number(n))
      }
    } catch (error) {
      failed = error
    }
    try {
      await h[Symbol.asyncDispose]()
    } catch (error) {
      failed ??= error
    }
    if (failed) throw failed
  }
  try {
    await body()
  } catch (error) {
    if (error instanceof BodyFailed) return { ...end(), raised: true }
    throw error
  }
  return end()
}

const outcome = (r) => {
  assert.notEqual(r.answer === undefined, r.error === undefined)
  return r.error ? { error: failureOf(r.error) } : { answer: r.answer }
}

const failureOf = (e) => ({ kind: e.kind, code: e.code, status: e.status, cancelled: e.cancelled, never: e.never,
  available: e.available, limit: e.limit, request_id: e.requestId, retry_after_ms: Math.round(e.retryAfter), says: e.message })

async function ask(client, clock, v) {
  const { op, budget, request } = v.call
  const bounds = v.deadline_ms === undefined ? undefined : { timeout: v.deadline_ms }
  const pages = []
  try {
    if (op === 'scope') return await scope(client, clock, v, bounds)
    if (op === 'batch' || op === 'check') return { results: (await client[op](request, bounds)).map(outcome) }
    if (op === 'find') return { answer: await client.find(budget, request.request_id, request.key, bounds) }
    const { wait_ms: wait, ...from } = request
    if (op === 'feed') return { answer: await client.feed(budget, { ...from, wait }, bounds) }
    if (op === 'follow') for await (const page of client.follow(budget, { ...from, wait })) pages.push(page.next)
    if (op.endsWith('_set')) return { answer: await client[op.replace('_set', 'Set')](request, bounds) }
    return { answer: await client[op](budget, request, bounds) }
  } catch (error) {
    if (!(error instanceof BudgetdError)) throw error
    return { error: failureOf(error), ...(op === 'follow' ? { pages } : {}) }
  }
}

/** Checks that a result has what is wanted. */
function has(got, want, at) {
  if (Array.isArray(want)) {
    assert.equal(got?.length, want.length, at)
    want.forEach((one, i) => has(got[i], one, `${at}[${i}]`))
  } else if (typeof want === 'object' && want !== null) {
    for (const [name, value] of Object.entries(want)) {
      if (name === 'says') for (const text of value) assert.ok(got.says.includes(text), `${got.says} does not say ${text}`)
      else has(got?.[name], value, `${at}.${name}`)
    }
  } else {
    assert.equal(got, want, at)
  }
}

for (const v of file.vectors) {
  test(v.name, async () => {
    const s = { ...file.settings, ...v.client }
    const clock = new FakeClock()
    const script = new Script(v.exchanges, clock)
    const servers = Array.from({ length: s.nodes ?? 1 }, (_, n) => `node-${n}`).join(',')
    const client = new Client(servers, { tenant: s.tenant ?? '', key: s.key ?? '', cancelWithin: s.cancel_within_ms ?? 0,
      fetch: script.fetch, clock, retry: { attempts: s.attempts ?? undefined, base: s.base_ms ?? undefined,
        max: s.max_ms ?? undefined, attemptTimeout: s.attempt_timeout_ms ?? undefined } })
    const got = await clock.run(ask(client, clock, v), script.faults)
    if (v.took_ms) assert.ok(within(v.took_ms, clock.now()), `the call took ${clock.now()} ms`)
    assert.equal(script.n, v.exchanges.length, `not all requests came: ${JSON.stringify(got)}`)
    assert.deepEqual(Object.keys(got).sort(), Object.keys(v.result).sort())
    has(got, v.result, 'result')
  })
}
