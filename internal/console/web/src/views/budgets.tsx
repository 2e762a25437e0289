// All budgets, a page at a time: the server searches, filters and sorts.
import { budgetHref } from '../address'
import { useState } from 'preact/hooks'
import { call } from '../api'
import { ChangeButton } from '../change'
import { amount, ago, instant, share, orUnlimited, units } from '../format'
import { useCall } from '../load'
import { queryOf } from '../paths'
import { may, me } from '../session'
import { direction, turned } from '../sort'
import { useTyped } from '../typed'
import { Meter, Remaining, Serves, Shown, When } from '../parts'
import { useQuery } from '../route'
import { unspent, type Budget, type BudgetPage } from '../types'
import { all, Bulk, nameOf, none, type Chosen } from './budgets/bulk'

const size = 50

const columns: [sort: string, title: string, numeric: boolean][] = [
  ['name', 'Name', false], ['serving', 'Serves', false], ['remaining', 'Remaining', true], ['held', 'Held', true],
  ['used', 'Used', true], ['', 'Quarantined', true], ['total', 'Total', true], ['used_share', 'Used share', false],
  ['exhausted_at', 'Runs out', false], ['end', 'Ends', false], ['refusals', 'Refused', true],
]

const orders: [string, string][] = [['name', 'Name'], ['serving', 'What hurts first'], ['remaining', 'Least remaining'],
  ['-used_share', 'Most used share'], ['end', 'Ends first'], ['-refusals', 'Most refused'],
  ['exhausted_at', 'Runs out first']]

const arrows = { ascending: ' ▲', descending: ' ▼', none: '' }

