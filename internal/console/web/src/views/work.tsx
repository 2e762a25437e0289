// What needs a person, the worst first.
import { budgetHref, href } from '../address'
import { ago, instant, units } from '../format'
import { Card, Mark } from '../parts'
import type { Overview, Trouble } from '../types'
import { titled } from './troubles'

export function Work({ o }: { o: Overview }) {
  return (
    <Card title="Needs a person">
      {o.troubles.length === 0 ? <p class="empty">Nothing does.</p> : (
        <div class="scroll">
          <table class="cards">
            <caption class="unseen">Needs a person</caption>
            <thead><tr><th>What</th><th class="num">Budgets</th><th>Seen since</th>
              <th class="num">Refused in the last minute</th><th>Such as</th><th>Do</th></tr></thead>
            <tbody>{o.troubles.map((t) => <Line key={`${t.cause} ${t.instance}`} t={t} />)}</tbody>
          </table>
        </div>
      )}
    </Card>
  )
}

function Line({ t }: { t: Trouble }) {
  const { title, tone, action, query } = titled(t)
  return (
    <tr>
      <th scope="row"><Mark tone={tone} dot>{title}</Mark></th>
      <td class="num" data-label="Budgets">{units(t.budgets)}
        {!!t.buckets && <span class="quiet small"> {units(t.buckets)} buckets</span>}</td>
      <td data-label="Seen since" title={instant(t.since)}>{ago(t.since)}</td>
      <td class="num" data-label="Refused in the last minute">{units(t.unserved)}</td>
      <td data-label="Such as">{t.worst.map((b) => <div key={`${b.tenant}/${b.name}`}>
        <a href={budgetHref(b.tenant, b.name)}>{b.name}</a> <span class="quiet small">{b.tenant}</span></div>)}</td>
      <td data-label="Do"><a href={href(['budgets'], query)}>{action}</a></td>
    </tr>
  )
}
