// The paths of calls, with their queries.

export type Query = Record<string, string | number | undefined>

/** The path of a budget's calls, with its tenant. */
export function budgetPath(name: string, tenant: string, rest = '', query: Query = {}): string {
  return `v1/budgets/${encodeURIComponent(name)}${rest}${queryOf({ tenant, ...query })}`
}

/** A query with its ?, without what is undefined or empty; '' if nothing is left. */
export function queryOf(query: Query): string {
  const out = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') out.set(name, String(value))
  }
  const text = out.toString()
  return text ? `?${text}` : ''
}
