// Who may do what, and who did what.
import { href } from '../address'
import { call } from '../api'
import { ChangeButton, type Change } from '../change'
import { instant, units } from '../format'
import { useCall } from '../load'
import { Card, Mark, Shown } from '../parts'
import { queryOf } from '../paths'
import { useQuery } from '../route'
import { may } from '../session'
import { useTyped } from '../typed'

interface Key { id: string; principal: string; role: string; tenant?: string; budgets?: string[]
  created_at: string; created_by: string; expires_at?: string; last_used_at?: string; revoked_at?: string }

export function Keys() {
  const list = useCall<{ keys: Key[] }>(`v1/keys${queryOf({ page_size: 500 })}`, 15_000)
  return (
    <>
      <div class="head"><h1>Keys</h1>
        {may('admin') && <div class="end"><ChangeButton label="New key" done={list.reload} make={create} /></div>}
      </div>
      <div class="card">
        <Shown of={list} empty={(l) => l.keys.length === 0} none={<p>There is no key.</p>}>
          {({ keys }) => (
            <div class="scroll">
              <table class="cards">
                <caption class="unseen">Keys</caption>
                <thead><tr><th>Principal</th><th>Key</th><th>Role</th><th>For</th><th>Last used</th>
                  <th>Expires</th><th /></tr></thead>
                <tbody>
                  {keys.map((k) => (
                    <tr key={k.id}>
                      <th scope="row">{k.principal}</th>
                      <td data-label="Key" class="mono">{k.id}</td>
                      <td data-label="Role">{k.role}</td>
                      <td data-label="For">{k.tenant || 'all tenants'}{k.budgets?.length ? `: ${k.budgets.join(', ')}` : ''}</td>
                      <td data-label="Last used">{k.last_used_at ? `in the hour from ${instant(k.last_used_at)}` : 'never'}</td>
                      <td data-label="Expires">{k.revoked_at ? <Mark tone="bad">revoked</Mark>
                        : k.expires_at ? instant(k.expires_at) : 'never'}</td>
                      <td>{!k.revoked_at && <ChangeButton slim label={`Revoke ${k.id}`} done={list.reload}
                        make={() => revoke(k)} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Shown>
      </div>
    </>
  )
}

function create(): Change {
  return {
    title: 'New key', fields: [
      { name: 'principal', label: 'Principal', hint: 'whose key it is' },
      { name: 'role', label: 'Role', initial: 'read',
        options: ['read', 'deduct', 'rollback', 'operator', 'admin'].map((r) => [r, r]) },
      { name: 'tenant', label: 'Tenant', hint: 'empty: all tenants that you may see' },
    ],
    plan: (v) => (v.principal.trim() ? [['Key', 'none', `${v.principal.trim()}, ${v.role}, ${
      v.tenant || 'all tenants'}`]] : 'Type whose key it is.'),
    verb: 'Make the key',
    run: async (v) => {
      const made = await call<{ token: string }>('v1/keys', { method: 'POST',
        body: { principal: v.principal.trim(), role: v.role, ...(v.tenant ? { tenant: v.tenant } : {}) } })
      return <><p>This is shown once. Keep it now:</p><p class="mono">{made.token}</p></>
    },
  }
}

function revoke(k: Key): Change {
  return {
    title: `Revoke the key of ${k.principal}`, intro: 'Every node refuses it within a second, for good.',
    plan: () => [[`Key ${k.id}`, `${k.role}, live`, 'revoked']], verb: 'Revoke it', danger: true,
    run: async () => {
      await call(`v1/keys/${k.id}/revoke`, { method: 'POST' })
      return `The key ${k.id} is revoked.`
    },
  }
}

interface Row { seq: number; at: string; principal?: string; key_id?: string; source?: string
  op: string; tenant?: string; target?: string; request_id?: string; outcome: string; times?: number
  before?: string | null; after?: string | null; correlation_id?: string }

/** The entries of a page. */
const shown = 50

export function AuditLog() {
  const [query, set] = useQuery({ principal: '', op: '', tenant: '', target: '', before: '' })
  const { principal, op, tenant, target } = query
  const before = Number(query.before) || 0
  const from = (seq: number) => set({ before: seq ? String(seq) : '' })
  const path = `v1/audit-log${queryOf({ sort: '-seq', principal, op, tenant, target,
    before: before || undefined, limit: shown })}`
  const page = useCall<{ entries: Row[] }>(path, 10_000)
  const [principalText, typePrincipal] = useTyped(principal, (text) => set({ principal: text, before: '' }))
  const [opText, typeOp] = useTyped(op, (text) => set({ op: text, before: '' }))
  const [targetText, typeTarget] = useTyped(target, (text) => set({ target: text, tenant: '', before: '' }))
  return (
    <>
      <div class="head"><h1>Audit log</h1><span class="quiet">the newest first</span></div>
      <div class="card stack">
        <div class="tools">
          <label>Principal<input value={principalText}
            onInput={(e) => typePrincipal(e.currentTarget.value)} /></label>
          <label>Call<input value={opText} placeholder="append, drain …"
            onInput={(e) => typeOp(e.currentTarget.value)} /></label>
          <label>On<input value={targetText} placeholder="a budget, instance or key"
            onInput={(e) => typeTarget(e.currentTarget.value)} /></label>
        </div>
        <Shown of={page} empty={(p) => p.entries.length === 0} none={<><p>There is no {before > 0 ? 'older' : 'such'} entry.</p>
            {before > 0 && <button type="button" onClick={() => from(0)}>Newest</button>}</>}>
          {({ entries }) => (
            <>
              <div class="scroll">
                <table class="cards">
                  <caption class="unseen">Audit log</caption>
                  <thead><tr><th class="num">No.</th><th>At</th><th>Who</th><th>Call</th><th>On</th>
                    <th>Outcome</th><th>Change</th></tr></thead>
                  <tbody>{entries.map((r) => <Line key={r.seq} r={r} />)}</tbody>
                </table>
              </div>
              {(before > 0 || entries.length === shown) && <nav class="buttons" aria-label="Pages">
                <button type="button" disabled={!before} onClick={() => from(0)}>Newest</button>
                <button type="button" disabled={entries.length < shown}
                  onClick={() => from(entries[entries.length - 1].seq)}>Older</button>
              </nav>}
            </>
          )}
        </Shown>
      </div>
    </>
  )
}

/** Who changed a budget, and what became what. */
export function TargetChanges({ tenant, target }: { tenant: string; target: string }) {
  const page = useCall<{ entries: Row[] }>(`v1/audit-log${queryOf({ sort: '-seq', tenant, target, limit: 10 })}`, 10_000)
  return (
    <Card title="Changes" end={<a href={href(['audit-log'], { tenant, target })}>All of them</a>}>
      <Shown of={page} empty={(p) => p.entries.length === 0} none={<p>Nobody changed it.</p>}>
        {({ entries }) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Changes</caption>
              <thead><tr><th>At</th><th>Who</th><th>Call</th><th>Outcome</th><th>What became what</th></tr></thead>
              <tbody>{entries.map((r) => (
                <tr key={r.seq}>
                  <th scope="row">{instant(r.at)}</th>
                  <td data-label="Who">{r.principal || 'nobody'}</td>
                  <td data-label="Call">{r.op}</td>
                  <td data-label="Outcome"><Outcome r={r} /></td>
                  <td data-label="What became what">{r.before && r.after
                    ? <Fields before={r.before} after={r.after} /> : '–'}</td>
                </tr>
              ))}</tbody>
            </table>
          </div>
        )}
      </Shown>
    </Card>
  )
}

function Outcome({ r }: { r: Row }) {
  return <><Mark tone={r.outcome === 'done' ? 'good' : 'warn'}>{r.outcome}</Mark>
    {(r.times ?? 1) > 1 && ` ${units(r.times)} times`}</>
}

function Line({ r }: { r: Row }) {
  return (
    <tr>
      <td class="num" data-label="No.">{units(r.seq)}</td>
      <td data-label="At">{instant(r.at)}</td>
      <td data-label="Who">{r.principal || 'nobody'} <span class="quiet small">{r.source}</span></td>
      <td data-label="Call">{r.op}</td>
      <td data-label="On">{[r.tenant, r.target].filter(Boolean).join('/') || '–'}</td>
      <td data-label="Outcome"><Outcome r={r} /></td>
      <td data-label="Change">{r.before || r.after ? <Changes before={r.before} after={r.after} /> : '–'}</td>
    </tr>
  )
}

interface Definitions { before?: string | null; after?: string | null }

/** What of a definition became another. */
function differences({ before, after }: Definitions): [name: string, was: string, is: string][] {
  const a = before ? JSON.parse(before) as Record<string, unknown> : {}
  const z = after ? JSON.parse(after) as Record<string, unknown> : {}
  const names = [...new Set([...Object.keys(a), ...Object.keys(z)])]
    .filter((n) => JSON.stringify(a[n]) !== JSON.stringify(z[n]))
  const text = (v: unknown) => (typeof v === 'number' ? units(v) : v === undefined ? '–'
    : typeof v === 'string' ? v : JSON.stringify(v))
  return names.map((n) => [n, text(a[n]), text(z[n])])
}

function Fields(of: Definitions) {
  return <ul class="small">{differences(of).map(([n, was, is]) => <li key={n}><b>{n}</b> {was} → {is}</li>)}</ul>
}

function Changes(of: Definitions) {
  const n = differences(of).length
  return <details><summary>{n} {n === 1 ? 'field' : 'fields'}</summary><Fields {...of} /></details>
}
