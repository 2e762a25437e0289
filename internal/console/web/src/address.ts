// The addresses of views: what follows #, a path with a query. The server does not see them.

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

/** Reads an address, with or without its # and slash. */
export function parse(address: string): Route {
  const [path, query] = address.replace(/^#\/?/, '').split('?', 2)
  return { parts: (path ?? '').split('/').filter(Boolean).map(plain),
    query: new URLSearchParams(query ?? '') }
}

/** The address of a view; what is empty is left out of its query. */
export function href(parts: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((e): e is [string, string] => !!e[1])
  const text = new URLSearchParams(given).toString()
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

export const budgetHref = (tenant: string, name: string) => href(['budgets', tenant, name])

/** What a query says of the names of initial: its value, or the initial one where it has none. */
export function chosen<N extends string>(query: URLSearchParams, initial: Record<N, string>) {
  const names = Object.keys(initial) as N[]
  return Object.fromEntries(names.map((n) => [n, query.get(n) ?? initial[n]])) as Record<N, string>
}

/** The address of the same view after a change of its query. Names that the change does not have stay,
 * and a value that is the initial one is left out. */
export function amended<N extends string>(at: Route, initial: Record<N, string>,
  change: Partial<Record<N, string>>): string {
  const query: Record<string, string | undefined> = { ...Object.fromEntries(at.query), ...change }
  for (const name of Object.keys(initial) as N[]) {
    if (query[name] === initial[name]) delete query[name]
  }
  return href(at.parts, query)
}
