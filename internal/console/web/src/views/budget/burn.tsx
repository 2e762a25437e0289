// How fast a budget goes: what is not spent over time, and when it runs out.
import { useMemo } from 'preact/hooks'
import { Chart } from '../../chart'
import { useCall } from '../../load'
import { Card, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import { useQuery } from '../../route'
import type { Budget, Series } from '../../types'
import { curve, outlook } from './projection'

const spans: [string, string, number][] = [['1h', 'the last hour', 3600], ['6h', '6 hours', 21600],
  ['24h', '24 hours', 86400], ['7d', '7 days', 604800], ['30d', '30 days', 2592000]]

export function Burn({ b }: { b: Budget }) {
  const [{ over }, set] = useQuery({ over: '1h' })
  const [chosen, , seconds] = spans.find(([k]) => k === over) ?? spans[0]
  return (
    <Card title="Burn-down against the release curve" width="w8" end={
      <label class="row small">over
        <select value={chosen} onChange={(e) => set({ over: e.currentTarget.value })}>
          {spans.map(([k, label]) => <option key={k} value={k}>{label}</option>)}
        </select>
      </label>
    }>
      <Burned key={chosen} b={b} seconds={seconds} />
    </Card>
  )
}

/** The span moves with the clock: it ends now, whenever it is asked. */
function Burned({ b, seconds }: { b: Budget; seconds: number }) {
  const from = () => `&from=${new Date(Date.now() - seconds * 1000).toISOString().slice(0, 16)}:00Z`
  const series = useCall<Series>(budgetPath(b.name, b.tenant, '/series'), 15_000, from)
  return <Shown of={series}>{(s) => <><p><strong>{outlook(s, b)}</strong></p><Curve s={s} /></>}</Shown>
}

const curves = [
  { label: 'Not spent', token: '--s-left', fill: true }, { label: 'Released', token: '--quiet', steps: true },
  { label: 'Used and held', token: '--s-used' }, { label: 'Projection', token: '--s-left', dash: true },
]

function Curve({ s }: { s: Series }) {
  const [x, values] = useMemo(() => curve(s), [s])
  return <Chart x={x} lines={curves} values={values} height={230}
    label="What is not spent, what was released and what is used over time" />
}
