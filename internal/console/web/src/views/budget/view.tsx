// One budget: where its units are, how fast they go, which bucket has them, what happened last.
import { useEffect, useState } from 'preact/hooks'
import { type Refused } from '../../api'
import { unitName } from '../../format'
import { follow } from '../../live'
import { Failure, Serves } from '../../parts'
import { budgetPath } from '../../paths'
import { everywhere, may } from '../../session'
import type { Budget, Entry } from '../../types'
import { TargetChanges } from '../access'
import { Actions } from './actions'
import { Band } from './band'
import { Buckets } from './buckets'
import { Burn } from './burn'
import { Conservation } from './conservation'
import { Feed } from './feed'
import { Figures } from './figures'
import { Holds } from './holds'
import { Limits } from './limits'
import { Quarantined } from './quarantine'
import { Recycles } from './recycles'
import { Alerting } from './thresholds'
import { newer, type Took } from './versions'

const mostEntries = 200

export function BudgetView({ tenant, name }: { tenant: string; name: string }) {
  const [b, set] = useState<Budget>()
  const [entries, add] = useState<Entry[]>([])
  const [error, fail] = useState<Refused>()
  useEffect(() => {
    set(undefined); add([]); fail(undefined)
    return follow(budgetPath(name, tenant, '/events'), (e) => {
      if (e.type === 'budget') set((old) => newer(old, JSON.parse(e.data) as Budget))
      if (e.type === 'entries') {
        const { entries } = JSON.parse(e.data) as { entries: Entry[] }
        if (entries.length) add((old) => [...entries.reverse(), ...old].slice(0, mostEntries))
      }
    }, fail)
  }, [tenant, name])
  /** Shows what a change answered: the next change is of that version. */
  const took: Took = (now) => set((old) => (old?.id === now.id ? newer(old, now) : old))
  if (error) return <><h1>{name}</h1><Failure error={error} /></>
  if (!b) return <><h1>{name}</h1><p class="loading" role="status">Loading …</p></>
  return (
    <>
      <div class="head">
        <h1>{b.name}</h1><Serves b={b} />
        <span class="quiet">{b.tenant} · {b.type} · {b.durability} mode · {unitName(b.unit)}</span>
        {may('operator') && <div class="end buttons"><Actions b={b} took={took} /></div>}
      </div>
      <Band b={b} />
      <div class="grid">
        <Figures b={b} />
        <Burn b={b} />
        <Conservation b={b} />
        <Buckets b={b} />
        {(b.durability === 'store' || b.quarantined > 0) && <Quarantined b={b} took={took} />}
        {b.limits.length > 0 && <Limits b={b} took={took} />}
        {b.durability === 'ledger' && <Holds b={b} took={took} />}
        <Alerting b={b} />
        {may('admin') && everywhere() && <TargetChanges tenant={b.tenant} target={b.name} />}
        <Recycles b={b} />
        {b.durability === 'ledger' && <Feed entries={entries} unit={unitName(b.unit)} />}
      </div>
    </>
  )
}
