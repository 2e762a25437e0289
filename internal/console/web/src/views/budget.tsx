// One budget: where its units are, how fast they go, which bucket has them, what happened last.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { budgetPath, call, type Refused } from '../api'
import { ChangeButton, requestID, type Change } from '../change'
import { Chart } from '../chart'
import { ago, amount, instant, rate, share, span, unitName, units } from '../format'
import { follow } from '../live'
import { useCall } from '../load'
import { Card, Failure, Mark, Shown, Status } from '../parts'
import { href } from '../route'
import { may } from '../session'
import { Quarantined } from './quarantine'
import { Alerting } from './thresholds'
import { homeName, left, storeOf, type Audit, type Bucket, type Budget, type Entry, type Hold,
  type Limit, type NearestValues, type Recycle, type Series } from '../types'

const mostEntries = 200

type Took = (now: Budget) => void

/** The later of two versions of a budget: an event may be older than the answer to a change. */
function newer(old: Budget | undefined, now: Budget): Budget {
  return old?.id === now.id && old.version > now.version ? old : now
}

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
        <h1>{b.name}</h1><Status of={b.status} />
        <span class="quiet">{b.tenant} · {b.type} · {b.durability} mode · {unitName(b.unit)}</span>
        {may('operator') && <div class="end buttons"><Actions b={b} took={took} /></div>}
      </div>
      <div class="grid">
        <Figures b={b} />
        <Burn b={b} />
        <Books b={b} />
        <Buckets b={b} />
        {(b.durability === 'store' || b.quarantined > 0) && <Quarantined b={b} took={took} />}
        {b.limits.length > 0 && <Limits b={b} took={took} />}
        {b.durability === 'ledger' && <Holds b={b} took={took} />}
        <Alerting b={b} />
        <Recycles b={b} />
        {b.durability === 'ledger' && <Feed entries={entries} unit={unitName(b.unit)} />}
      </div>
    </>
  )
}