export function Budgets() {
  const [query, set] = useQuery({ q: '', status: '', type: '', tenant: '', trouble: '', sort: 'name', skip: '' })
  const { q, status, type, tenant, trouble, sort } = query
  const skip = Number(query.skip) || 0
  const page = useCall<BudgetPage>(`v1/budgets${queryOf({ tenant: tenant || '*', page_size: size, q, sort,
    skip, status, type, trouble })}`, 5000)
  const tenants = Object.entries(page.data?.tenants ?? {}).toSorted()
  const [chosen, choose] = useState<Chosen>(none)
  const filters = JSON.stringify([q, status, type, tenant, trouble])
  const [chosenIn, chooseIn] = useState(filters)
  if (chosenIn !== filters) { // what another filter selected is not what is seen
    chooseIn(filters)
    choose(none)
  }
  const [text, search] = useTyped(q, (q) => set({ q, skip: '' }))
  const filter = (name: string) => (e: { currentTarget: HTMLSelectElement }) =>
    set({ [name]: e.currentTarget.value, skip: '' })
  return (
    <>
      <div class="head">
        <h1>Budgets</h1>
        {page.data?.total !== undefined && <span class="quiet" role="status">
          {units(page.data.total)} found</span>}
        {may('admin') && <div class="end"><Create done={page.reload} /></div>}
      </div>
      <div class="card stack">
        {trouble && <p>Only budgets with one trouble: {trouble.replaceAll('_', ' ')}.{' '}
          <button type="button" class="slim" onClick={() => set({ trouble: '', skip: '' })}>Show all</button></p>}
        <div class="tools" role="search">
          <label class="wide">Search<input type="search" value={text} placeholder="part of a name"
            onInput={(e) => search(e.currentTarget.value)} /></label>
          {(tenant || tenants.length > 1) && <label>Tenant
            <select value={tenant} onChange={filter('tenant')}>
              <option value="">all, {units(tenants.reduce((n, [, own]) => n + own, 0))}</option>
              {tenants.map(([name, n]) => <option key={name} value={name}>{name}, {units(n)}</option>)}
            </select>
          </label>}
          <label>Status
            <select value={status} onChange={filter('status')}>
              <option value="">any</option>
              {['effective', 'pending', 'paused', 'expired'].map((s) => <option key={s}>{s}</option>)}
            </select>
          </label>
          <label>Type
            <select value={type} onChange={filter('type')}>
              <option value="">any</option><option>promo</option><option>daily</option>
            </select>
          </label>
          <label>Order
            <select value={orders.some(([o]) => o === sort) ? sort : ''} onChange={filter('sort')}>
              {!orders.some(([o]) => o === sort) && <option value="">by column</option>}
              {orders.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            </select>
          </label>
        </div>
        <Shown of={page} empty={(p) => p.budgets.length === 0}
          none={<p>{trouble ? 'No budget has this trouble now.' : q || status || type || tenant
            ? 'No budget fits. A new one can be found as soon as the next look at all budgets is done.'
            : 'There is no budget yet. budgetctl create makes one.'}</p>}>
          {(p) => (
            <>
              {may('operator') && <Selection page={p} chosen={chosen} choose={choose} done={page.reload}
                every={async (n) => choose(status || trouble
                  // What such a change does changes what matches: those are meant that match now.
                  ? { rows: await all({ tenant: tenant || '*', q, status, type, trouble, sort }, n) }
                  : { n, filter: { tenant: tenant || '*', ...q && { q }, ...type && { type } } })} />}
              <Table rows={p.budgets} sort={sort} order={(sort) => set({ sort, skip: '' })}
                chosen={may('operator') ? chosen : undefined} choose={choose} />
              <Pager total={p.total ?? p.budgets.length} skip={skip} shown={p.budgets.length}
                to={(n) => set({ skip: n > 0 ? String(n) : '' })} />
              {p.ranked_at && <p class="small quiet" title={instant(p.ranked_at)}>
                The figures are live. The order is as of {ago(p.ranked_at)}.
                {sort.endsWith('exhausted_at') && ' Budgets that do not run out at their rate come last.'}
                {sort.endsWith('end') && ' Budgets that have ended come last.'}
                {sort.endsWith('refusals') && ' Refused counts what this node refused in the last 8 to 15 minutes.'}
              </p>}
            </>
          )}
        </Shown>
      </div>
    </>
  )
}

/** What is selected, and what can be done with it. every selects all n that match. */
function Selection({ page, chosen, choose, every, done }: { page: BudgetPage; chosen: Chosen
  choose: (c: Chosen) => void; every: (n: number) => void; done: () => void }) {
  const total = page.total ?? 0
  const some = 'n' in chosen || chosen.rows.length > 0
  return (
    <div class="tools" role="group" aria-label="Selection">
      {some && <Bulk chosen={chosen} done={() => { choose(none); done() }} />}
      {!('n' in chosen) && (total > page.budgets.length
        ? <button type="button" onClick={() => every(total)}>Select all {units(total)}</button>
        : <button type="button" onClick={() => choose({ rows: page.budgets })}>
          Select these {units(page.budgets.length)}</button>)}
      {some && <button type="button" onClick={() => choose(none)}>Select none</button>}
    </div>
  )
}

function Table({ rows, sort, order, chosen, choose }: { rows: Budget[]; sort: string
  order: (sort: string) => void; chosen?: Chosen; choose: (c: Chosen) => void }) {
  const lost = rows.some((b) => b.quarantined > 0)
  const picked = chosen && 'rows' in chosen ? chosen.rows : []
  const names = new Set(picked.map(nameOf))
  const turn = (b: Budget) => choose({ rows: names.has(nameOf(b))
    ? picked.filter((p) => nameOf(p) !== nameOf(b)) : [...picked, b] })
  const tenants = new Set(rows.map((b) => b.tenant)).size > 1
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Budgets</caption>
        <thead>
          <tr>
            {columns.filter(([by, title]) => (by !== 'refusals' || sort.endsWith(by)) &&
              (title !== 'Quarantined' || lost)).map(([by, title, numeric]) => (
              <th key={title} class={numeric ? 'num' : ''} scope="col" aria-sort={by ? direction(sort, by) : undefined}>
                {by ? (
                  <button type="button" class="sort" onClick={() => order(turned(sort, by))}>
                    {title}{arrows[direction(sort, by) ?? 'none']}
                  </button>
                ) : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((b) => (
            <tr key={b.id}>
              <th scope="row">
                {chosen && <><input type="checkbox" aria-label={`Select ${b.name}`} disabled={'n' in chosen}
                  checked={'n' in chosen || names.has(nameOf(b))} onChange={() => turn(b)} />{' '}</>}
                <a href={budgetHref(b.tenant, b.name)}>{b.name}</a>
                {tenants && <span class="quiet small"> {b.tenant}</span>}
              </th>
              <td data-label="Serves"><Serves b={b} /></td>
              <td class="num" data-label="Remaining"><Remaining b={b} /></td>
              <td class="num" data-label="Held">{units(b.held)}</td>
              <td class="num" data-label="Used">{units(b.used)}</td>
              {lost && <td class="num" data-label="Quarantined">{units(b.quarantined)}</td>}
              <td class="num" data-label="Total">{orUnlimited(b.total_quantity)}</td>
              <td data-label="Used share">{share(b.used, b.total_quantity)}<Meter b={b} /></td>
              <td data-label="Runs out">{b.exhausted_at ? <When at={b.exhausted_at} zone={b.timezone} />
                : unspent(b) === 0 ? 'used up' : '–'}</td>
              <td data-label="Ends">{instant(b.end_at, b.timezone)}</td>
              {b.refusals !== undefined && <td class="num" data-label="Refused">{units(b.refusals)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Pager({ total, skip, shown, to }:
  { total: number; skip: number; shown: number; to: (skip: number) => void }) {
  if (total <= shown && skip === 0) return null
  return (
    <nav class="tools" aria-label="Pages">
      <button type="button" disabled={skip === 0} onClick={() => to(skip - size)}>Previous</button>
      <button type="button" disabled={skip + shown >= total} onClick={() => to(skip + size)}>Next</button>
      <span class="quiet">{units(skip + 1)} to {units(skip + shown)} of {units(total)}</span>
    </nav>
  )
}

/** The names that the API takes. */
const nameable = /^[a-z][a-z0-9-]{0,62}$/

function Create({ done }: { done: () => void }) {
  return <ChangeButton label="New budget" done={done} make={() => ({
    title: 'New budget',
    intro: 'A promo budget hands out everything at once. budgetctl create has all other choices.',
    fields: [
      { name: 'name', label: 'Name', hint: 'lower-case letters, digits and hyphens' },
      { name: 'tenant', label: 'Tenant', initial: me.value?.tenant || 'default' },
      { name: 'unit', label: 'Unit', initial: 'count',
        options: [['count', 'count: pieces'], ['amount', 'amount: minor units of money']] },
      { name: 'total', label: 'Total', amount: true },
    ],
    plan: (v) => {
      if (!nameable.test(v.name.trim())) return 'Type a name: lower-case letters, digits and hyphens.'
      if (!nameable.test(v.tenant.trim())) return 'Type a tenant: lower-case letters, digits and hyphens.'
      const total = amount(v.total)
      if (total === null) return 'Type a total: digits, 1 to 9,007,199,254,740,991.'
      return [['Budget', 'none', `${v.tenant.trim()}/${v.name.trim()}`], ['Total', '–', units(total)]]
    },
    verb: 'Create the budget',
    run: async (v) => {
      const made = await call<Budget>('v1/budgets', { method: 'POST', body: { name: v.name.trim(),
        tenant: v.tenant.trim(), unit: v.unit, type: 'promo', total_quantity: amount(v.total) } })
      return <p>Budget <a href={budgetHref(made.tenant, made.name)}>{made.name}</a> has {
        units(made.total_quantity)} in {made.bucket_quantity} buckets.</p>
    },
  })} />
}
