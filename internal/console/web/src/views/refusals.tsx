// Why was this refused: by the id of the request, or by a value such as a user's.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { budgetHref } from '../address'
import { ago, instant, share, units } from '../format'
import { useCall } from '../load'
import { Card, Mark, Shown } from '../parts'
import { budgetPath, queryOf } from '../paths'
import { useQuery, visit } from '../route'
import { homeName, type LimitState, type Refusal } from '../types'
import { advice } from './advice'

export function Refusals() {
  const [query] = useQuery({ request_id: '', value: '', budget: '', key: '', tenant: '' })
  const { request_id, value, budget, key, tenant } = query
  const [fields, set] = useState({ request_id, value, budget, key })
  const list = useCall<{ refusals: Refusal[] }>(
    `v1/refusals${queryOf({ request_id, value, budget, tenant, limit: 50 })}`, 5000)
  const known = list.data?.refusals.find((r) => r.request_id === request_id)
  const asked = request_id || value || budget
  const field = (name: keyof typeof fields, label: string, hint: string) => (
    <label class="wide">{label}
      <input name={name} value={fields[name]} placeholder={hint}
        onInput={(e) => set({ ...fields, [name]: e.currentTarget.value })} /></label>
  )
  return (
    <>
      <div class="head"><h1>Why was this refused?</h1></div>
      <form class="card tools" role="search" onSubmit={(e) => {
        e.preventDefault()
        visit(['refusals'], { ...fields, tenant: fields.budget === budget ? tenant : '' })
      }}>
        {field('request_id', 'Request id', 'order-4711')}
        {field('value', 'Or a value', 'a user, a device, a phone')}
        {field('budget', 'In the budget', 'any')}
        {field('key', 'Key of the record', 'in store mode')}
        <button class="main">Look</button>
      </form>
      {request_id && budget && !list.loading && <Recorded id={request_id} budget={budget}
        tenant={tenant || 'default'} keyed={key || known?.routing_key} />}
      <Shown of={list} empty={(l) => l.refusals.length === 0} none={
        <>
          <p>{asked ? 'This node remembers no such refusal.' : 'This node refused nothing lately.'}</p>
          {asked && <p class="small">A node remembers its last 4,096 refusals until it stops, and another node
            may have answered. With a budget given, the lookup above says what is recorded of the id.</p>}
        </>
      }>
        {({ refusals }) => (
          <div class="stack">
            {!asked && <p class="quiet">The latest refusals of this node.</p>}
            {refusals.map((r) => <One key={`${r.request_id} ${r.at}`} r={r} />)}
          </div>
        )}
      </Shown>
    </>
  )
}

/** What is recorded of an id: a later attempt may have been accepted. Store mode finds it by its key. */
function Recorded({ id, budget, tenant, keyed }:
  { id: string; budget: string; tenant: string; keyed: string | undefined }) {
  const found = useCall<{ state: string; amount: number; bucket?: string }>(
    budgetPath(budget, tenant, '/deductions', { request_id: id, key: keyed }))
  return (
    <Card title="What is recorded of the id">
      {found.data ? <p><code>{id}</code> is <b>{found.data.state}</b>: {units(found.data.amount)}.</p>
        : found.error ? <p>{found.error.problem.code === 'deduction_not_found' && 'Nothing now: '}
          {found.error.message}.</p>
          : <p class="loading">Loading …</p>}
    </Card>
  )
}

function One({ r }: { r: Refusal }) {
  const p = r.problem
  const limits: LimitState[] = p.limits ?? []
  const lines: [string, ComponentChildren][] = [
    ['Request', <><code>{r.request_id}</code> asked for {units(r.amount)}{r.hold ? ' (a hold)' : ''}</>],
    ['Refused', <>{ago(r.at)} <span class="quiet">({instant(r.at)})</span></>],
    ['Budget', <a href={budgetHref(r.tenant, r.budget)}>{r.tenant}/{r.budget}</a>],
    ['Path', r.bucket ? <>key <code>{r.routing_key}</code>
      {' '}→ <code>{r.bucket}</code> → {r.home && homeName(r.home)}</> : 'not known'],
  ]
  if (r.dimensions) {
    lines.push(['Dimensions', Object.entries(r.dimensions).map(([k, v]) => `${k} = ${v}`).join(', ')])
  }
  if (p.available !== undefined) lines.push(['The budget had', `${units(p.available)} left`])
  return (
    <Card title={p.title} id={`${r.request_id}-${r.at}`}
      end={<Mark tone={p.code === 'unavailable' || p.code === 'outcome_unknown' ? 'bad' : 'warn'}>
        {p.code}</Mark>}>
      {p.detail && <p><strong>{p.detail}</strong></p>}
      <dl class="pairs" style={{ marginTop: '8px' }}>
        {lines.map(([name, text]) => <div key={name} style={{ display: 'contents' }}>
          <dt>{name}</dt><dd>{text}</dd></div>)}
        <dt>What to do</dt><dd>{advice(r)}</dd>
      </dl>
      {limits.length > 0 && (
        <div class="scroll" style={{ marginTop: '8px' }}>
          <table class="cards">
            <caption class="unseen">Limits that refused it</caption>
            <thead><tr><th>Limit</th><th>Value</th><th class="num">Used</th><th class="num">Max</th>
              <th class="num">Asked</th><th>Resets</th></tr></thead>
            <tbody>
              {limits.map((l) => (
                <tr key={l.name}>
                  <th scope="row">{l.name}</th>
                  <td data-label="Value">{l.dimension} = {l.value}</td>
                  <td class="num" data-label="Used">{units(l.used)} <span class="quiet small">
                    {share(l.used, l.max)}</span></td>
                  <td class="num" data-label="Max">{l.exempt ? 'exempt' : units(l.max)}</td>
                  <td class="num" data-label="Asked">{units(l.asked)}</td>
                  <td data-label="Resets">{l.reset_at ? instant(l.reset_at) : 'never'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  )
}