function Figures({ b }: { b: Budget }) {
  const p = b.period
  return (
    <Card title={`Figures, in ${unitName(b.unit)}`}>
      <dl class="figures">
        <div><dt>Left</dt><dd>{b.unlimited ? 'unlimited' : units(left(b))} <small>
          {share(left(b) ?? 0, b.total_quantity)}</small></dd></div>
        <div><dt>Held</dt><dd>{units(b.held)}</dd></div>
        <div><dt>Used</dt><dd>{units(b.used)} <small>{share(b.used, b.total_quantity)}</small></dd></div>
        <div><dt>Total</dt><dd>{b.unlimited ? 'unlimited' : units(b.total_quantity)}</dd></div>
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

const spans: [string, string, number][] = [['1h', 'the last hour', 3600], ['6h', '6 hours', 21600],
  ['24h', '24 hours', 86400], ['7d', '7 days', 604800], ['30d', '30 days', 2592000]]

function Burn({ b }: { b: Budget }) {
  const [over, choose] = useState('1h')
  return (
    <Card title="Burn-down against the release curve" width="w8" end={
      <label class="row small">over
        <select value={over} onChange={(e) => choose(e.currentTarget.value)}>
          {spans.map(([k, label]) => <option key={k} value={k}>{label}</option>)}
        </select>
      </label>
    }>
      <Burned key={over} b={b} seconds={spans.find(([k]) => k === over)![2]} />
    </Card>
  )
}

/** The span moves with the clock: it ends now, whenever it is asked. */
function Burned({ b, seconds }: { b: Budget; seconds: number }) {
  const from = () => `&from=${new Date(Date.now() - seconds * 1000).toISOString().slice(0, 16)}:00Z`
  const series = useCall<Series>(budgetPath(b.name, b.tenant, '/series'), 15_000, from)
  return <Shown of={series}>{(s) => <><Outlook s={s} b={b} /><Curve s={s} /></>}</Shown>
}

const curves = [
  { label: 'Left', token: '--s-left', fill: true }, { label: 'Released', token: '--quiet', steps: true },
  { label: 'Used and held', token: '--s-used' }, { label: 'Projection', token: '--s-left', dash: true },
]

function Curve({ s }: { s: Series }) {
  const [x, values] = useMemo(() => {
    const points = [...s.points, s.now]
    const at = points.map((p) => Date.parse(p.at) / 1000)
    const spare = points.map((p) => p.undistributed + p.in_buckets + p.in_transit)
    const projected: (number | null)[] = points.map(() => null)
    const rows: (number | null)[][] = [spare, points.map((p) => p.released),
      points.map((p) => p.used + p.held)]
    const from = Date.parse(s.from) / 1000
    if (at[0] > from) { // the whole span is shown, although there are no figures for its beginning
      at.unshift(from);
      [projected, ...rows].forEach((r) => r.unshift(null))
    }
    if (s.exhausted_at) {
      const now = at[at.length - 1]
      const end = Date.parse(s.exhausted_at) / 1000
      const until = Math.min(end, now + (now - at[0]) / 2 + 60)
      projected[at.length - 1] = spare[spare.length - 1]
      at.push(until)
      projected.push(Math.max(0, spare[spare.length - 1] - s.rate_per_s * (until - now)))
      rows.forEach((r) => r.push(null))
    }
    return [at, [...rows, projected]]
  }, [s])
  return <Chart x={x} lines={curves} values={values} height={230}
    label="What is left, what was released and what is used over time" />
}

function Outlook({ s, b }: { s: Series; b: Budget }) {
  const words = {
    exhausted: 'Nothing is left.',
    projected: `At ${rate(s.rate_per_s)} it runs out ${ago(s.exhausted_at)}, at ${
      instant(s.exhausted_at, b.timezone)}.`,
    not_before_end: `At ${rate(s.rate_per_s)} it lasts until its end, ${instant(b.end_at, b.timezone)}.`,
    not_for_years: `At ${rate(s.rate_per_s)} it lasts for more than ten years.`,
    not_used: 'Nothing was used in the last 15 minutes.',
    not_known: 'There is no earlier sample yet to project from; samples are taken each minute.',
  }
  return <p><strong>{words[s.projection]}</strong></p>
}

const parts: [string, string, string, (a: Audit) => number][] = [
  ['F', 'not funded', 'unfunded', (a) => a.not_funded],
  ['U', 'undistributed', 'undistributed', (a) => a.undistributed - a.not_funded],
  ['O', 'in buckets', 'left', (a) => a.in_buckets], ['H', 'held', 'held', (a) => a.held],
  ['S', 'used', 'used', (a) => a.used], ['R', 'in transit', 'transit', (a) => a.in_transit],
  ['Q', 'quarantined', 'quarantine', (a) => a.quarantined],
  ['X', 'forfeited', 'forfeited', (a) => a.forfeited],
]

function Books({ b }: { b: Budget }) {
  const audit = useCall<Audit>(budgetPath(b.name, b.tenant, '/audit'))
  const at = useMemo(() => new Date().toISOString(), [audit.data])
  return (
    <Card title="Conservation" width="w4"
      end={<button type="button" class="slim" onClick={audit.reload}>Audit now</button>}>
      <Shown of={audit}>
        {(a) => {
          const sum = parts.reduce((n, [, , , f]) => n + f(a), 0)
          return (
            <>
              <p>
                <Mark tone={a.ok ? 'good' : 'bad'} dot>{a.ok ? 'every unit is accounted for'
                  : `${a.discrepancies.length} discrepancies`}</Mark>
                <span class="quiet small"> audited {instant(at)}</span>
              </p>
              {b.unlimited ? <p class="quiet">An unlimited budget has no total to conserve.</p> : (
                <>
                  <p class="small mono" style={{ margin: '8px 0' }}>
                    T {units(a.total)} = F + U + O + H + S + R + Q + X {sum === a.total ? '' : units(sum)}
                  </p>
                  <div class="strip" aria-hidden="true">
                    {parts.map(([letter, , tone, f]) => <i key={letter}
                      class={f(a) ? tone : 'none'} style={{ flexGrow: f(a) / (a.total || 1) }} />)}
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
              {a.unchecked && <p class="small">Not reached: {a.unchecked.join(', ')}</p>}
            </>
          )
        }}
      </Shown>
    </Card>
  )
}

function Buckets({ b }: { b: Budget }) {
  const list = useCall<{ buckets: Bucket[] }>(budgetPath(b.name, b.tenant, '/buckets'), 3000)
  const [shown, show] = useState('')
  return (
    <Card title="Buckets" end={<span class="quiet">{b.buckets.online} online
      {b.buckets.offline > 0 && `, ${b.buckets.offline} offline`}</span>}>
      <Shown of={list} empty={(l) => l.buckets.length === 0} none={<p>It has no bucket.</p>}>
        {({ buckets }) => {
          const most = Math.max(...buckets.map((k) => k.remaining), 1)
          const one = buckets.find((k) => k.key === shown)
          const groups = Map.groupBy(buckets.toSorted((x, y) => storeOf(x.home) < storeOf(y.home) ? -1
            : storeOf(x.home) > storeOf(y.home) ? 1 : x.ordinal - y.ordinal), (k) => storeOf(k.home))
          return (
            <div class="map">
              {[...groups].map(([store, own]) => (
                <section key={store} aria-label={`Buckets in ${store}`}>
                  <h3>{store} · {own.length} of {buckets.length} buckets ({
                    share(own.length, buckets.length)} of the ring) · {
                    units(own.reduce((n, k) => n + k.remaining, 0))} left</h3>
                  <div class="squares">
                    {own.map((k) => (
                      <button key={k.key} type="button"
                        class={`square ${k.halted ? 'halted' : k.status === 'offline' ? 'offline'
                          : k.epoch_status === 'lost' ? 'quarantined' : ''}`}
                        style={{ '--full': Math.round((100 * k.remaining) / most) }}
                        aria-label={`${k.key}, ${k.halted ? 'halted' : k.status}, ${units(k.remaining)} left`}
                        aria-pressed={k.key === shown}
                        onMouseEnter={() => show(k.key)} onFocus={() => show(k.key)}
                        onClick={() => show(k.key)} />
                    ))}
                  </div>
                </section>
              ))}
              <div class="tip" role="status">
                {one ? <BucketLine k={one} b={b} done={list.reload} />
                  : <p class="quiet small">A square is a bucket; the fuller its colour, the more it has
                    left. Dashed: offline. Red: halted. Amber: its store lost its memory.</p>}
              </div>
            </div>
          )
        }}
      </Shown>
    </Card>
  )
}

function BucketLine({ k, b, done }: { k: Bucket; b: Budget; done: () => void }) {
  const change = (word: 'offline' | 'online' | 'apply', more: Pick<Change, 'plan' | 'intro' | 'verb'>): Change => ({
    title: `${k.key}: ${word}`, ...more,
    run: async () => {
      const now = await call<Bucket>(budgetPath(b.name, b.tenant,
        `/buckets/${encodeURIComponent(k.key)}/${word}`), { method: 'POST' })
      return `${now.key} is ${now.status} and has ${units(now.remaining)} left.`
    },
  })
  return (
    <div class="stack">
      <p>
        <b class="mono">{k.key}</b> <Mark tone={k.halted ? 'bad' : k.status === 'online' ? 'good' : ''}>
          {k.halted ? 'halted' : k.status}{k.offline_by ? ` by ${k.offline_by}` : ''}</Mark>
        {' '}{units(k.remaining)} left, {units(k.held)} held, {units(k.used)} used;
        in {homeName(k.home)}, epoch {k.epoch}, applied {units(k.out_cnt)} times
        for {units(k.out_quantity)}, changed {ago(k.updated_at)}.
      </p>
      {k.halted && <p class="failure">{k.halted}</p>}
      {may('operator') && (
        <div class="buttons">
          {k.status === 'online' ? (
            <ChangeButton slim label="Take offline" done={done} make={() => change('offline', {
              plan: () => [['Status', 'online', 'offline'], ['In this bucket', units(k.remaining), '0'],
                ['Undistributed', units(b.undistributed), units((b.undistributed ?? 0) + k.remaining)]],
              intro: 'What it has goes back to the total; requests go to the other buckets.',
              verb: 'Take it offline' })} />
          ) : (
            <ChangeButton slim label="Bring online" done={done} make={() => change('online', {
              plan: () => [['Status', 'offline', 'online']],
              intro: 'It takes requests again and applies for units.', verb: 'Bring it online' })} />
          )}
          {k.halted && <ChangeButton slim label="Resume" done={done} make={() => resume(k, b)} />}
          {k.status === 'online' && <ChangeButton slim label="Apply for units" done={done}
            make={() => change('apply', {
              plan: () => [['In this bucket', units(k.remaining), `${units(k.remaining)} or more`]],
              intro: 'It gets what the rule of the budget allows now.', verb: 'Apply' })} />}
        </div>
      )}
    </div>
  )
}

function resume(k: Bucket, b: Budget): Change {
  return {
    title: `${k.key}: resume`,
    intro: 'The whole budget is audited first, which may take minutes. The halt stays if anything is ' +
      'wrong in this bucket.',
    plan: () => [['Halt', k.halted ?? 'none', 'none, if the audit finds nothing wrong']],
    verb: 'Audit and resume', danger: true,
    run: async () => {
      const now = await call<Bucket>(budgetPath(b.name, b.tenant,
        `/buckets/${encodeURIComponent(k.key)}/resume`), { method: 'POST' })
      return now.halted ? `It stays halted: ${now.halted}` : `${now.key} takes requests again.`
    },
  }
}

function windowOf(l: Limit): string {
  const w = l.window
  if (w.kind === 'calendar') return `each ${w.every} (${w.timezone || 'UTC'})`
  if (w.kind === 'lifetime') return 'ever'
  return `${w.kind === 'sliding' ? 'in any' : 'from the first, for'} ${w.length}`
}

function Limits({ b, took }: { b: Budget; took: Took }) {
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
      location.hash = href(['refusals'], { tenant: b.tenant, budget: b.name, value })
    }}>
      <label>What did a {dimension} use, and why was it refused?
        <input value={value} onInput={(e) => set(e.currentTarget.value)} required /></label>
      <button>Look</button>
    </form>
  )
}

function Holds({ b, took }: { b: Budget; took: Took }) {
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
      ['Left', units(left(b)), units((left(b) ?? 0) + h.amount)]],
    verb: 'Release it', danger: true,
    run: async () => {
      await call(budgetPath(b.name, b.tenant, '/rollback'), { method: 'POST',
        body: { request_id: h.request_id } })
      took(await call<Budget>(budgetPath(b.name, b.tenant)))
      return `${units(h.amount)} were released.`
    },
  }
}

