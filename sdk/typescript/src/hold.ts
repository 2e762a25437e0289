// A hold around a block of code.
import type { components } from './api.js'
import type { Client } from './client.js'
import { BudgetdError, Conflict, NotNow, Unknown } from './errors.js'

type Schemas = components['schemas']

/** A hold that settles itself. Left without a confirm it is rolled back, or, after dispatched(),
 * confirmed with the estimate. A heartbeat extends it at a third of its time. */
export class Hold {
  /** How it ended: "lost" if it was over before. */
  done: '' | 'confirmed' | 'rolled_back' | 'lost' = ''
  /** Why the heartbeat found that the hold is over, if it was not settled after all. */
  lost: BudgetdError | undefined
  #dispatched = false
  #tried: { op: 'confirm' | 'rollback'; amount: number | undefined } | undefined // may have happened
  #stop = () => {}
  #ended = false
  #step = 0 // the last one of the stream that is known to be done
  #lasts: number // the milliseconds that it lasts after the latest answer

  constructor(
    private readonly client: Client, readonly budget: string,
    private readonly request: Schemas['DeductRequest'] & { hold_ttl: string },
    readonly answer: Schemas['DeductAnswer'], private readonly timeout?: number,
  ) {
    this.#lasts = milliseconds(request.hold_ttl)
    this.#learn(answer)
    this.#next()
  }

  /** Notes that the work has begun, so that an end without a confirm uses the estimate. */
  dispatched(): void { this.#dispatched = true }

  /** Uses what is held, or a part of it, and gives the rest back. */
  confirm(amount?: number): Promise<Schemas['Settlement']> { return this.#end('confirm', amount) }

  /** Makes the next step of a stream: `used` of what is held becomes used, and `hold` is held from now
   * on. After an unknown outcome repeat it with the same amounts. The work counts as dispatched. */
  async renew(used: number, hold: number): Promise<Schemas['Renewal']> {
    this.#dispatched = true
    const request = { ...this.#named(), step: this.#step + 1, used, hold, hold_ttl: this.request.hold_ttl }
    const answer = await this.client.renew(this.budget, request, { timeout: this.timeout })
    this.#step = answer.step
    this.#learn(answer)
    return answer
  }

  /** Gives everything back. */
  rollback(): Promise<Schemas['Settlement']> { return this.#end('rollback', undefined) }

  /** Settles the hold if that is not done yet. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#close()
    if (this.done !== '') return
    const last = this.#tried ?? { op: this.#dispatched ? 'confirm' as const : 'rollback' as const, amount: undefined }
    await this.#end(last.op, last.amount)
  }

  async #end(op: 'confirm' | 'rollback', amount: number | undefined): Promise<Schemas['Settlement']> {
    try {
      const request = { ...this.#named(), ...(amount === undefined ? {} : { amount }) }
      const answer = await this.client[op](this.budget, request, { timeout: this.timeout })
      this.done = op === 'confirm' ? 'confirmed' : 'rolled_back'
      this.#close()
      this.lost = undefined // what a heartbeat found was this end
      return answer
    } catch (error) {
      if (error instanceof Conflict) this.done = 'lost'
      this.#tried = error instanceof NotNow || error instanceof Unknown ? { op, amount } : undefined
      throw error
    }
  }

  #named(): { request_id: string; receipt?: string } {
    const { receipt } = this.answer
    return { request_id: this.request.request_id, ...(receipt ? { receipt } : {}) }
  }

  /** Notes how long the hold lasts from an answer on. */
  #learn(answer: { expires_in?: number }): void {
    if (answer.expires_in !== undefined) this.#lasts = answer.expires_in * 1000
  }

  /** The milliseconds between two heartbeats: a third of what is left. */
  #period(): number { return Math.max(shortestBeat, this.#lasts / 3) }

  #next(): void { this.#stop = this.client.clock.later(this.#period(), () => void this.#beat()) }

  #close(): void {
    this.#ended = true
    this.#stop()
  }

  async #beat(): Promise<void> {
    try {
      this.#learn(await this.client.extend(this.budget, { ...this.#named(), hold_ttl: this.request.hold_ttl },
        { timeout: this.#period() }))
    } catch (error) {
      if (!(error instanceof NotNow || error instanceof Unknown)) {
        if (!this.#ended) this.lost = error as BudgetdError
        return
      }
    }
    if (!this.#ended) this.#next()
  }
}

/** The fewest milliseconds between two heartbeats. */
const shortestBeat = 50

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, 'µs': 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 }

/** Returns the milliseconds of a duration such as "15m" or "1h30m". */
function milliseconds(text: string): number {
  let total = 0
  for (const [, number, unit] of text.matchAll(/([0-9.]+)([a-zµ]+)/g)) total += Number(number) * (units[unit!] ?? 0)
  return total
}
