// The buckets as squares, by store, and what can be done with one.
import { useState } from 'preact/hooks'
import { call } from '../../api'
import { ChangeButton, type Change } from '../../change'
import { ago, share, orUnlimited, units } from '../../format'
import { useCall } from '../../load'
import { Card, Mark, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import { useQuery } from '../../route'
import { may } from '../../session'
import { homeName, storeOf, type Bucket, type Budget } from '../../types'
import { fullOf, inOrder, moved, stateOf, wordOf } from './squares'

export function Buckets({ b }: { b: Budget }) {
  const list = useCall<{ buckets: Bucket[] }>(budgetPath(b.name, b.tenant, '/buckets'), 3000)
  const [{ bucket }, set] = useQuery({ bucket: '' })
  const [over, show] = useState('') // where the pointer or the focus was last
  const shown = over || bucket
  return (
    <Card title="Buckets" end={<span class="quiet">{b.buckets.online} online
      {b.buckets.offline > 0 && `, ${b.buckets.offline} offline`}
      {!!b.buckets.unreachable && `, ${b.buckets.unreachable} out of reach`}</span>}>
      <Shown of={list} empty={(l) => l.buckets.length === 0} none={<p>It has no bucket.</p>}>
        {({ buckets }) => {
          const full = fullOf(buckets.map((k) => k.remaining))
          const one = buckets.find((k) => k.key === shown)
          const groups = Map.groupBy(inOrder(buckets), (k) => storeOf(k.home))
          const stop = one ? one.key : [...groups.values()][0]?.[0]?.key // all squares are one stop of Tab
          const move = (e: KeyboardEvent & { currentTarget: HTMLElement }) => {
            const all = [...e.currentTarget.querySelectorAll<HTMLElement>('.square')]
            const to = moved(all.indexOf(e.target as HTMLElement), e.key, all.length)
            if (to === undefined || !(e.target as HTMLElement).matches('.square')) return
            e.preventDefault()
            all[to].focus()
          }
          return (
            <div class="map" onKeyDown={move}>
              {[...groups].map(([store, own]) => (
                <section key={store} aria-label={`Buckets in ${store}`}>
                  <h3>{store} · {own.length} of {buckets.length} buckets ({
                    share(own.length, buckets.length)} of the ring) · {
                    units(own.reduce((n, k) => n + k.remaining, 0))} left</h3>
                  <div class="squares">
                    {own.map((k) => (
                      <button key={k.key} type="button"
                        class={`square ${stateOf(k)}`}
                        style={{ '--full': Math.min(Math.round((100 * k.remaining) / full), 100) }}
                        tabIndex={k.key === stop ? 0 : -1}
                        aria-label={`${k.key}, ${wordOf(k)}, ${units(k.remaining)} left`}
                        aria-pressed={k.key === shown}
                        onMouseEnter={() => show(k.key)} onFocus={() => show(k.key)}
                        onClick={() => { show(k.key); set({ bucket: k.key }) }} />
                    ))}
                  </div>
                </section>
              ))}
              <div class="tip" role="status">
                {one ? <BucketLine k={one} b={b} done={list.reload} />
                  : <p class="quiet small">A square is a bucket; the fuller its colour, the more it has
                    left. Dashed: offline. Red: halted. Crossed out: its store does not answer. Amber:
                    its store lost its memory.</p>}
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
        <b class="mono">{k.key}</b> <Mark tone={k.halted || k.problem ? 'bad' : k.status === 'online' ? 'good' : ''}>
          {wordOf(k)}{k.offline_by ? ` by ${k.offline_by}` : ''}</Mark>
        {' '}{units(k.remaining)} left, {units(k.held)} held, {units(k.used)} used;
        in {homeName(k.home)}, epoch {k.epoch}, applied {units(k.out_cnt)} times
        for {units(k.out_quantity)}, changed {ago(k.updated_at)}.
      </p>
      {k.halted && <p class="failure">{k.halted}</p>}
      {k.problem && <p class="failure">{k.problem}</p>}
      {may('operator') && (
        <div class="buttons">
          {k.status === 'online' ? (
            <ChangeButton slim label="Take offline" done={done} make={() => change('offline', {
              plan: () => [['Status', 'online', 'offline'], ['In this bucket', units(k.remaining), '0'],
                ['Undistributed', orUnlimited(b.undistributed),
                  orUnlimited(b.undistributed === null ? null : b.undistributed + k.remaining)]],
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
