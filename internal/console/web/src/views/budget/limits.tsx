// The limits of a budget, and which values are near them.
import { useState } from 'preact/hooks'
import { call } from '../../api'
import { ChangeButton, type Change } from '../../change'
import { amount, instant, unitName, units } from '../../format'
import { useCall } from '../../load'
import { Card, Failure } from '../../parts'
import { budgetPath } from '../../paths'
import { visit } from '../../route'
import { may } from '../../session'
import type { Budget, Limit, NearestValues } from '../../types'
import type { Took } from './versions'
import { windowOf } from './window'

export function Limits({ b, took }: { b: Budget; took: Took }) {
  return (
    <Card title="Limits" width="w6">
      <div class="scroll">
        <table class="cards">
          <caption class="unseen">Limits</caption>
          <thead><tr><th>Limit</th><th>Per</th><th>Window</th><th class="num">Max</th><th /></tr></thead>
          <tbody>
            {b.limits.map((l) => (
              <tr key={l.name}>
                <th scope="row">{l.name}</th>
                <td data-label="Per">{l.dimension}</td>
                <td data-label="Window">{windowOf(l)}</td>
                <td class="num" data-label="Max">{units(l.max)} {l.measure === 'count' ? 'calls'
                  : unitName(b.unit)}{l.enforce === false && ' (counted only)'}</td>
                <td>{may('admin') && <ChangeButton slim label="Change"
                  make={() => limitChange(b, l, took)} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {b.durability === 'ledger' && b.limits.map((l) => <Nearest key={l.name} b={b} l={l} />)}
      <Asked b={b} />
    </Card>
  )
}

function limitChange(b: Budget, l: Limit, took: Took): Change {
  return {
    title: `Maximum of ${l.name}`, intro: 'It holds on every node within a second. Counts go on.',
    fields: [{ name: 'max', label: 'Maximum', initial: String(l.max), amount: true }],
    plan: (v) => {
      const max = v.max.trim() === '0' ? 0 : amount(v.max)
      if (max === null) return 'Type a maximum: digits.'
      return max === l.max ? 'Type another maximum.' : [[`${l.name}, per ${l.dimension} ${windowOf(l)}`,
        units(l.max), units(max)]]
    },
    verb: 'Change the maximum',
    run: async (v) => {
      const max = v.max.trim() === '0' ? 0 : amount(v.max)
      const now = await call<Budget>(budgetPath(b.name, b.tenant), { method: 'PATCH', version: b.version,
        body: { limits: b.limits.map((one) => (one.name === l.name ? { ...one, max } : one)) } })
      took(now)
      return `${l.name} now allows ${units(now.limits.find((o) => o.name === l.name)?.max)}.`
    },
  }
}

/** The values nearest the maximum of a limit. They are read when somebody asks for them. */
function Nearest({ b, l }: { b: Budget; l: Limit }) {
  const [asked, ask] = useState(false)
  const path = budgetPath(b.name, b.tenant, `/limits/${encodeURIComponent(l.name)}/nearest`)
  const { data, error, loading, reload } = useCall<NearestValues>(asked ? path : '')
  return (
    <div style={{ marginTop: '10px' }}>
      <button onClick={() => { if (asked) reload(); ask(true) }}>
        Values nearest the maximum of {l.name}</button>
      {loading && <p class="loading" role="status">Loading …</p>}
      {error && <Failure error={error} />}
      {data && <>
        {data.values.length > 0 && (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Nearest the maximum of {l.name}</caption>
              <thead><tr><th>{l.dimension}</th><th class="num">Used</th><th class="num">Max</th>
                <th>Resets</th></tr></thead>
              <tbody>
                {data.values.map((v) => (
                  <tr key={v.value}>
                    <th scope="row">{v.value}</th>
                    <td class="num" data-label="Used">{units(v.used)}</td>
                    <td class="num" data-label="Max">{units(v.max)}</td>
                    <td data-label="Resets">{v.reset_at ? instant(v.reset_at) : 'never'}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <p class="quiet">{data.values.length === 0 && 'No value has used anything in this window. '}
          {units(data.read)} values were read{data.complete ? ': all that have counts.'
            : '. Others may have used more.'}</p>
      </>}
    </div>
  )
}

/** What a value has used of the limits. */
function Asked({ b }: { b: Budget }) {
  const [value, set] = useState('')
  const dimension = b.limits[0].dimension.split('+')[0]
  return (
    <form class="tools" style={{ marginTop: '10px' }} onSubmit={(e) => {
      e.preventDefault()
      visit(['refusals'], { tenant: b.tenant, budget: b.name, value })
    }}>
      <label>What did a {dimension} use, and why was it refused?
        <input value={value} onInput={(e) => set(e.currentTarget.value)} required /></label>
      <button>Look</button>
    </form>
  )
}
