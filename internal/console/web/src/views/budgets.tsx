// All budgets, a page at a time: the server searches and sorts.
import { useCall } from '../load'
import { queryOf } from '../api'
import { instant, share, units } from '../format'
import { Meter, Shown, Status } from '../parts'
import { budgetHref } from '../route'
import { left, type Budget, type BudgetPage } from '../types'

export function Budgets() {
  const page = useCall<BudgetPage>(`v1/budgets${queryOf({ tenant: '*', page_size: 50 })}`, 5000)
  return (
    <>
      <div class="head"><h1>Budgets</h1></div>
      <div class="card">
        <Shown of={page} empty={(p) => p.budgets.length === 0} none={<p>There is no budget yet.</p>}>
          {(p) => <Table rows={p.budgets} />}
        </Shown>
      </div>
    </>
  )
}

function Table({ rows }: { rows: Budget[] }) {
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Budgets</caption>
        <thead>
          <tr><th>Name</th><th>Status</th><th class="num">Left</th><th class="num">Held</th>
            <th class="num">Used</th><th class="num">Total</th><th>Used share</th><th>Ends</th></tr>
        </thead>
        <tbody>
          {rows.map((b) => (
            <tr key={b.id}>
              <th scope="row"><a href={budgetHref(b.tenant, b.name)}>{b.name}</a></th>
              <td data-label="Status"><Status of={b.status} /></td>
              <td class="num" data-label="Left">{units(left(b))}</td>
              <td class="num" data-label="Held">{units(b.held)}</td>
              <td class="num" data-label="Used">{units(b.used)}</td>
              <td class="num" data-label="Total">{b.unlimited ? 'unlimited' : units(b.total_quantity)}</td>
              <td data-label="Used share">{share(b.used, b.total_quantity)}<Meter b={b} /></td>
              <td data-label="Ends">{instant(b.end_at, b.timezone)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