function Recycles({ b }: { b: Budget }) {
  const list = useCall<{ recycles: Recycle[] }>(budgetPath(b.name, b.tenant, '/recycles',
    { page_size: 10 }), 15_000)
  return (
    <Card title="Recycles" width="w6">
      <Shown of={list} empty={(l) => l.recycles.length === 0} none={<p>It was never recycled.</p>}>
        {({ recycles }) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Recycles</caption>
              <thead><tr><th>Began</th><th>Cause</th><th class="num">Moved</th>
                <th class="num">Stranded before</th><th class="num">after</th><th>Took</th></tr></thead>
              <tbody>
                {recycles.map((r) => (
                  <tr key={r.run}>
                    <th scope="row">{instant(r.began_at)}</th>
                    <td data-label="Cause">{r.cause}</td>
                    <td class="num" data-label="Moved">{units(r.moved)}</td>
                    <td class="num" data-label="Stranded before">{units(r.stranded_before)}</td>
                    <td class="num" data-label="after">{units(r.stranded_after)}</td>
                    <td data-label="Took">{r.ended_at
                      ? span(Date.parse(r.ended_at) - Date.parse(r.began_at)) : r.status}</td>
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

function Feed({ entries, unit }: { entries: Entry[]; unit: string }) {
  const [kind, choose] = useState('')
  const [text, search] = useState('')
  const shown = entries.filter((e) => (!kind || e.kind === kind) && (!text ||
    JSON.stringify([e.request_id, e.reference, e.dimensions, e.bucket]).includes(text)))
  return (
    <Card title="What happened last" end={<span class="quiet">amounts in {unit}</span>} width="w6">
      <div class="tools" style={{ marginBottom: '8px' }}>
        <label>Kind
          <select value={kind} onChange={(e) => choose(e.currentTarget.value)}>
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

function Actions({ b, took }: { b: Budget; took: Took }) {
  const status = (paused: boolean): Change => ({
    title: paused ? `Pause ${b.name}` : `Resume ${b.name}`,
    intro: paused ? 'Every deduction is refused with budget_paused until it is resumed.' : undefined,
    plan: () => [['Status', b.status, paused ? 'paused' : 'effective']],
    verb: paused ? 'Pause it' : 'Resume it', danger: paused,
    run: async () => {
      const now = await call<Budget>(budgetPath(b.name, b.tenant), { method: 'PATCH', version: b.version,
        body: { status: paused ? 'paused' : 'effective' } })
      took(now)
      return `${now.name} is ${now.status}.`
    },
  })
  return (
    <>
      {!b.unlimited && <ChangeButton label="Append" make={() => adjust(b, 1, took)} />}
      {!b.unlimited && <ChangeButton label="Shrink" make={() => adjust(b, -1, took)} />}
      {b.status === 'paused' ? <ChangeButton label="Resume" make={() => status(false)} />
        : b.status !== 'expired' && <ChangeButton label="Pause" make={() => status(true)} />}
      <ChangeButton label="Recycle" make={() => ({
        title: `Recycle ${b.name}`,
        intro: 'What is left in its buckets goes back to the total and out again by recent demand. ' +
          'Nothing stops for it.',
        plan: () => [['In buckets', units(b.in_buckets), 'spread again by recent demand'],
          ['Total', units(b.total_quantity), units(b.total_quantity)]],
        verb: 'Recycle it',
        run: async () => {
          const r = await call<Recycle>(budgetPath(b.name, b.tenant, '/recycle'), { method: 'POST' })
          return `${units(r.moved)} moved in ${r.buckets} buckets; ${units(r.stranded_after)} are stranded now.`
        },
      })} />
    </>
  )
}

function adjust(b: Budget, sign: 1 | -1, took: Took): Change {
  const id = requestID()
  const word = sign > 0 ? 'Append to' : 'Shrink'
  const free = left(b) ?? 0
  return {
    title: `${word} ${b.name}`,
    intro: sign > 0 ? undefined : `At most what is neither used nor held: ${units(free)}.`,
    fields: [{ name: 'quantity', label: `Quantity, in ${unitName(b.unit)}`, amount: true }],
    plan: (v) => {
      const n = amount(v.quantity)
      if (n === null) return 'Type a quantity: digits, grouped if you like.'
      if (sign < 0 && n > free) return `That is more than is left: ${units(free)}.`
      return [['Total', units(b.total_quantity), units((b.total_quantity ?? 0) + sign * n)],
        ['Left', units(free), units(free + sign * n)], ['Used', units(b.used), units(b.used)]]
    },
    verb: sign > 0 ? 'Append' : 'Shrink', danger: sign < 0,
    run: async (v) => {
      const quantity = sign * amount(v.quantity)!
      const now = await call<Budget & { state: string }>(budgetPath(b.name, b.tenant, '/append'),
        { method: 'POST', body: { request_id: id, quantity } })
      took(now)
      return `${now.state === 'done' ? '' : `The shrink is ${now.state}. `}The total of ${now.name} is ${
        units(now.total_quantity)}, and ${units(left(now))} are left.`
    },
  }
}
