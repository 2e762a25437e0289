// The client of budgetd. See README.md.
export type { components, paths } from './api.js'
export { Client, type Bounds, type Options, type Result, type Retry } from './client.js'
export { BudgetdError, Conflict, Faulty, NotNow, Refused, Unknown, type Problem } from './errors.js'
export { Hold } from './hold.js'
export type { Clock } from './http.js'

/** Returns a fresh request id: a UUID of version 7, which begins with the time. Store it with its
 * order before the first attempt: only the same id makes a repeat safe. */
export function newRequestId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  const random = crypto.getRandomValues(new Uint8Array(10))
  random[0] = random[0]! & 0x0f | 0x70
  random[2] = random[2]! & 0x3f | 0x80
  const rest = Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${time.slice(0, 8)}-${time.slice(8)}-${rest.slice(0, 4)}-${rest.slice(4, 8)}-${rest.slice(8)}`
}
