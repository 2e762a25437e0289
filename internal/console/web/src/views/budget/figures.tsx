// How much remains, held and used, now and in the period.
import { ago, instant, share, unitName, orUnlimited, units } from '../../format'
import { Card, Remaining } from '../../parts'
import type { Budget } from '../../types'

export function Figures({ b }: { b: Budget }) {
  const p = b.period
  return (
    <Card title={`Figures, in ${unitName(b.unit)}`}>
      <dl class="figures">
        <div><dt>Remaining</dt><dd><Remaining b={b} />{!b.unlimited && <small>
          {' '}{share(b.remaining ?? 0, b.total_quantity)}</small>}</dd></div>
        {!!b.out_of_reach && <div><dt>Out of reach</dt><dd>{units(b.out_of_reach)} <small>{b.until
          ? `until ${instant(b.until, b.timezone)}` : 'now'}</small></dd></div>}
        <div><dt>Held</dt><dd>{units(b.held)}</dd></div>
        <div><dt>Used</dt><dd>{units(b.used)} <small>{share(b.used, b.total_quantity)}</small></dd></div>
        <div><dt>Total</dt><dd>{orUnlimited(b.total_quantity)}</dd></div>
        {b.quarantined > 0 && <div><dt>Quarantined</dt><dd>{units(b.quarantined)}</dd></div>}
        {!!b.pending_shrink && <div><dt>Shrinks that wait</dt><dd>{units(b.pending_shrink)}</dd></div>}
      </dl>
      {p && (
        <p style={{ marginTop: '12px' }}>
          Period {p.number}: {units(p.used)} of {units(p.total)} used ({share(p.used, p.total)}),
          from {instant(p.start, b.timezone)} to {instant(p.end, b.timezone)}
          {b.next_reset_at && <>; the next one begins {ago(b.next_reset_at)}</>}.
        </p>
      )}
      <p class="small quiet" style={{ marginTop: '6px' }}>
        {b.start_at ? `From ${instant(b.start_at, b.timezone)}` : `Since ${instant(b.effective_at, b.timezone)}`}
        {b.end_at ? ` until ${instant(b.end_at, b.timezone)}` : ', without an end'}
        {b.gl_code && ` · ledger account ${b.gl_code}`} · version {b.version}
      </p>
    </Card>
  )
}
