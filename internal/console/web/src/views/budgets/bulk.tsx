// One change for many budgets: which they are, and what is done with them.
import { call } from '../../api'
import { ChangeButton, requestID, type Change } from '../../change'
import { amount, units } from '../../format'
import { queryOf, type Query } from '../../paths'
import type { Budget, BudgetPage } from '../../types'
import { decide } from './decide'

/** What of a budget its selection keeps. */
export type Picked = Pick<Budget, 'tenant' | 'name' | 'unit' | 'quarantined'>

/** The budgets that a change is for: these, or all n that a filter selects. */
export type Chosen = { rows: Picked[] } | { filter: Record<string, string>; n: number }

export const none: Chosen = { rows: [] }

export const nameOf = (b: Pick<Budget, 'tenant' | 'name'>) => `${b.tenant}/${b.name}`

const countOf = (chosen: Chosen) => 'n' in chosen ? chosen.n : chosen.rows.length

/** All budgets of a list, which the page reads as the API lets it. */
export async function all(query: Query, total: number): Promise<Picked[]> {
  const rows: Picked[] = []
  while (rows.length < total) {
    const page = await call<BudgetPage>(`v1/budgets${queryOf({ ...query, page_size: 1000, skip: rows.length })}`)
    rows.push(...page.budgets)
    if (!page.budgets.length) break
  }
  return rows
}

interface Row { tenant: string; budget: string; outcome: string; detail?: string }

interface Answer { done: number; unchanged: number; failed: number; left: number; rows: Row[] }

type Action = 'pause' | 'resume' | 'append'

const verbs: Record<Action, string> = { pause: 'Pause', resume: 'Resume', append: 'Append to' }

const did: Record<Action, string> = { pause: 'paused', resume: 'resumed', append: 'appended to' }

export function Bulk({ chosen, done }: { chosen: Chosen; done: () => void }) {
  return <>{(['pause', 'resume', 'append'] as const).map((action) => (
    <ChangeButton key={action} label={`${verbs[action]} ${units(countOf(chosen))}`} done={done}
      make={() => change(action, chosen)} />
  ))}
    {'rows' in chosen && chosen.rows.every((b) => b.quarantined) && <ChangeButton done={done}
      label={`Decide on ${units(chosen.rows.length)}`} make={() => decide(chosen.rows)} />}
  </>
}

function change(action: Action, chosen: Chosen): Change {
  const id = requestID()
  const n = countOf(chosen)
  const of = `${units(n)} ${n === 1 ? 'budget' : 'budgets'}`
  return {
    title: `${verbs[action]} ${of}`,
    intro: `${'filter' in chosen ? `All that match${chosen.filter.tenant === '*' ? ', of all tenants'
      : ` of tenant ${chosen.filter.tenant}`}.` : chosen.rows.slice(0, 5).map(nameOf).join(', ') + (n > 5 ? ' …' : '.')} ${
      action === 'pause' ? 'Every deduction from them is refused with budget_paused until they are resumed; holds stay.'
        : action === 'resume' ? 'They serve again at once, those that somebody else has paused too.' : ''}`,
    fields: [
      ...action === 'append' ? [{ name: 'quantity', label: 'Quantity for each, in minor units', amount: true }] : [],
      { name: 'reason', label: 'Reason', hint: 'for the audit log' },
      { name: 'count', label: `How many budgets? Type ${units(n)}`, amount: true },
    ],
    plan: (v) => {
      const quantity = amount(v.quantity ?? '')
      if (action === 'append' && quantity === null) return 'Type a quantity: digits, grouped if you like.'
      if (!v.reason.trim()) return 'Say why.'
      if (amount(v.count) !== n) return `Type ${units(n)} to confirm that so many are changed.`
      return action === 'append' ? [['Budgets', of, of], ['Total of each', '–', `+${units(quantity!)}`]]
        : [['Budgets', of, did[action]]]
    },
    verb: `${verbs[action]} ${of}`, danger: action === 'pause',
    run: async (v) => said(action, await bulk({ request_id: id, action, expected: n, reason: v.reason.trim(),
      filter: 'filter' in chosen ? chosen.filter : { tenant: '*', budgets: chosen.rows.map(nameOf) },
      ...action === 'append' ? { quantity: amount(v.quantity) } : {} })),
  }
}

/** Repeats a call until none is left: the same request id goes on where it stopped. */
async function bulk(body: Record<string, unknown>): Promise<Answer> {
  const ask = () => call<Answer>('v1/budgets:bulk', { method: 'POST', body })
  let answer = await ask()
  for (let left = Infinity; answer.left > 0 && answer.left < left;) {
    left = answer.left
    answer = await ask()
  }
  return answer
}

/** How many failures are shown. */
const shown = 20

function said(action: Action, a: Answer) {
  const failed = a.rows.filter((r) => r.outcome !== 'done' && r.outcome !== 'unchanged')
  return (
    <>
      <p>{units(a.done)} {did[action]}{a.unchanged > 0 && `, ${units(a.unchanged)} were so before`}
        {a.failed > 0 && `, ${units(a.failed)} failed`}{a.left > 0 && `, ${units(a.left)} left: do it again`}.</p>
      {failed.slice(0, shown).map((r) => (
        <p key={r.tenant + '/' + r.budget} class="small"><strong>{r.tenant}/{r.budget}</strong>{' '}
          <code>{r.outcome}</code> {r.detail}</p>
      ))}
      {failed.length > shown && <p class="small">… and {units(failed.length - shown)} more.</p>}
    </>
  )
}
