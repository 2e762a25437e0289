// Is every unit accounted for, what runs out next, what was refused, which instance is the problem.
import { useMemo } from 'preact/hooks'
import { budgetHref, href } from '../address'
import { Chart } from '../chart'
import { ago, instant, rate, share, units } from '../format'
import { useLive } from '../live'
import { Card, Failure, Mark, Remaining, When } from '../parts'
import type { Overview, Summary } from '../types'
import { Firing, useFiring } from './alerts'
import type { Alert } from './groups'
import { verdict } from './verdict'
import { Work } from './work'

const outcomes = [
  { label: 'Accepted', token: '--s-left', fill: true },
  { label: 'Refused by the budget', token: '--s-transit' },
  { label: 'Refused by a limit', token: '--s-held' },
  { label: 'Failed', token: '--s-quarantine' },
]

export function OverviewView() {
  const { data: o, error } = useLive<Overview>('v1/events', 'overview')
  return (
    <>
      <div class="head"><h1>Overview</h1></div>
      {error && <Failure error={error} />}
      {!o && !error && <p class="loading" role="status">Loading …</p>}
      {o && <Body o={o} />}
    </>
  )
}

function Body({ o }: { o: Overview }) {
  const firing = useFiring()
  return (
    <div class="grid">
      <Work o={o} />
      <Health o={o} firing={firing.data?.alerts ?? []} />
      <Pace o={o} />
      <Firing list={firing} />
      <Card title="What runs out next" width="w6"
        end={<a href={href(['budgets'], { sort: 'exhausted_at' })}>All, in this order</a>}>
        <Next list={o.next} books={o.books} />
      </Card>
      <Card title="Refused most lately" width="w6"
        end={<a href={href(['refusals'])}>Why was it refused?</a>}>
        <MostRefused list={o.refused} />
      </Card>
      <Card title="Instances" end={<a href={href(['instances'])}>All instances</a>}>
        <ul class="legend">
          {o.instances.map((i) => (
            <li key={i.name}>
              <Mark tone={i.health === 'up' ? 'good' : 'bad'} dot>{i.health}</Mark>
              <a href={href(['instances'])}>{i.name}</a>
              {i.draining && <Mark tone="warn">draining</Mark>}
            </li>
          ))}
        </ul>
      </Card>
    </div>
  )
}

function Health({ o, firing }: { o: Overview; firing: Alert[] }) {
  const b = o.books
  const { tone, text, lines } = verdict(o, firing)
  return (
    <Card title="Health" width="w6"
      end={<Mark tone={tone} dot>{text}</Mark>}>
      <dl class="pairs">
        {lines.map(([name, text, tone, more]) => (
          <div key={name} style={{ display: 'contents' }}>
            <dt>{name}</dt>
            <dd><Mark tone={tone} dot>{text}</Mark>{more && <p class="small">{more}</p>}</dd>
          </div>
        ))}
        <dt>Budgets</dt>
        <dd>
          {Object.entries(b.budgets).map(([status, n]) => `${units(n)} ${status}`).join(', ') || 'none'}
        </dd>
        <dt>Checked</dt>
        <dd title={instant(b.checked_at)}>
          {b.checked_at ? ago(b.checked_at) : 'not yet'} <span class="quiet">({instant(b.checked_at)})</span>
        </dd>
      </dl>
      {o.reasons.length > 0 && (
        <ul class="failure" style={{ marginTop: '10px' }}>
          {o.reasons.map((r) => <li key={r}>{r}</li>)}
        </ul>
      )}
    </Card>
  )
}

function Pace({ o }: { o: Overview }) {
  const x = useMemo(() => o.outcomes.map((s) => Date.parse(s.at) / 1000), [o])
  const values = useMemo(() => [o.outcomes.map((s) => s.accepted), o.outcomes.map((s) => s.refused),
    o.outcomes.map((s) => s.limited), o.outcomes.map((s) => s.failed)], [o])
  const recent = o.outcomes.slice(-10)
  const mean = (f: (s: Overview['outcomes'][0]) => number) =>
    recent.reduce((n, s) => n + f(s), 0) / Math.max(recent.length, 1)
  return (
    <Card title="Deductions per second, this node" width="w6">
      <Chart x={x} lines={outcomes} values={values} height={150} legend={false}
        label="Deductions per second by outcome over the last two minutes" />
      <ul class="legend">
        {([['left', 'accepted', mean((s) => s.accepted)], ['transit', 'refused by budget',
          mean((s) => s.refused)], ['held', 'refused by limit', mean((s) => s.limited)],
        ['quarantine', 'failed', mean((s) => s.failed)]] as const).map(([tone, name, n]) => (
          <li key={name}><span class={`swatch ${tone}`} aria-hidden="true" />{name}
            <span class="num">{Math.round(n * 10) / 10}/s</span></li>
        ))}
      </ul>
    </Card>
  )
}

function Next({ list, books }: { list: Summary[]; books: Overview['books'] }) {
  const { serving, checked_at } = books
  const exhausted = (serving.budget_exhausted ?? 0) + (serving.period_exhausted ?? 0)
  if (list.length === 0) {
    return (
      <p class="empty">
        {checked_at ? `At the rates of the last check, ${ago(checked_at)}, nothing runs out`
          : 'The rates are not known before the first check'}
        {exhausted ? `; ${units(exhausted)} are used up` : ''}.
      </p>
    )
  }
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">What runs out next</caption>
        <thead><tr><th>Budget</th><th>Runs out</th><th class="num">Remaining</th><th class="num">Held</th>
          <th class="num">Used</th><th class="num">Rate</th></tr></thead>
        <tbody>
          {list.map((s) => (
            <tr key={`${s.tenant}/${s.name}`}>
              <th scope="row"><a href={budgetHref(s.tenant, s.name)}>{s.name}</a></th>
              <td data-label="Runs out"><When at={s.exhausted_at} /></td>
              <td class="num" data-label="Remaining"><Remaining b={s} /> <span class="quiet small">
                {share(s.remaining ?? 0, s.total_quantity)}</span></td>
              <td class="num" data-label="Held">{units(s.held)}</td>
              <td class="num" data-label="Used">{units(s.used)}</td>
              <td class="num" data-label="Rate">{rate(s.rate_per_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function MostRefused({ list }: { list: Summary[] }) {
  if (list.length === 0) return <p class="empty">This node refused nothing lately.</p>
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Refused most lately</caption>
        <thead><tr><th>Budget</th><th class="num">Refusals</th><th>Why</th></tr></thead>
        <tbody>
          {list.map((s) => (
            <tr key={`${s.tenant}/${s.name}`}>
              <th scope="row"><a href={budgetHref(s.tenant, s.name)}>{s.name}</a></th>
              <td class="num" data-label="Refusals">
                {units(Object.values(s.refusals ?? {}).reduce((a, n) => a + n, 0))}
              </td>
              <td data-label="Why">
                {Object.entries(s.refusals ?? {}).map(([code, n]) => (
                  <div key={code}><a href={href(['refusals'], { tenant: s.tenant, budget: s.name })}>
                    <code>{code}</code></a> {units(n)}</div>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
