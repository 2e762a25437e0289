// Alerts by cause and budget, the worst first.
import { share, units } from '../format'

export interface Alert { id: number; state: 'firing' | 'resolved'; tenant: string; budget: string; threshold: string
  period?: number; told_by?: number; total: number; spent: number; left: number; fired_at: string
  resolved_at?: string; reason?: string }

export interface Group { cause: string; title: string; alerts: Alert[] }

const titles: [cause: string, title: string][] = [
  ['quarantine', 'Units of a lost store are in quarantine'], ['exhausted/total', 'Used up'],
  ['exhausted/period', 'The period is used up'], ['stranded_share', 'Units cannot be reached'],
  ['projected/total', 'Runs out before its end'], ['projected/period', 'Its period runs out before its end'],
  ['used_share/total', 'Much of the total is spent'], ['used_share/period', 'Much of the period is spent'],
  ['used_share/limit', 'Much of a limit is spent'],
]

/** The percentage of a threshold; 0 for one without. */
const percent = (a: Alert) => Number(/\/(\d+)$/.exec(a.threshold)?.[1] ?? 0)

/** What a threshold watches, without its percentage. */
const watched = (a: Alert) => a.threshold.replace(/\/\d+$/, '')

const causeOf = (a: Alert) => titles.findIndex(([cause]) => watched(a) === cause || a.threshold.startsWith(`${cause}/`))

/** Groups alerts by cause. Of several thresholds of one budget that watch the same, the highest stays. */
export function grouped(alerts: Alert[]): Group[] {
  const highest = new Map<string, Alert>()
  for (const a of alerts) {
    const key = `${a.tenant}/${a.budget} ${watched(a)}`
    const other = highest.get(key)
    if (!other || percent(a) > percent(other)) highest.set(key, a)
  }
  const groups = new Map<number, Alert[]>()
  for (const a of highest.values()) groups.set(causeOf(a), [...groups.get(causeOf(a)) ?? [], a])
  return [...groups].sort(([x], [y]) => (x < 0 ? titles.length : x) - (y < 0 ? titles.length : y))
    .map(([at, alerts]) => ({ cause: titles[at]?.[0] ?? 'other', title: titles[at]?.[1] ?? 'Other',
      alerts: alerts.sort((a, b) => percent(b) - percent(a) || b.spent / (b.total || 1) - a.spent / (a.total || 1)) }))
}

/** How bad the alerts of a cause are. */
export const toneOf = (cause: string) => (/^(quarantine|exhausted|stranded)/.test(cause) ? 'bad' : 'warn')

/** The figure that crossed the threshold, as of then; '' where the alert has none. */
export function crossed(a: Alert): string {
  switch (a.threshold.split('/')[0]) {
    case 'used_share': return `${share(a.spent, a.total)} spent: ${units(a.spent)} of ${units(a.total)}`
    case 'exhausted': return `${units(a.left)} left of ${units(a.total)}`
    case 'projected': return `${units(a.left)} left`
  }
  return ''
}
