// When a budget needs attention.
import { call, Refused } from '../../api'
import { ChangeButton, type Change, type Field, type Values } from '../../change'
import { amount, share, units } from '../../format'
import { useCall } from '../../load'
import { Card, Mark, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import { may } from '../../session'
import type { Budget } from '../../types'
import { nameOf, read, shared, words, type Threshold } from './threshold'

interface Thresholds { thresholds: Threshold[]; own: boolean }

const most = 16

export function Alerting({ b }: { b: Budget }) {
  const list = useCall<Thresholds>(budgetPath(b.name, b.tenant, '/thresholds'), 15_000)
  const now = list.data
  return (
    <Card title="Alert thresholds" width="w6" end={<>
      {now && <Mark>{now.own ? 'its own' : 'the defaults'}</Mark>}{' '}
      {may('operator') && now && <ChangeButton slim label="Add a threshold" done={list.reload}
        make={() => add(b, now)} />}
      {' '}{may('operator') && now?.own && <ChangeButton slim label="Use the defaults" done={list.reload}
        make={() => defaults(b, now)} />}
    </>}>
      <Shown of={list} empty={(l) => l.thresholds.length === 0}
        none={<p>Nothing about this budget raises an alert.</p>}>
        {(l) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Alert thresholds</caption>
              <thead><tr><th>Threshold</th><th>Alerts when</th><th /></tr></thead>
              <tbody>
                {l.thresholds.map((t) => (
                  <tr key={nameOf(t)}>
                    <th scope="row"><code>{nameOf(t)}</code></th>
                    <td data-label="Alerts when">{words(t)}</td>
                    <td>{may('operator') && <span class="buttons">
                      {t.percent !== undefined && <ChangeButton slim label={`Change ${nameOf(t)}`}
                        text="Change" done={list.reload} make={() => change(b, l, t)} />}
                      <ChangeButton slim label={`Remove ${nameOf(t)}`} text="Remove" done={list.reload}
                        make={() => remove(b, l, t)} /></span>}</td>
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

/** Replaces the thresholds, unless they are not those any more that the person saw. */
async function replace(b: Budget, seen: Thresholds, next: Threshold[] | null): Promise<Thresholds> {
  const path = budgetPath(b.name, b.tenant, '/thresholds')
  const now = await call<Thresholds>(path)
  if (JSON.stringify(now) !== JSON.stringify(seen)) {
    throw new Refused({ status: 412, code: 'changed_meanwhile', title: 'Somebody changed the thresholds',
      detail: 'Close this, look at the thresholds, and begin again. Nothing was changed.' })
  }
  return call<Thresholds>(path, { method: 'PUT', body: { thresholds: next } })
}

const count = (l: Thresholds) => `${l.thresholds.length}, ${l.own ? 'its own' : 'the defaults'}`

/** What a threshold does as things are. */
function atOnce(b: Budget, t: Threshold): [string, string, string][] {
  const whole = b.total_quantity
  if (t.kind !== 'used_share' || t.of !== 'total' || !whole) return []
  const spent = b.used + b.held
  return [['Used or held now', share(spent, whole),
    spent * 100 >= whole * t.percent! ? 'it fires within seconds' : 'it does not fire yet']]
}

function fieldsOf(b: Budget): Field[] {
  const single = b.durability === 'ledger' ? b.limits.filter((l) => !l.dimension.includes('+')) : []
  return [
    { name: 'what', label: 'Alert when', initial: 'used_share/total', options: [
      ['used_share/total', 'a share of the total is used or held'],
      ['used_share/period', 'a share of the period is used or held'],
      ...single.map((l): [string, string] => [`used_share/limit/${l.name}`,
        `a ${l.dimension} used a share of ${l.name}`]),
      ['exhausted/total', 'nothing of the total is left'],
      ['exhausted/period', 'nothing of the period is left'],
      ['projected/total', 'the total will run out before the end'],
      ['projected/period', 'the period will run out before its end'],
      ['stranded_share', 'a share of the total cannot be reached'],
      ['quarantine', 'units are in quarantine'],
    ] },
    { name: 'value', label: 'Whose use', hint: 'the value of the dimension',
      applies: (v) => v.what.startsWith('used_share/limit/') },
    { name: 'percent', label: 'Percent', amount: true, applies: shared },
  ]
}

function add(b: Budget, seen: Thresholds): Change {
  return {
    title: `Add a threshold to ${b.name}`, fields: fieldsOf(b),
    intro: seen.own ? undefined : 'The budget keeps the defaults, as thresholds of its own, and gets one more.',
    plan: (v) => {
      const t = read(v)
      if (typeof t === 'string') return t
      if (seen.thresholds.some((o) => nameOf(o) === nameOf(t))) return `It has ${nameOf(t)} already.`
      if (seen.thresholds.length === most) return `It has ${most} thresholds, which is the most.`
      return [[nameOf(t), 'none', words(t)], ['Thresholds', count(seen),
        `${seen.thresholds.length + 1}, its own`], ...atOnce(b, t)]
    },
    verb: 'Add it',
    run: async (v) => {
      const t = read(v) as Threshold
      const now = await replace(b, seen, [...seen.thresholds, t])
      return `${b.name} alerts when ${words(t)}. It has ${now.thresholds.length} thresholds.`
    },
  }
}

function change(b: Budget, seen: Thresholds, t: Threshold): Change {
  const next = (v: Values): Threshold => ({ ...t, percent: amount(v.percent) ?? 0 })
  return {
    title: `Change ${nameOf(t)}`,
    intro: 'If it fires, its alert is resolved as threshold_removed, and the changed one begins afresh.',
    fields: [{ name: 'percent', label: 'Percent', amount: true, initial: String(t.percent) }],
    plan: (v) => {
      const z = next(v)
      if (z.percent! < 1 || z.percent! > 100) return 'Type a percentage: 1 to 100.'
      if (seen.thresholds.some((o) => nameOf(o) === nameOf(z))) {
        return z.percent === t.percent ? 'Type another percentage.' : `It has ${nameOf(z)} already.`
      }
      return [['Alerts when', words(t), words(z)], ...atOnce(b, z)]
    },
    verb: 'Change it',
    run: async (v) => {
      await replace(b, seen, seen.thresholds.map((o) => (o === t ? next(v) : o)))
      return `${b.name} now alerts when ${words(next(v))}.`
    },
  }
}

function remove(b: Budget, seen: Thresholds, t: Threshold): Change {
  return {
    title: `Remove ${nameOf(t)}`, intro: 'If it fires, its alert is resolved as threshold_removed.',
    plan: () => [[nameOf(t), words(t), 'none'],
      ['Thresholds', count(seen), `${seen.thresholds.length - 1}, its own`]],
    verb: 'Remove it', danger: true,
    run: async () => {
      const now = await replace(b, seen, seen.thresholds.filter((o) => o !== t))
      return `${nameOf(t)} is gone. ${b.name} has ${units(now.thresholds.length)} thresholds.`
    },
  }
}

function defaults(b: Budget, seen: Thresholds): Change {
  return {
    title: `Use the defaults for ${b.name}`,
    intro: 'Its own thresholds go. Alerts of those that are no defaults are resolved as threshold_removed.',
    plan: () => [['Thresholds', seen.thresholds.map(nameOf).join(', ') || 'none', 'the defaults']],
    verb: 'Use the defaults', danger: true,
    run: async () => {
      const now = await replace(b, seen, null)
      return `${b.name} has the defaults: ${now.thresholds.map(nameOf).join(', ') || 'none'}.`
    },
  }
}
