// The gate in front of a model: units are held before a call, and settled when it ends.
import { NotNow, Refused, Unknown, newRequestId } from 'budgetd'

/** The answer is no. Its message is for the user. */
export class Closed extends Error {
  constructor(refusal) {
    const soon = refusal.retryAfter > 0 ? ` Try again in ${Math.ceil(refusal.retryAfter / 1000)} s.` : ''
    super(`The budget does not allow this call (${refusal.code}).${soon}`, { cause: refusal })
    this.name = 'Closed'
  }
}

/** A gate for one budget. estimate(params) is the most units that a call may use; cost(usage) is what
 * it did use, or undefined if the usage does not say. ttl is longer than the longest call: a hold that
 * nobody settles ends then by itself. */
export class Gate {
  constructor(client, budget, { estimate, cost, ttl = '10m', dimensions, unsettled = console.error }) {
    Object.assign(this, { client, budget, estimate, cost, ttl, dimensions, unsettled })
  }

  /** Holds the estimate of a call, or throws Closed. Other errors mean that the call must not be made
   * either; what may be held after an Unknown ends by itself. */
  async open(params) {
    const request_id = newRequestId()
    const amount = this.estimate(params)
    try {
      const { dimensions } = this
      await this.client.deduct(this.budget, {
        request_id, amount, hold_ttl: this.ttl, above: 'available', ...(dimensions ? { dimensions } : {}),
      })
    } catch (error) {
      if (error instanceof Refused) throw new Closed(error)
      throw error
    }
    return new Pass(this, request_id)
  }
}

/** What is held for one call. Only the first end counts. */
class Pass {
  #ended = false

  constructor(gate, request_id) { Object.assign(this, { gate, request_id }) }

  /** The call ended, or was aborted. Without a known usage it costs the estimate. */
  async used(usage) {
    const amount = usage === undefined ? undefined : this.gate.cost(usage)
    if (amount === 0) return this.free()
    await this.#end(() => this.gate.client.confirm(this.gate.budget,
      { request_id: this.request_id, ...(amount > 0 ? { amount } : {}) }), amount)
  }

  /** Nothing was used. */
  async free() {
    await this.#end(() => this.gate.client.rollback(this.gate.budget, { request_id: this.request_id }), 0)
  }

  /** The call failed. A status says that the provider refused it; anything else may have been charged. */
  async failed(error) {
    const status = error?.statusCode ?? error?.status
    if (typeof status === 'number' && status >= 400) await this.free()
    else await this.used(undefined)
  }

  // The client repeats. What stays open is told, and does not break the call of the user.
  async #end(settle, amount) {
    if (this.#ended) return
    this.#ended = true
    try {
      await settle()
    } catch (error) {
      const repeat = error instanceof NotNow || error instanceof Unknown
      this.gate.unsettled({ budget: this.gate.budget, request_id: this.request_id, amount, repeat, error })
    }
  }
}
