// The errors of a call, one type for each kind.
import type { components } from './api.js'
import { kinds } from './kinds.js'

export type Problem = components['schemas']['Problem']

/** What is known of a failed call. Its subclasses say what that means for the caller. */
export class BudgetdError extends Error {
  readonly kind: string = ''
  /** The stable name of the reason; empty if the answer was not budgetd's, or there was none. */
  code = ''
  status = 0
  /** What there is, in minor units. */
  available: number | undefined
  limit: string | undefined
  /** No repetition can help, as things are defined. */
  never = false
  /** In so many milliseconds it is worth while to repeat the call; 0 if unknown. */
  retryAfter = 0
  requestId = ''
  correlationId = ''
  /** An earlier attempt was unanswered, so the client cancelled the request id. */
  cancelled = false
  /** The whole problem document; empty if there was no answer. */
  problem: Partial<Problem> = {}

  constructor(readonly op: string, message: string, more: Partial<BudgetdError> = {}) {
    super(message)
    Object.assign(this, more)
    this.name = new.target.name
  }

  /** Returns a copy that is cancelled, because the items of a batch may share an error. */
  asCancelled(): BudgetdError {
    const text = this.message + ' (the request id was cancelled: try again with another)'
    const copy = new (this.constructor as typeof BudgetdError)(this.op, text)
    const { message: _, ...known } = this
    return Object.assign(copy, known, { cancelled: true })
  }
}

/** Understood, and the answer is no; nothing was changed. */
export class Refused extends BudgetdError { override readonly kind = 'refused' }
/** It contradicts what is recorded; nothing was changed. */
export class Conflict extends BudgetdError { override readonly kind = 'conflict' }
/** It certainly did not happen: not reachable, unavailable, or a failed read. Repeat it later. */
export class NotNow extends BudgetdError { override readonly kind = 'not_now' }
/** It may have happened. Repeat it with the same request id, or cancel that id. */
export class Unknown extends BudgetdError { override readonly kind = 'unknown' }
/** The request is wrong, or names something that does not exist. */
export class Faulty extends BudgetdError { override readonly kind = 'faulty' }

const types: Record<string, typeof Refused | typeof Conflict | typeof NotNow | typeof Unknown | typeof Faulty> =
  { refused: Refused, conflict: Conflict, not_now: NotNow, unknown: Unknown, faulty: Faulty }

/** Returns the error of an answer that is no success. */
export function ofProblem(
  op: string, body: unknown, status: number, read: boolean, headers?: { get(name: string): string | null },
): BudgetdError {
  const p = (typeof body === 'object' && body !== null ? body : {}) as Partial<Problem>
  const code: string = typeof p.code === 'string' ? p.code : ''
  let kind = (Object.hasOwn(kinds, code) && kinds[code]) || ofStatus(status, code !== '')
  if (kind === 'unknown' && read) kind = 'not_now'
  const elsewhere = headers?.get('location')
  let message = `${op}: HTTP status ${status}: not an answer of budgetd; is this the right address?`
  if (code !== '') message = `${op}: ${code}: ${p.detail ?? p.title ?? ''}`
  else if (elsewhere) message = `${op}: HTTP status ${status}: the server redirects to ${elsewhere}; use that address`
  for (const fault of p.errors ?? []) message += `; ${fault.field}: ${fault.message}`
  const Type = types[kind] ?? Unknown
  const error = new Type(op, message, {
    code, status, problem: p, available: p.available, limit: p.limit, never: p.never ?? false,
    requestId: p.request_id ?? '', correlationId: headers?.get('x-correlation-id') ?? '',
    retryAfter: 1000 * Math.max(Number(p.retry_after ?? 0) || 0, Number(headers?.get('retry-after') ?? 0) || 0),
  })
  if (error.retryAfter > 0) error.message += ` (retry after ${error.retryAfter / 1000} s)`
  return error
}

/** Returns the kind of a status. Only one of a server that is not budgetd's proves little. */
function ofStatus(status: number, ours: boolean): string {
  if (status >= 500 || status === 408 || (status === 429 && !ours)) return 'unknown'
  if (ours && (status === 409 || status === 429)) return 'refused'
  return ours && status === 412 ? 'conflict' : 'faulty'
}
