// Loads the data of a view: the result, the error, and a function that loads again.
import { useEffect, useState } from 'preact/hooks'
import { call, Refused } from './api'

export interface Loaded<T> {
  data?: T
  error?: Refused
  /** True while the first answer is awaited. */
  loading: boolean
  reload: () => void
}

/** Asks a call when the path changes, and every so many milliseconds. '' asks nothing. more is what a
 * query adds to the path that depends on when it is asked, such as "of the last hour". */
export function useCall<T>(path: string, every = 0, more: () => string = () => ''): Loaded<T> {
  const [state, set] = useState<{ path: string; data?: T; error?: Refused }>({ path: '' })
  const [turn, next] = useState(0)
  useEffect(() => {
    if (!path) return
    const abort = new AbortController()
    let timer = 0
    const ask = async () => {
      try {
        const data = await call<T>(path + more(), { signal: abort.signal })
        set({ path, data })
      } catch (e) {
        if (abort.signal.aborted) return
        const error = e instanceof Refused ? e : new Refused(
          { status: 0, code: 'page', title: 'The page failed', detail: String(e) })
        set((old) => ({ path, data: old.path === path ? old.data : undefined, error }))
      }
      if (every && !abort.signal.aborted) timer = window.setTimeout(ask, every)
    }
    void ask()
    return () => { abort.abort(); clearTimeout(timer) }
  }, [path, every, turn])
  const now = state.path === path ? state : { path }
  return { data: now.data, error: now.error, loading: !!path && !now.data && !now.error,
    reload: () => next((n) => n + 1) }
}
