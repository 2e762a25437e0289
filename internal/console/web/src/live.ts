// Reads server-sent events with fetch, because EventSource cannot send a key. After an interruption
// it resumes after the last event that arrived.
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { headers, Refused, refusedBy, root } from './api'
import { parse, type Event } from './events'

export type Link = 'idle' | 'connecting' | 'live' | 'lost'

/** How the page is connected, for all to see; since is when it was lost. */
export const link = signal<{ state: Link; since?: number }>({ state: 'idle' })

const firstWait = 500
const longestWait = 10_000
/** The server writes something every 10 s; after this long without it the connection is dead. */
const silence = 25_000

/** How many streams are followed. */
let followers = 0

/** Settles when somebody can see the page, or when nobody follows any more. */
function seen(stopped: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !stopped.aborted) return
      document.removeEventListener('visibilitychange', look)
      stopped.removeEventListener('abort', look)
      done()
    }
    document.addEventListener('visibilitychange', look)
    stopped.addEventListener('abort', look)
    look()
  })
}

/** Follows a stream until stop is called. heard gets each event, failed what will not mend. A page that
 * nobody sees follows nothing: a browser opens six connections to a server, and a stream keeps one. */
export function follow(path: string, heard: (e: Event) => void, failed: (e: Refused) => void) {
  const abort = new AbortController()
  let last = ''
  let wait = firstWait
  const lost = () => {
    if (link.value.state !== 'lost') link.value = { state: 'lost', since: Date.now() }
  }
  const once = async () => {
    const attempt = new AbortController()
    const end = () => attempt.abort()
    const hide = () => { if (document.hidden) end() }
    abort.signal.addEventListener('abort', end)
    document.addEventListener('visibilitychange', hide)
    let timer = window.setTimeout(end, silence)
    try {
      const answer = await fetch(new URL(path, root), { signal: attempt.signal, cache: 'no-store',
        headers: headers(last ? { 'Last-Event-ID': last } : {}) })
      if (!answer.ok || !answer.body) throw refusedBy(answer.status, await answer.text())
      link.value = { state: 'live' }
      wait = firstWait
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(timer)
        timer = window.setTimeout(end, silence)
        const blocks = (rest + value).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) {
          const e = parse(block)
          if (e.id) last = e.id
          if (e.data) heard(e)
        }
      }
    } finally {
      clearTimeout(timer)
      abort.signal.removeEventListener('abort', end)
      document.removeEventListener('visibilitychange', hide)
    }
  }
  const run = async () => {
    if (link.value.state === 'idle' && !abort.signal.aborted) link.value = { state: 'connecting' }
    while (!abort.signal.aborted) {
      await seen(abort.signal)
      if (abort.signal.aborted) return
      try {
        await once()
      } catch (e) {
        if (abort.signal.aborted) return
        if (e instanceof Refused && e.problem.status >= 400 && e.problem.status < 500) {
          link.value = { state: 'idle' }
          failed(e)
          return
        }
      }
      if (abort.signal.aborted) return
      if (document.hidden) continue // it resumes after the last event that arrived
      lost()
      await new Promise((done) => setTimeout(done, wait))
      wait = Math.min(wait * 2, longestWait)
    }
  }
  followers++
  void run()
  return () => {
    abort.abort()
    if (--followers === 0) link.value = { state: 'idle' }
  }
}

/** The latest event of a type, read as JSON. */
export function useLive<T>(path: string, type: string): { data?: T; error?: Refused } {
  const [state, set] = useState<{ path: string; data?: T; error?: Refused }>({ path })
  useEffect(() => {
    if (!path) return
    return follow(path,
      (e) => { if (e.type === type) set({ path, data: JSON.parse(e.data) as T }) },
      (error) => set((old) => ({ ...old, path, error })))
  }, [path, type])
  return state.path === path ? state : {}
}
