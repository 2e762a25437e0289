// What can be done with a whole budget.
import { call } from '../../api'
import { ChangeButton, requestID, type Change, type Line } from '../../change'
import { amount, orUnlimited, unitName, units } from '../../format'
import { budgetPath } from '../../paths'
import { remaining, unspent, type Budget, type Recycle } from '../../types'
import type { Took } from './versions'

export function Actions({ b, took }: { b: Budget; took: Took }) {
  const status = (paused: boolean): Change => ({
    title: paused ? `Pause ${b.name}` : `Resume ${b.name}`,
    intro: paused ? 'Every deduction is refused with budget_paused until it is resumed. What is held stays held.'
      : undefined,
    plan: () => [['Status', b.status, paused ? 'paused' : 'effective'],
      ...paused ? [['Accepted in the last minute', units(b.calls?.accepted ?? 0), '0'] as Line,
        ['Held', units(b.held), units(b.held)] as Line] : []],
    verb: paused ? 'Pause it' : 'Resume it', danger: paused,
    run: async () => {
      const now = await call<Budget>(budgetPath(b.name, b.tenant), { method: 'PATCH', version: b.version,
        body: { status: paused ? 'paused' : 'effective' } })
      took(now)
      return `${now.name} is ${now.status}.`
    },
  })
  return (
    <>
      {!b.unlimited && <ChangeButton label="Append" make={() => adjust(b, 1, took)} />}
      {!b.unlimited && <ChangeButton label="Shrink" make={() => adjust(b, -1, took)} />}
      {b.status === 'paused' ? <ChangeButton label="Resume" make={() => status(false)} />
        : b.status !== 'expired' && <ChangeButton label="Pause" make={() => status(true)} />}
      <ChangeButton label="Recycle" make={() => ({
        title: `Recycle ${b.name}`,
        intro: 'What is left in its buckets goes back to the total and out again by recent demand. ' +
          'Nothing stops for it.',
        plan: () => [['In buckets', orUnlimited(b.in_buckets), 'spread again by recent demand'],
          ['Total', orUnlimited(b.total_quantity), orUnlimited(b.total_quantity)]],
        verb: 'Recycle it',
        run: async () => {
          const r = await call<Recycle>(budgetPath(b.name, b.tenant, '/recycle'), { method: 'POST' })
          return `${units(r.moved)} moved in ${r.buckets} buckets; ${units(r.stranded_after)} are stranded now.`
        },
      })} />
    </>
  )
}

function adjust(b: Budget, sign: 1 | -1, took: Took): Change {
  const id = requestID()
  const word = sign > 0 ? 'Append to' : 'Shrink'
  const free = unspent(b) ?? 0
  return {
    title: `${word} ${b.name}`,
    intro: sign > 0 ? undefined : `At most what is neither used nor held: ${units(free)}.`,
    fields: [{ name: 'quantity', label: `Quantity, in ${unitName(b.unit)}`, amount: true }],
    plan: (v) => {
      const n = amount(v.quantity)
      if (n === null) return 'Type a quantity: digits, grouped if you like.'
      if (sign < 0 && n > free) return `That is more than is neither used nor held: ${units(free)}.`
      return [['Total', units(b.total_quantity), units((b.total_quantity ?? 0) + sign * n)],
        ['Neither used nor held', units(free), units(free + sign * n)], ['Used', units(b.used), units(b.used)]]
    },
    verb: sign > 0 ? 'Append' : 'Shrink', danger: sign < 0,
    run: async (v) => {
      const quantity = sign * amount(v.quantity)!
      const now = await call<Budget & { state: string }>(budgetPath(b.name, b.tenant, '/append'),
        { method: 'POST', body: { request_id: id, quantity } })
      took(now)
      return `${now.state === 'done' ? '' : `The shrink is ${now.state}. `}The total of ${now.name} is ${
        units(now.total_quantity)}, and ${remaining(now)} remain.`
    },
  }
}
