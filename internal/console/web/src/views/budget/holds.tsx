// What is held, and releasing it.
import { call } from '../../api'
import { ChangeButton, type Change } from '../../change'
import { ago, instant, units } from '../../format'
import { useCall } from '../../load'
import { Card, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import { may } from '../../session'
import { remaining, type Budget, type Hold } from '../../types'
import type { Took } from './versions'

export function Holds({ b, took }: { b: Budget; took: Took }) {
  const list = useCall<{ holds: Hold[] }>(budgetPath(b.name, b.tenant, '/holds'), 5000)
  return (
    <Card title="Holds, those first that expire first" width={b.limits.length ? 'w6' : 'w12'}
      end={<span class="quiet">{units(b.held)} held</span>}>
      <Shown of={list} empty={(l) => l.holds.length === 0} none={<p>Nothing is held.</p>}>
        {({ holds }) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Holds</caption>
              <thead><tr><th>Request</th><th class="num">Amount</th><th>Held</th><th>Expires</th><th /></tr></thead>
              <tbody>
                {holds.map((h) => (
                  <tr key={h.request_id}>
                    <th scope="row" class="mono">{h.request_id}</th>
                    <td class="num" data-label="Amount">{units(h.amount)}</td>
                    <td data-label="Held" title={instant(h.held_at)}>{ago(h.held_at)}</td>
                    <td data-label="Expires" title={instant(h.hold_until)}>{ago(h.hold_until)}</td>
                    <td>{may('rollback') && <ChangeButton slim label="Release" done={list.reload}
                      make={() => release(b, h, took)} />}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
    </Card>
  )
}

function release(b: Budget, h: Hold, took: Took): Change {
  return {
    title: `Release the hold ${h.request_id}`,
    intro: 'It is rolled back: its owner can no longer confirm it, and the units can be spent again.',
    plan: () => [['Held', units(b.held), units(b.held - h.amount)],
      ['Remaining', remaining(b), remaining(b, h.amount)]],
    verb: 'Release it', danger: true,
    run: async () => {
      await call(budgetPath(b.name, b.tenant, '/rollback'), { method: 'POST',
        body: { request_id: h.request_id } })
      took(await call<Budget>(budgetPath(b.name, b.tenant)))
      return `${units(h.amount)} were released.`
    },
  }
}
