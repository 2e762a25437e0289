// The view in the address: what follows #, a path with a query. The server does not see it.
import { signal } from '@preact/signals'

export interface Route {
  parts: string[]
  query: URLSearchParams
}

/** A part of the path as it was meant: what is no valid escape stays as it was typed. */
function plain(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function read(): Route {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2)
  return { parts: (path ?? '').split('/').filter(Boolean).map(plain),
    query: new URLSearchParams(query ?? '') }
}

export const route = signal<Route>(read())

addEventListener('hashchange', () => { route.value = read() })

export function href(parts: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((e): e is [string, string] => !!e[1])
  const text = new URLSearchParams(given).toString()
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

/** Changes the query of the view in place, without a step in the history. */
export function amend(query: Record<string, string | undefined>) {
  const old = Object.fromEntries(route.value.query)
  history.replaceState(null, '', href(route.value.parts, { ...old, ...query }))
  route.value = read()
}

export const budgetHref = (tenant: string, name: string) => href(['budgets', tenant, name])
