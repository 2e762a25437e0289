// One attempt over fetch.

/** The time of a client, for tests. */
export interface Clock {
  /** Milliseconds. */
  now(): number
  /** Calls what after some time, and returns what prevents it. */
  later(ms: number, what: () => void): () => void
}

export const realClock: Clock = {
  now: () => performance.now(),
  later(ms, what) {
    const timer = setTimeout(what, ms)
    return () => clearTimeout(timer)
  },
}

/** No usable answer arrived. sent is false if the request certainly did not leave. */
export class NoAnswer extends Error {
  constructor(message: string, readonly sent: boolean) { super(message) }
}

export interface Answer { status: number; headers: Headers; body: unknown }

const mostBytes = 32 << 20

/** What Node calls a failure before the request left. A browser does not say. */
const notSent = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT'])

/** Sends a request and reads its answer within some time, or until the signal. */
export async function attempt(
  fetch: typeof globalThis.fetch, clock: Clock, url: string, init: RequestInit, ms: number, signal?: AbortSignal,
): Promise<Answer> {
  if (ms <= 0) throw new NoAnswer('the deadline has passed', false)
  if (signal?.aborted) throw new NoAnswer('it was aborted', false)
  const ends = new AbortController()
  const abort = () => ends.abort(new Error('aborted'))
  signal?.addEventListener('abort', abort)
  const forget = Number.isFinite(ms) ? clock.later(ms, () => ends.abort(new Error('timed out'))) : () => {}
  try {
    const response = await fetch(url, { ...init, redirect: 'manual', signal: ends.signal })
    return { status: response.status, headers: response.headers, body: parse(await text(response)) }
  } catch (error) {
    if (error instanceof NoAnswer) throw error
    const cause = (error as { cause?: { code?: string } }).cause
    throw new NoAnswer(String(ends.signal.aborted ? ends.signal.reason : cause ?? error),
      !notSent.has(cause?.code ?? ''))
  } finally {
    forget()
    signal?.removeEventListener('abort', abort)
  }
}

async function text(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let all = ''
  for (let bytes = 0; reader !== undefined;) {
    const { done, value } = await reader.read()
    if (done) break
    bytes += value.byteLength
    if (bytes > mostBytes) {
      await reader.cancel()
      throw new NoAnswer(`the answer is longer than ${mostBytes} bytes`, true)
    }
    all += decoder.decode(value, { stream: true })
  }
  return all + decoder.decode()
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

/** Waits, or until the signal; returns whether the time is over. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<boolean> {
  if (signal?.aborted) return Promise.resolve(false)
  return new Promise((resolve) => {
    const abort = () => {
      forget()
      resolve(false)
    }
    const forget = clock.later(ms, () => {
      signal?.removeEventListener('abort', abort)
      resolve(true)
    })
    signal?.addEventListener('abort', abort, { once: true })
  })
}
