// The calls of the API, made with the user's key or session.
import { signal } from '@preact/signals'

/** A problem document (RFC 9457), as the API answers what is not a success. */
export interface Problem {
  status: number
  code: string
  title: string
  detail?: string
  errors?: { field: string; message: string }[]
  correlation_id?: string
  [member: string]: unknown
}

/** Refused is a call that was answered with a problem, or not at all (status 0). */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title)
  }
}

/** Everything is asked for relative to where the page's own files are: any path prefix will do. */
export const root = new URL(/* @vite-ignore */ '../', import.meta.url)

const stored = 'budgetd.key'

/** The key that calls are made with; '' without one. It is forgotten with the tab. */
export const key = signal(sessionStorage.getItem(stored) ?? '')

export function remember(text: string) {
  key.value = text
  if (text) sessionStorage.setItem(stored, text)
  else sessionStorage.removeItem(stored)
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return key.value ? { Authorization: `Bearer ${key.value}`, ...more } : more
}

/** Set when an answer says that nobody knows who calls: the page asks for a key. */
export const unauthenticated = signal(false)

export interface Asked {
  method?: string
  body?: unknown
  signal?: AbortSignal
  version?: number
}

/** Calls the API and returns the body of its answer. It throws Refused. */
export async function call<T>(path: string, asked: Asked = {}): Promise<T> {
  const more: Record<string, string> = {}
  if (asked.body !== undefined) more['Content-Type'] = 'application/json'
  if (asked.version !== undefined) more['If-Match'] = `"${asked.version}"`
  let answer: Response
  try {
    answer = await fetch(new URL(path, root), {
      method: asked.method ?? 'GET',
      headers: headers(more),
      body: asked.body === undefined ? undefined : JSON.stringify(asked.body),
      signal: asked.signal,
      cache: 'no-store',
    })
  } catch (e) {
    if (asked.signal?.aborted) throw e
    throw new Refused({
      status: 0, code: 'unreachable', title: 'The server does not answer',
      detail: asked.method && asked.method !== 'GET'
        ? 'It is not known whether this was done. Look before you repeat it.'
        : 'The page tries again by itself.',
    })
  }
  const text = await answer.text()
  if (answer.ok) return (text ? JSON.parse(text) : undefined) as T
  throw refusedBy(answer.status, text)
}

export function refusedBy(status: number, text: string): Refused {
  let problem: Problem = { status, code: 'http', title: `The server answered ${status}` }
  try {
    problem = { ...problem, ...JSON.parse(text) }
  } catch { /* not a document: the status says it */ }
  if (status === 401) unauthenticated.value = true
  return new Refused(problem)
}
