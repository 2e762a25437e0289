// The frame around the views: who it is, where one is, whether the page is connected.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { href } from './address'
import { key, unauthenticated } from './api'
import { OpenChange } from './change'
import { instant } from './format'
import { link } from './live'
import { route } from './route'
import { everywhere, identify, loginOffered, may, me, signOut, unreachable } from './session'
import { Failure, Mark, Whole } from './parts'
import { SignIn } from './views/signin'
import { OverviewView } from './views/overview'
import { Budgets } from './views/budgets'
import { BudgetView } from './views/budget/view'
import { Refusals } from './views/refusals'
import { Instances } from './views/instances'
import { AuditLog, Keys } from './views/access'
import { Alerts } from './views/alerts'

interface View { name: string; title: string; shown: () => boolean; body: () => ComponentChildren }

const views: View[] = [
  { name: 'overview', title: 'Overview', shown: everywhere, body: () => <OverviewView /> },
  { name: 'budgets', title: 'Budgets', shown: () => true, body: () => {
    const [, tenant, name] = route.value.parts
    return tenant && name ? <BudgetView key={`${tenant}/${name}`} tenant={tenant} name={name} />
      : <Budgets />
  } },
  { name: 'refusals', title: 'Why refused', shown: () => true,
    body: () => <Refusals key={route.value.query.toString()} /> },
  { name: 'alerts', title: 'Alerts', shown: () => true, body: () => <Alerts /> },
  { name: 'instances', title: 'Instances', shown: everywhere, body: () => <Instances /> },
  { name: 'audit-log', title: 'Audit log', shown: () => may('admin') && everywhere(),
    body: () => <AuditLog /> },
  { name: 'keys', title: 'Keys', shown: () => may('admin'), body: () => <Keys /> },
]

const known = () => views.filter((v) => v.shown())

export function App() {
  useEffect(() => { void identify() }, [])
  if (unauthenticated.value) return <Frame><SignIn /></Frame>
  if (!me.value) {
    return (
      <Frame>
        {unreachable.value ? <Failure error={unreachable.value} again={() => void identify()} />
          : <p class="loading" role="status">Loading …</p>}
      </Frame>
    )
  }
  const list = known()
  const name = route.value.parts[0] ?? list[0].name
  const view = list.find((v) => v.name === name)
  return (
    <Frame>
      {view ? <Whole key={route.value.parts.join('/')}>{view.body()}</Whole> : (
        <div class="empty"><p>There is no page “{name}” here, or not for your role.</p>
          <p><a href={href([])}>To the first page</a></p></div>
      )}
    </Frame>
  )
}

function Frame({ children }: { children: ComponentChildren }) {
  const main = useRef<HTMLElement>(null)
  const at = route.value.parts.join('/')
  const first = useRef(true)
  useEffect(() => {
    const view = views.find((v) => v.name === route.value.parts[0])
    document.title = `${route.value.parts[2] ?? view?.title ?? 'budgetd'} – budgetd`
    if (!first.current) { main.current?.focus(); scrollTo(0, 0) }
    first.current = false
    // On a narrow screen the row of views scrolls: the current one must not be cut off.
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [at])
  const current = route.value.parts[0] ?? known()[0]?.name
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus() }}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href={href([])}><Logo />budgetd</a>
        {me.value && (
          <nav aria-label="Views">
            <ul>
              {known().map((v) => (
                <li key={v.name}>
                  <a href={href([v.name])} aria-current={v.name === current ? 'page' : undefined}>
                    {v.title}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
        )}
        {me.value && <Who />}
      </header>
      <Lost />
      <main id="main" ref={main} tabIndex={-1}>{children}</main>
      <Whole><OpenChange /></Whole>
    </>
  )
}

function Who() {
  const p = me.value!
  const state = link.value.state
  return (
    <div class="who">
      {state !== 'idle' && (
        <Mark tone={state === 'live' ? 'good' : state === 'lost' ? 'bad' : ''} dot>
          {state === 'live' ? 'live' : state === 'lost' ? 'not connected' : 'connecting'}
        </Mark>
      )}
      <span title={p.tenant ? `tenant ${p.tenant}` : 'all tenants'}>{p.principal} · {p.role}</span>
      {(key.value || loginOffered) && p.principal !== 'anonymous' &&
        <button type="button" class="slim" onClick={() => void signOut()}>Sign out</button>}
    </div>
  )
}

/** Says that what is shown is old. */
function Lost() {
  const { state, since } = link.value
  return (
    <div role="status" aria-live="polite">
      {state === 'lost' && (
        <p class="notice">
          Not connected since {instant(since)}: what you see is from before.
          The page tries again by itself.
        </p>
      )}
    </div>
  )
}

function Logo() {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <path d="M1 2h14v4H1z" /><path d="M1 7h9v3H1z" opacity=".65" /><path d="M1 11h5v3H1z" opacity=".4" />
    </svg>
  )
}
