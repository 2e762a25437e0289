// Decides on what is in quarantine, for many budgets at once.
import { call } from '../../api'
import { requestID, type Change, type Line } from '../../change'
import { unitName, units } from '../../format'
import { budgetPath } from '../../paths'
import { me } from '../../session'
import type { Budget } from '../../types'

type Held = Pick<Budget, 'tenant' | 'name' | 'unit' | 'quarantined'>

/** The decisions that are under way at a time. */
const atOnce = 8

/** Releases all that is in quarantine of these budgets now, with one reason. What comes into quarantine
 * afterwards stays there. A repeated click goes on: each budget has its own request id. */
export function decide(budgets: Held[]): Change {
  const id = requestID()
  const done = new Set<Held>()
  const n = units(budgets.length)
  const held = (unit: Budget['unit']) =>
    budgets.filter((b) => b.unit === unit).reduce((sum, b) => sum + b.quarantined, 0)
  const nobody = me.value?.principal === 'anonymous'
  return {
    title: `Decide on the quarantine of ${n} budgets`,
    intro: 'All that is in quarantine of them leaves it for good. The audit log keeps your reason.',
    fields: [
      // Nothing is chosen beforehand: a click too many would sell units twice.
      { name: 'fate', label: 'These units', options: [['', 'choose'],
        ['unsold', 'were not sold: give them back to the budgets'], ['sold', 'were sold: count them as used']] },
      { name: 'reason', label: 'Reason', hint: 'how you know it' },
      ...(nobody ? [{ name: 'by', label: 'Who decides' }] : []),
    ],
    plan: (v) => {
      if (!v.fate) return 'Choose whether they were sold.'
      if (!v.reason.trim()) return 'Type a reason.'
      return (['count', 'amount'] as const).filter((unit) => held(unit) > 0).map((unit): Line =>
        [`Quarantined ${unitName(unit)}`, units(held(unit)), `0: all ${v.fate === 'sold' ? 'used' : 'given back'}`])
    },
    verb: `Release those of ${n} budgets`, danger: true,
    run: async (v) => {
      const failed: string[] = []
      const left = budgets.filter((b) => !done.has(b))
      const worker = async () => {
        for (let b = left.shift(); b; b = left.shift()) {
          try {
            await call(budgetPath(b.name, b.tenant, '/quarantine/release'), { method: 'POST', body: {
              request_id: id, quantity: b.quarantined, reason: v.reason.trim(),
              ...(v.fate === 'sold' ? { used: true } : {}), ...(v.by?.trim() ? { by: v.by.trim() } : {}) } })
            done.add(b)
          } catch (e) {
            failed.push(`${b.tenant}/${b.name}: ${e instanceof Error ? e.message : e}`)
          }
        }
      }
      await Promise.all(Array.from({ length: atOnce }, worker))
      return (
        <>
          <p>{units(done.size)} of {n} budgets are decided: their units {
            v.fate === 'sold' ? 'count as used' : 'went back'}.</p>
          {failed.map((why) => <p key={why} class="small">{why}</p>)}
        </>
      )
    },
  }
}
