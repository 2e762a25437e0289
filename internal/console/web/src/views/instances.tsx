// The stores: which answers, which has what, and moving buckets away.
import { call } from '../api'
import { ChangeButton, type Change } from '../change'
import { instant, units } from '../format'
import { useLive } from '../live'
import { Card, Failure, Mark } from '../parts'
import { everywhere, may } from '../session'
import type { Instance, Overview } from '../types'

interface Drain { instance: string; draining: boolean; buckets_left: number; moved: number
  keys_left: number; done: boolean; problem?: string }

export function Instances() {
  const { data: o, error } = useLive<Overview>('v1/events', 'overview')
  return (
    <>
      <div class="head">
        <h1>Instances</h1>
        {o && <span class="quiet">{o.instances.length} configured</span>}
        {may('operator') && o && o.instances.length > 1 &&
          <div class="end"><ChangeButton label="Rebalance" make={() => rebalance(o)} /></div>}
      </div>
      {error && <Failure error={error} />}
      {!o && !error && <p class="loading" role="status">Loading …</p>}
      {o && o.reasons.length > 0 && (
        <ul class="failure">{o.reasons.map((r) => <li key={r}>{r}</li>)}</ul>
      )}
      {o?.instances.map((i) => <One key={i.name} i={i} />)}
    </>
  )
}

/** What a loss of its memory would cost; undefined if that is not known. */
const atRisk = (i: Instance) => (i.partitions.some((l) => l.at_risk === undefined) ? undefined
  : i.partitions.reduce((n, l) => n + (l.at_risk ?? 0), 0))

const total = (i: Instance) => i.partitions.reduce((n, l) => n + (l.buckets ?? 0), 0)

function One({ i }: { i: Instance }) {
  return (
    <Card title={i.name} end={
      <span class="buttons">
        {i.draining && <Mark tone="warn">draining</Mark>}
        <Mark tone={i.health === 'up' ? 'good' : 'bad'} dot>{i.health}</Mark>
      </span>
    }>
      <p class="quiet">
        {i.driver ?? 'unknown driver'} · {units(total(i))} {total(i) === 1 ? 'bucket' : 'buckets'}
        {i.draining && ` left to move`}
        {atRisk(i) !== undefined && (atRisk(i) ? ` · ${units(atRisk(i))} units at risk: a loss of its ` +
          'memory would put them into quarantine, or give them back where a budget assumes them unused'
          : ' · nothing at risk: no budget in store mode has units here')}
      </p>
      <div class="scroll">
        <table class="cards">
          <caption class="unseen">Partitions of {i.name}</caption>
          <thead><tr><th>Partition</th><th>Reached</th><th class="num">Buckets</th>
            <th>Role</th><th class="num">At risk</th><th>Contents since</th><th>Problem</th></tr></thead>
          <tbody>
            {i.partitions.map((l) => (
              <tr key={l.partition}>
                <th scope="row">{i.name}/{l.partition}</th>
                <td data-label="Reached"><Mark tone={l.reachable ? 'good' : 'bad'} dot>
                  {l.reachable ? 'yes' : 'no'}</Mark></td>
                <td class="num" data-label="Buckets">{units(l.buckets)}</td>
                <td data-label="Role">{l.role ?? '–'}</td>
                <td class="num" data-label="At risk">{units(l.at_risk)}</td>
                <td data-label="Contents since">{l.began_at ? <>{instant(l.began_at)}
                  <div class="small quiet">incarnation {units(l.incarnation)}: {l.cause}</div></>
                  : '–'}</td>
                <td data-label="Problem">{l.problem ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {may('operator') && everywhere() && (
        <div class="buttons" style={{ marginTop: '10px' }}>
          {i.draining ? <ChangeButton slim label={`Undrain ${i.name}`} make={() => drain(i, false)} />
            : <ChangeButton slim label={`Drain ${i.name}`} make={() => drain(i, true)} />}
          <ChangeButton slim label={`Recover ${i.name}`} make={() => recover(i)} />
        </div>
      )}
    </Card>
  )
}

function drain(i: Instance, away: boolean): Change {
  return {
    title: `${away ? 'Drain' : 'Undrain'} ${i.name}`,
    intro: away ? 'Every bucket moves to another instance; nothing stops for it.'
      : 'Buckets can land on it again. Rebalance gives it its share.',
    plan: () => [['State', i.draining ? 'draining' : 'in use', away ? 'draining' : 'in use'],
      ['Buckets', units(total(i)), away ? '0' : units(total(i))]],
    verb: away ? 'Drain it' : 'Undrain it', danger: away,
    run: async () => {
      const d = await call<Drain>(`v1/instances/${encodeURIComponent(i.name)}/${away ? 'drain' : 'undrain'}`,
        { method: 'POST' })
      return <>
        <p>{d.draining ? `${i.name} is being drained: ${units(d.moved)} buckets moved, ${
          units(d.buckets_left)} left.` : `${i.name} is in use.`} This page shows how it goes on.</p>
        {d.problem && <p>{d.problem}</p>}
      </>
    },
  }
}

function recover(i: Instance): Change {
  return {
    title: `Recover ${i.name}`,
    intro: 'It takes an instance back that lost its memory. In ledger mode there is nothing to recover.',
    plan: () => [['Health', i.health, 'looked at again']], verb: 'Recover it',
    run: async () => {
      const now = await call<Instance>(`v1/instances/${encodeURIComponent(i.name)}/recover`, { method: 'POST' })
      return `${i.name} is ${now.health ?? 'as it was'}.`
    },
  }
}

function rebalance(o: Overview): Change {
  const all = o.instances.reduce((n, i) => n + total(i), 0)
  const takers = o.instances.filter((i) => i.health === 'up' && !i.draining)
  return {
    title: 'Rebalance', intro: 'Each instance gets its share of the buckets of every budget.',
    plan: () => takers.map((i) => [i.name, `${units(total(i))} buckets`,
      `about ${units(Math.round(all / takers.length))}`]),
    verb: 'Rebalance',
    run: async () => {
      const r = await call<Record<string, unknown>>('v1/instances:rebalance', { method: 'POST' })
      return Object.entries(r).filter(([, v]) => typeof v !== 'object')
        .map(([k, v]) => `${k.replaceAll('_', ' ')}: ${v}`).join(', ') || 'It is done.'
    },
  }
}
