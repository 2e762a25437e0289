// Units whose store lost its memory: what of them was sold is not known, and a person decides.
import { call } from '../../api'
import { ChangeButton, requestID, type Change } from '../../change'
import { amount, instant, unitName, units } from '../../format'
import { useCall } from '../../load'
import { Card, Mark, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import { may, me } from '../../session'
import { remaining, type Budget } from '../../types'
import type { Took } from './versions'

interface Quarantine { bucket: string; epoch: number; quantity: number; released: number; held: number
  cause: string; at: string; releases: Decision[] }
interface Decision { request_id: string; quantity: number; used: boolean; reason: string; by: string; at: string }
interface List { held: number; quarantines: Quarantine[] }

export function Quarantined({ b, took }: { b: Budget; took: Took }) {
  const list = useCall<List>(budgetPath(b.name, b.tenant, '/quarantine'), 5000)
  return (
    <Card title="Quarantine" end={<>
      <Mark tone={b.quarantined ? 'warn' : 'good'} dot>{units(b.quarantined)} {unitName(b.unit)}</Mark>
      {' '}{may('operator') && b.quarantined > 0 &&
        <ChangeButton slim label="Decide" done={list.reload} make={() => release(b, took)} />}
    </>}>
      <Shown of={list} empty={(l) => l.quarantines.length === 0}
        none={<p>No store lost units of this budget.</p>}>
        {({ quarantines }) => (
          <>
            <p class="small quiet">A store lost its memory with these units. How many of them were sold is
              not known. Count what was sold elsewhere, then decide.</p>
            <div class="scroll">
              <table class="cards">
                <caption class="unseen">Quarantine</caption>
                <thead><tr><th>Bucket</th><th class="num">Held</th><th class="num">Released</th>
                  <th>Since</th><th>Why</th></tr></thead>
                <tbody>
                  {quarantines.map((q) => (
                    <tr key={`${q.bucket} ${q.epoch}`}>
                      <th scope="row" class="mono">{q.bucket}</th>
                      <td class="num" data-label="Held">{units(q.held)} of {units(q.quantity)}</td>
                      <td class="num" data-label="Released">{units(q.released)}</td>
                      <td data-label="Since">{instant(q.at)}</td>
                      <td data-label="Why">{q.cause}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <Decisions of={quarantines} />
          </>
        )}
      </Shown>
    </Card>
  )
}

/** Who released what, and why. */
function Decisions({ of }: { of: Quarantine[] }) {
  const all = of.flatMap((q) => q.releases.map((r) => ({ ...r, bucket: q.bucket })))
  if (!all.length) return null
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">Decisions</caption>
        <thead><tr><th>Decided</th><th class="num">Units</th><th>Bucket</th><th>As</th><th>By</th><th>Why</th></tr></thead>
        <tbody>
          {all.map((r) => (
            <tr key={`${r.request_id} ${r.bucket}`}>
              <th scope="row">{instant(r.at)}</th>
              <td class="num" data-label="Units">{units(r.quantity)}</td>
              <td data-label="Bucket" class="mono">{r.bucket}</td>
              <td data-label="As">{r.used ? 'sold' : 'not sold'}</td>
              <td data-label="By">{r.by || 'nobody named'}</td>
              <td data-label="Why">{r.reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function release(b: Budget, took: Took): Change {
  const id = requestID()
  const all = b.quarantined
  const nobody = me.value?.principal === 'anonymous'
  return {
    title: `Decide on the quarantine of ${b.name}`,
    intro: 'What you release leaves the quarantine for good. The audit log keeps your reason.',
    fields: [
      // Nothing is chosen beforehand: a click too many would sell units twice.
      { name: 'fate', label: 'These units', options: [['', 'choose'],
        ['unsold', 'were not sold: give them back to the budget'], ['sold', 'were sold: count them as used']] },
      { name: 'quantity', label: `Quantity, in ${unitName(b.unit)}`, amount: true,
        hint: `${units(all)} are in quarantine` },
      { name: 'reason', label: 'Reason', hint: 'how you know it' },
      ...(nobody ? [{ name: 'by', label: 'Who decides' }] : []),
    ],
    plan: (v) => {
      if (!v.fate) return 'Choose whether they were sold.'
      const n = amount(v.quantity)
      if (n === null) return 'Type a quantity: digits, grouped if you like.'
      if (n > all) return `That is more than is in quarantine: ${units(all)}.`
      if (!v.reason.trim()) return 'Type a reason.'
      const back = v.fate === 'sold' ? 0 : n
      return [['Quarantined', units(all), units(all - n)],
        ['Remaining', remaining(b), remaining(b, back)],
        ['Used', units(b.used), units(b.used + n - back)]]
    },
    verb: 'Release', danger: true,
    run: async (v) => {
      const done = await call<{ released: number; quarantined: number }>(
        budgetPath(b.name, b.tenant, '/quarantine/release'), { method: 'POST', body: {
          request_id: id, quantity: amount(v.quantity), reason: v.reason.trim(),
          ...(v.fate === 'sold' ? { used: true } : {}), ...(v.by?.trim() ? { by: v.by.trim() } : {}) } })
      took(await call<Budget>(budgetPath(b.name, b.tenant)))
      return `${units(done.released)} ${v.fate === 'sold' ? 'count as used' : 'went back to the budget'}; ${
        units(done.quarantined)} are still in quarantine.`
    },
  }
}
