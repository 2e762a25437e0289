// The burn-down of a budget as numbers and as words.
import { ago, instant, rate } from '../../format'
import { unspent, type Budget, type Series } from '../../types'

/** The seconds of the chart, and for each what is not spent, released, used or held, and projected not
 * to be spent; null where there is none. */
export function curve(s: Series): [x: number[], values: (number | null)[][]] {
  const points = [...s.points, s.now]
  const at = points.map((p) => Date.parse(p.at) / 1000)
  const spare = points.map(unspent)
  const projected: (number | null)[] = points.map(() => null)
  const rows: (number | null)[][] = [spare, points.map((p) => p.released),
    points.map((p) => p.used + p.held)]
  const from = Date.parse(s.from) / 1000
  if (at[0] > from) { // the whole span is shown, although there are no figures for its beginning
    at.unshift(from);
    [projected, ...rows].forEach((r) => r.unshift(null))
  }
  if (s.exhausted_at) {
    const now = at[at.length - 1]
    const end = Date.parse(s.exhausted_at) / 1000
    const until = Math.min(end, now + (now - at[0]) / 2 + 60)
    const last = spare[spare.length - 1] ?? 0
    projected[at.length - 1] = last
    at.push(until)
    projected.push(Math.max(0, last - s.rate_per_s * (until - now)))
    rows.forEach((r) => r.push(null))
  }
  return [at, [...rows, projected]]
}

/** What becomes of a budget if its rate stays. */
export function outlook(s: Series, b: Budget): string {
  const words = {
    exhausted: 'Nothing is left.',
    unlimited: 'It is unlimited: nothing of it runs out.',
    projected: `At ${rate(s.rate_per_s)} it runs out ${ago(s.exhausted_at)}, at ${
      instant(s.exhausted_at, b.timezone)}.`,
    not_before_end: `At ${rate(s.rate_per_s)} it lasts until its end, ${instant(b.end_at, b.timezone)}.`,
    not_for_years: `At ${rate(s.rate_per_s)} it lasts for more than ten years.`,
    not_used: 'Nothing was used in the last 15 minutes.',
    not_known: 'There is no earlier sample yet to project from; samples are taken each minute.',
  }
  return words[s.projection]
}
