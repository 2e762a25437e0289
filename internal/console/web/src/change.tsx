// Changes: what will be done, shown before it is done, and what was done, said afterwards.
import type { ComponentChildren } from 'preact'
import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refused } from './api'
import { Failure } from './parts'

export type Values = Record<string, string>

/** A line of a diff: what it is, how it is now, how it becomes. */
export type Line = [what: string, before: string, after: string]

export interface Field {
  name: string
  label: string
  initial?: string
  amount?: boolean
  hint?: string
  /** The choices of a list. */
  options?: [value: string, label: string][]
  /** A box to tick: 'yes' or ''. */
  box?: boolean
  /** Whether the field applies to what the others say; left out: always. */
  applies?: (values: Values) => boolean
}

export interface Change {
  title: string
  intro?: string
  fields?: Field[]
  /** What the change does with these values, or what is wrong with them. */
  plan: (values: Values) => Line[] | string
  /** What the button says. */
  verb: string
  danger?: boolean
  /** Does it, and returns what it did. */
  run: (values: Values) => Promise<ComponentChildren>
}

/** A number that nobody else picks: a repeated click is the same request. */
export function requestID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return `console-${[...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')}`
}

/** The change that is open. It is shown beside the view: what a change did stays to be read although
 * the row that it was for is gone. */
const opened = signal<{ number: number; change: Change; done?: () => void } | undefined>(undefined)
let changes = 0

/** A button that opens a change. make is asked when it is opened. text is what is visible of a label
 * that says to a screen reader which row it is for. */
export function ChangeButton({ label, text, make, slim, done }:
  { label: string; text?: string; make: () => Change; slim?: boolean; done?: () => void }) {
  return (
    <button type="button" class={slim ? 'slim' : ''} aria-label={text && label}
      onClick={() => { opened.value = { number: ++changes, change: make(), done } }}>{text ?? label}</button>
  )
}

export function OpenChange() {
  const now = opened.value
  if (!now) return null
  const close = () => { // another one may be open by the time that the browser says so
    if (opened.value === now) opened.value = undefined
    now.done?.()
  }
  return <Dialog key={now.number} change={now.change} close={close} />
}

function Dialog({ change, close }: { change: Change; close: () => void }) {
  const element = useRef<HTMLDialogElement>(null)
  const [values, set] = useState<Values>(
    Object.fromEntries((change.fields ?? []).map((f) => [f.name, f.initial ?? ''])))
  const [state, go] = useState<{ busy?: boolean; error?: Refused; said?: ComponentChildren }>({})
  useEffect(() => { element.current?.showModal() }, [])
  const plan = change.plan(values)
  const wrong = typeof plan === 'string' ? plan : ''
  const touched = (change.fields ?? []).some((f) => values[f.name] !== (f.initial ?? ''))
  const submit = async (e: Event) => {
    e.preventDefault()
    if (wrong || state.busy) return
    go({ busy: true })
    try {
      go({ said: await change.run(values) })
    } catch (e) {
      go({ error: e instanceof Refused ? e : new Refused(
        { status: 0, code: 'page', title: 'The page failed', detail: String(e) }) })
    }
  }
  return (
    <dialog ref={element} aria-labelledby="change-title" onClose={close}>
      <form onSubmit={submit}>
        <h2 id="change-title">{change.title}</h2>
        {change.intro && <p class="quiet">{change.intro}</p>}
        {state.said === undefined && (change.fields ?? []).map((f) => (f.applies?.(values) ?? true) && (
          <Input key={f.name} f={f} value={values[f.name]} wrong={touched && !!wrong}
            take={(v) => set({ ...values, [f.name]: v })} />
        ))}
        {state.said === undefined && (wrong
          ? <p class="small quiet" role="status">{wrong}</p> : <Diff lines={plan as Line[]} />)}
        {state.error && <Failure error={state.error} />}
        {state.said !== undefined && <div class="done" role="status">{state.said}</div>}
        <div class="buttons">
          {state.said === undefined ? (
            <>
              <button class={change.danger ? 'danger' : 'main'} disabled={!!wrong || state.busy}>
                {state.busy ? 'Working …' : change.verb}
              </button>
              <button type="button" onClick={() => element.current?.close()}>Cancel</button>
            </>
          ) : <button type="button" class="main" onClick={() => element.current?.close()}>Close</button>}
        </div>
      </form>
    </dialog>
  )
}

function Input({ f, value, wrong, take }:
  { f: Field; value: string; wrong: boolean; take: (v: string) => void }) {
  if (f.box) {
    return (
      <label class="row"><input type="checkbox" checked={value === 'yes'}
        onChange={(e) => take(e.currentTarget.checked ? 'yes' : '')} />{f.label}</label>
    )
  }
  return (
    <label>
      {f.label}
      {f.options ? (
        <select value={value} onChange={(e) => take(e.currentTarget.value)}>
          {f.options.map(([v, label]) => <option key={v} value={v}>{label}</option>)}
        </select>
      ) : (
        <input type="text" inputMode={f.amount ? 'numeric' : undefined} autocomplete="off"
          class={f.amount ? 'amount' : ''} value={value} aria-invalid={wrong}
          onInput={(e) => take(e.currentTarget.value)} />
      )}
      {f.hint && <span class="small">{f.hint}</span>}
    </label>
  )
}

function Diff({ lines }: { lines: Line[] }) {
  return (
    <div class="diff">
      <table>
        <caption class="unseen">What this changes</caption>
        <thead><tr><th>What</th><th class="num">Now</th><th class="num">After</th></tr></thead>
        <tbody>
          {lines.map(([what, before, after]) => (
            <tr key={what}>
              <th scope="row">{what}</th>
              <td class="num">{before === after ? before : <del>{before}</del>}</td>
              <td class="num">{before === after ? <span class="quiet">same</span> : <ins>{after}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
