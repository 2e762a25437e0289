// Where every unit is, and whether all of them are accounted for.
import { useMemo } from 'preact/hooks'
import { instant, units } from '../../format'
import { useCall } from '../../load'
import { Card, Mark, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import type { Audit, Budget } from '../../types'

const parts: [string, string, string, (a: Audit) => number | null][] = [
  ['F', 'not funded', 'unfunded', (a) => a.not_funded],
  ['U', 'undistributed', 'undistributed', (a) => a.undistributed],
  ['O', 'in buckets', 'left', (a) => a.in_buckets], ['H', 'held', 'held', (a) => a.held],
  ['S', 'used', 'used', (a) => a.used], ['R', 'in transit', 'transit', (a) => a.in_transit],
  ['Q', 'quarantined', 'quarantine', (a) => a.quarantined],
  ['X', 'forfeited', 'forfeited', (a) => a.forfeited],
  ['A', 'with its children', 'children', (a) => a.with_children ?? 0],
]

export function Conservation({ b }: { b: Budget }) {
  const audit = useCall<Audit>(budgetPath(b.name, b.tenant, '/audit'))
  const at = useMemo(() => new Date().toISOString(), [audit.data])
  return (
    <Card title="Conservation" width="w4"
      end={<button type="button" class="slim" onClick={audit.reload}>Audit now</button>}>
      <Shown of={audit}>
        {(a) => {
          const sum = parts.reduce((n, [, , , f]) => n + (f(a) ?? 0), 0)
          return (
            <>
              <p>
                <Mark tone={!a.ok ? 'bad' : a.unchecked ? 'warn' : 'good'} dot>{!a.ok
                  ? `${a.discrepancies.length} discrepancies` : a.unchecked
                    ? `accounted for, except ${units(a.unchecked.length)} buckets that were not reached`
                    : 'every unit is accounted for'}</Mark>
                <span class="quiet small"> audited {instant(at)}</span>
              </p>
              {b.unlimited ? <p class="quiet">An unlimited budget has no total to conserve.</p> : (
                <>
                  <p class="small mono" style={{ margin: '8px 0' }}>
                    T {units(a.total)} = F + U + O + H + S + R + Q + X + A {sum === a.total ? '' : units(sum)}
                  </p>
                  <div class="strip" aria-hidden="true">
                    {parts.map(([letter, , tone, f]) => <i key={letter}
                      class={f(a) ? tone : 'none'} style={{ flexGrow: (f(a) ?? 0) / (a.total || 1) }} />)}
                  </div>
                  <ul class="legend" aria-label="Where the units are">
                    {parts.map(([letter, label, tone, f]) => (
                      <li key={letter}><span class={`swatch ${tone}`} aria-hidden="true" />
                        <span><b>{letter}</b> {label}</span><span class="num">{units(f(a))}</span></li>
                    ))}
                  </ul>
                </>
              )}
              {a.at_risk > 0 && <p class="small quiet">{units(a.at_risk)} would go into quarantine if
                every store lost its memory.</p>}
              {a.discrepancies.map((d, i) => <pre class="failure small" key={i}>
                {JSON.stringify(d, null, 1)}</pre>)}
              {a.unchecked && <p class="small">Not reached, so the ledger’s figures of them were not
                compared with the store: {a.unchecked.join(', ')}</p>}
            </>
          )
        }}
      </Shown>
    </Card>
  )
}
