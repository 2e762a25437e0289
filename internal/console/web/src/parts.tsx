// Parts that several views are made of.
import { Component, type ComponentChildren } from 'preact'
import { Refused } from './api'
import type { Loaded } from './load'
import type { Budget } from './types'
import { ago, instant, share, orUnlimited, units } from './format'
import { served } from './serving'
import type { Tone } from './tone'

export function Mark({ tone = '', children, dot }:
  { tone?: Tone; children: ComponentChildren; dot?: boolean }) {
  return <span class={`mark ${tone}`}>{dot && <span class="dot" aria-hidden="true" />}{children}</span>
}

export function Card({ title, width = 'w12', end, children, id }:
  { title: string; width?: string; end?: ComponentChildren; children: ComponentChildren; id?: string }) {
  const label = `card-${id ?? title.toLowerCase().replace(/\W+/g, '-')}`
  return (
    <section class={`card ${width}`} aria-labelledby={label}>
      <header><h2 id={label}>{title}</h2>{end && <div class="end">{end}</div>}</header>
      {children}
    </section>
  )
}

/** What went wrong, and what to do. */
export function Failure({ error, again }: { error: Refused; again?: () => void }) {
  const p = error.problem
  return (
    <div class="failure" role="alert">
      <strong>{p.title}</strong>
      {p.detail && <p>{p.detail}</p>}
      {p.errors?.map((e) => <p key={e.field}><code>{e.field}</code> {e.message}</p>)}
      <p class="small quiet">
        <code>{p.code}</code>{p.correlation_id && <> · correlation id <code>{p.correlation_id}</code></>}
      </p>
      {again && <button type="button" class="slim" onClick={again}>Try again</button>}
    </div>
  )
}

/** Shows what it contains, or that this failed: a fault in one view takes nothing else off the page. */
export class Whole extends Component<{ children: ComponentChildren }, { fault?: unknown }> {
  componentDidCatch(fault: unknown) { this.setState({ fault }) }

  render() {
    if (this.state.fault === undefined) return this.props.children
    return <Failure again={() => this.setState({ fault: undefined })} error={new Refused(
      { status: 0, code: 'page', title: 'The page failed', detail: String(this.state.fault) })} />
  }
}

/** Shows what a call brought: loading, the error, nothing, or the data. */
export function Shown<T>({ of, empty, none, children }: {
  of: Loaded<T>; empty?: (data: T) => boolean; none?: ComponentChildren
  children: (data: T) => ComponentChildren
}) {
  return (
    <>
      {of.error && of.data && of.error.problem.status === 0
        ? <p class="small quiet">The server does not answer; this is from before.</p>
        : of.error && <Failure error={of.error} again={of.reload} />}
      {of.loading && <p class="loading" role="status">Loading …</p>}
      {of.data && (empty?.(of.data) ? <div class="empty">{none}</div> : children(of.data))}
    </>
  )
}

/** Whether a budget serves. */
export function Serves({ b }: { b: Pick<Budget, 'serving' | 'calls' | 'buckets'> }) {
  const { tone, text } = served(b)
  return <Mark tone={tone} dot>{text}</Mark>
}

/** How far away an instant is, and the instant below it. */
export function When({ at, zone }: { at?: string; zone?: string }) {
  return <div class="when">{ago(at)}<div class="quiet small">{instant(at, zone)}</div></div>
}

/** What deductions can take now, and when they can begin if that is later. */
export function Remaining({ b }: { b: Pick<Budget, 'remaining' | 'opens_at'> }) {
  return (
    <>
      {orUnlimited(b.remaining)}
      {b.opens_at && <span class="quiet small"> opens {ago(b.opens_at)}</span>}
    </>
  )
}

/** Used, held and what is left of a total, as one bar with its words. */
export function Meter({ b }: { b: Budget }) {
  const total = b.total_quantity
  if (!total) return null
  const width = (n: number) => ({ width: `${(100 * n) / total}%` })
  return (
    <div class="meter" role="img"
      aria-label={`${share(b.used, total)} used, ${share(b.held, total)} held of ${units(total)}`}>
      <i class="used" style={width(b.used)} /><i class="held" style={width(b.held)} />
    </div>
  )
}
