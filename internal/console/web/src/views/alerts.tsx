// Which budgets need attention, and who is told.
import { budgetHref, href } from '../address'
import { ago, instant, units } from '../format'
import { useCall, type Loaded } from '../load'
import { Card, Mark, Shown } from '../parts'
import { queryOf } from '../paths'
import { route, useQuery } from '../route'
import { may } from '../session'
import { EndpointView, Endpoints } from './endpoints'
import { crossed, grouped, toneOf, type Alert } from './groups'

interface Page { alerts: Alert[]; next_page_token?: string }

/** The alerts that are read, the newest. */
const most = 500

const states = [['firing', 'Firing'], ['resolved', 'Resolved'], ['any', 'All']] as const

export function Alerts() {
  const [, endpoint] = route.value.parts
  return endpoint ? <EndpointView key={endpoint} id={endpoint} /> : <List />
}

function List() {
  const [{ state }, set] = useQuery({ state: 'firing' })
  const list = useCall<Page>(`v1/alerts${queryOf({ state: state === 'any' ? '' : state, page_size: most })}`, 5000)
  return (
    <>
      <div class="head"><h1>Alerts</h1></div>
      <div class="card tools">
        <label>State
          <select value={state} onChange={(e) => set({ state: e.currentTarget.value })}>
            {states.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          </select></label>
      </div>
      <div class="card">
        <Shown of={list} empty={(l) => l.alerts.length === 0}
          none={<p>{state === 'firing' ? 'Nothing needs attention.' : 'There is no such alert.'}</p>}>
          {(page) => <>
            {page.next_page_token && <p class="small">The newest {units(most)} are shown; there are more.</p>}
            {grouped(page.alerts).map((g) => (
              <section key={g.cause} aria-label={g.title}>
                <h3><Mark tone={state === 'firing' ? toneOf(g.cause) : ''} dot>{g.title}</Mark>{' '}
                  {units(g.alerts.length)} {g.alerts.length === 1 ? 'budget' : 'budgets'}</h3>
                <Table of={g.title} alerts={g.alerts} />
              </section>
            ))}
          </>}
        </Shown>
      </div>
      {may('operator') && <Endpoints />}
    </>
  )
}

function Table({ of, alerts }: { of: string; alerts: Alert[] }) {
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Alerts: {of}</caption>
        <thead><tr><th>Budget</th><th>Threshold</th><th>Crossed with</th><th>Fired</th><th>Resolved</th></tr></thead>
        <tbody>
          {alerts.map((a) => (
            <tr key={a.id}>
              <th scope="row"><a href={budgetHref(a.tenant, a.budget)}>{a.budget}</a>{' '}
                <span class="quiet small">{a.tenant}</span></th>
              <td data-label="Threshold"><code>{a.threshold}</code></td>
              <td data-label="Crossed with">{crossed(a) || 'see the budget'}</td>
              <td data-label="Fired" title={instant(a.fired_at)}>{ago(a.fired_at)}</td>
              <td data-label="Resolved" title={instant(a.resolved_at)}>{a.resolved_at
                ? <>{ago(a.resolved_at)} <code>{a.reason}</code></> : 'fires'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The alerts that fire, the newest. */
export const useFiring = () => useCall<Page>(`v1/alerts?state=firing&page_size=${most}`, 10_000)

/** The alerts that fire, by cause. */
export function Firing({ list }: { list: Loaded<Page> }) {
  const shown = 3
  return (
    <Card title="Alerts that fire" end={<a href={href(['alerts'])}>All alerts</a>}>
      <Shown of={list} empty={(l) => l.alerts.length === 0} none={<p>Nothing needs attention.</p>}>
        {(page) => (
          <ul class="legend firing">
            {grouped(page.alerts).map((g) => (
              <li key={g.cause}><Mark tone={toneOf(g.cause)} dot>{g.title}</Mark>
                <span>{units(g.alerts.length)}{page.next_page_token && ' or more'}:</span>
                {g.alerts.slice(0, shown).map((a) => <span key={a.id}>
                  <a href={budgetHref(a.tenant, a.budget)}>{a.budget}</a> <span class="quiet">{crossed(a)}</span></span>)}
                {g.alerts.length > shown && <a href={href(['alerts'])}>and {units(g.alerts.length - shown)} more</a>}
              </li>
            ))}
          </ul>
        )}
      </Shown>
    </Card>
  )
}
