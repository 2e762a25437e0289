// Which budgets need attention, and who is told.
import { budgetHref, href } from '../address'
import { ago, instant, share, units } from '../format'
import { useCall } from '../load'
import { Card, Mark, Shown } from '../parts'
import { queryOf } from '../paths'
import { route, useQuery } from '../route'
import { may } from '../session'
import { EndpointView, Endpoints } from './endpoints'

interface Alert { id: number; state: 'firing' | 'resolved'; tenant: string; budget: string; threshold: string
  period?: number; told_by?: number; total: number; spent: number; left: number; fired_at: string
  resolved_at?: string; reason?: string }

const states = [['firing', 'Firing'], ['resolved', 'Resolved'], ['any', 'All']] as const

export function Alerts() {
  const [, endpoint] = route.value.parts
  return endpoint ? <EndpointView key={endpoint} id={endpoint} /> : <List />
}

function List() {
  const [{ state }, set] = useQuery({ state: 'firing' })
  const list = useCall<{ alerts: Alert[] }>(`v1/alerts${queryOf({
    state: state === 'any' ? '' : state, page_size: 200 })}`, 5000)
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
          {({ alerts }) => <Table alerts={alerts} />}
        </Shown>
      </div>
      {may('operator') && <Endpoints />}
    </>
  )
}

function Table({ alerts }: { alerts: Alert[] }) {
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Alerts</caption>
        <thead><tr><th>Budget</th><th>Threshold</th><th>State</th><th>Fired</th><th class="num">Spent then</th>
          <th class="num">Left then</th><th>Resolved</th></tr></thead>
        <tbody>
          {alerts.map((a) => (
            <tr key={a.id}>
              <th scope="row"><a href={budgetHref(a.tenant, a.budget)}>{a.budget}</a></th>
              <td data-label="Threshold"><code>{a.threshold}</code>
                {a.told_by && <span class="quiet small"> told with {a.told_by}</span>}</td>
              <td data-label="State"><Mark tone={a.state === 'firing' ? 'bad' : ''} dot>{a.state}</Mark></td>
              <td data-label="Fired" title={instant(a.fired_at)}>{ago(a.fired_at)}</td>
              <td class="num" data-label="Spent then">{units(a.spent)} <span class="quiet small">
                {share(a.spent, a.total)}</span></td>
              <td class="num" data-label="Left then">{units(a.left)}</td>
              <td data-label="Resolved" title={instant(a.resolved_at)}>{a.resolved_at
                ? <>{ago(a.resolved_at)} <code>{a.reason}</code></> : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The alerts that fire, in short. */
export function Firing() {
  const list = useCall<{ alerts: Alert[]; next_page_token?: string }>('v1/alerts?state=firing&page_size=10', 5000)
  return (
    <Card title="Alerts that fire" end={<a href={href(['alerts'])}>All alerts</a>}>
      <Shown of={list} empty={(l) => l.alerts.length === 0} none={<p>Nothing needs attention.</p>}>
        {({ alerts, next_page_token }) => (
          <ul class="legend firing">
            {alerts.map((a) => (
              <li key={a.id}><Mark tone="bad" dot>{a.threshold}</Mark>
                <a href={budgetHref(a.tenant, a.budget)}>{a.budget}</a>
                <span class="quiet" title={instant(a.fired_at)}>{ago(a.fired_at)}</span></li>
            ))}
            {next_page_token && <li><a href={href(['alerts'])}>and more</a></li>}
          </ul>
        )}
      </Shown>
    </Card>
  )
}
