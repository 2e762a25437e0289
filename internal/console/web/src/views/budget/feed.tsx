// The last entries of a budget.
import { instant, units } from '../../format'
import { Card } from '../../parts'
import { useQuery } from '../../route'
import { useTyped } from '../../typed'
import type { Entry } from '../../types'

export function Feed({ entries, unit }: { entries: Entry[]; unit: string }) {
  const [{ kind, contains }, set] = useQuery({ kind: '', contains: '' })
  const [text, search] = useTyped(contains, (text) => set({ contains: text }))
  const shown = entries.filter((e) => (!kind || e.kind === kind) && (!text ||
    JSON.stringify([e.request_id, e.reference, e.dimensions, e.bucket]).includes(text)))
  return (
    <Card title="What happened last" end={<span class="quiet">amounts in {unit}</span>} width="w6">
      <div class="tools" style={{ marginBottom: '8px' }}>
        <label>Kind
          <select value={kind} onChange={(e) => set({ kind: e.currentTarget.value })}>
            <option value="">any</option>
            {['deduct', 'rollback', 'confirm', 'expire'].map((k) => <option key={k}>{k}</option>)}
          </select>
        </label>
        <label>Contains<input value={text} placeholder="id, value, bucket"
          onInput={(e) => search(e.currentTarget.value)} /></label>
      </div>
      {shown.length === 0 ? <p class="empty">{entries.length ? 'None of the last entries fits.'
        : 'Nothing has happened yet.'}</p> : (
        <div class="scroll events" tabIndex={0} role="region" aria-label="Entries">
          <table class="cards">
            <caption class="unseen">What happened last</caption>
            <thead><tr><th>At</th><th>Kind</th><th class="num">Amount</th><th>Request</th><th>Bucket</th></tr></thead>
            <tbody>
              {shown.map((e) => (
                <tr key={`${e.bucket} ${e.entry}`}>
                  <td data-label="At" title={e.at}>{instant(e.at)}</td>
                  <td data-label="Kind">{e.kind}{e.held && e.kind === 'deduct' ? ' (hold)' : ''}</td>
                  <td class="num" data-label="Amount">{units(e.amount)}</td>
                  <td class="mono" data-label="Request">{e.request_id}</td>
                  <td class="mono" data-label="Bucket">{e.bucket.split(':')[1]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  )
}
