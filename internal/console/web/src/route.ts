// The view that the address names, and the only place that reads and writes the address.
import { signal } from '@preact/signals'
import { amended, chosen, href, parse, type Route } from './address'

export const route = signal<Route>(parse(location.hash))

const read = () => { route.value = parse(location.hash) }

addEventListener('hashchange', read)

/** Goes to a view, as a step in the history. */
export function visit(parts: string[], query: Record<string, string | undefined> = {}) {
  location.hash = href(parts, query)
}

/** What the address says of the names of initial, with these values where it says nothing, and a
 * function that changes some of them in the address, without a step in the history. */
export function useQuery<N extends string>(initial: Record<N, string>):
  [query: Record<N, string>, change: (to: Partial<Record<N, string>>) => void] {
  return [chosen(route.value.query, initial), (to) => {
    history.replaceState(null, '', amended(route.value, initial, to))
    read()
  }]
}
