// Who is told of alerts: the endpoints, what they were sent, and what they answered.
import { href } from '../address'
import { call } from '../api'
import { ChangeButton, type Change, type Field, type Values } from '../change'
import { ago, instant, span, units } from '../format'
import { useCall } from '../load'
import { Card, Failure, Mark, Shown } from '../parts'
import { queryOf } from '../paths'
import { useQuery } from '../route'
import { may, me } from '../session'

interface Endpoint { id: string; tenant?: string; url: string; secret: string; types: string[]; enabled: boolean
  disabled?: string; failing_since?: string; description?: string; created_at: string; created_by?: string }

interface Attempt { at: string; status?: number; error?: string; took_ms: number }

interface Delivery { message: string; type: string; state: 'pending' | 'delivered' | 'failed'; tries: number
  attempts: Attempt[]; next_attempt_at?: string; created_at: string }

const path = (id: string, rest = '') => `v1/webhooks/${encodeURIComponent(id)}${rest}`
const kinds = ['alert.firing', 'alert.resolved', 'endpoint.disabled']
const whose = (tenant: string | undefined) => tenant || 'all tenants'

export function Endpoints() {
  const list = useCall<{ webhooks: Endpoint[] }>('v1/webhooks', 15_000)
  return (
    <Card title="Who is told" end={may('admin') &&
      <ChangeButton slim label="New endpoint" done={list.reload} make={create} />}>
      <Shown of={list} empty={(l) => l.webhooks.length === 0}
        none={<p>Nobody is told of alerts: there is no endpoint.</p>}>
        {({ webhooks }) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Endpoints</caption>
              <thead><tr><th>Endpoint</th><th>For</th><th>Messages</th><th>State</th><th /></tr></thead>
              <tbody>
                {webhooks.map((w) => (
                  <tr key={w.id}>
                    <th scope="row"><a href={href(['alerts', w.id])}>{w.url}</a>
                      <div class="quiet small">{w.id} {w.description}</div></th>
                    <td data-label="For">{whose(w.tenant)}</td>
                    <td data-label="Messages">{w.types.join(', ')}</td>
                    <td data-label="State"><State w={w} /></td>
                    <td><Actions w={w} done={list.reload} end /></td>
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

function State({ w }: { w: Endpoint }) {
  if (!w.enabled) return <Mark tone="bad" dot>disabled: {w.disabled}</Mark>
  if (w.failing_since) return <Mark tone="warn" dot>failing since {instant(w.failing_since)}</Mark>
  return <Mark tone="good" dot>enabled</Mark>
}

function Actions({ w, done, end }: { w: Endpoint; done: () => void; end?: boolean }) {
  return (
    <span class="buttons">
      <ChangeButton slim label={`Test ${w.id}`} text="Test" done={done} make={() => test(w)} />
      {may('admin') && <>
        <ChangeButton slim label={`Change ${w.id}`} text="Change" done={done} make={() => change(w)} />
        <ChangeButton slim label={`${w.enabled ? 'Disable' : 'Enable'} ${w.id}`} done={done}
          text={w.enabled ? 'Disable' : 'Enable'} make={() => enable(w)} />
        {end && <ChangeButton slim label={`Remove ${w.id}`} text="Remove" done={done} make={() => remove(w)} />}
      </>}
    </span>
  )
}

/** One endpoint: what it was sent, and what it answered. */
export function EndpointView({ id }: { id: string }) {
  const one = useCall<Endpoint>(path(id), 5000)
  const [{ page: token }] = useQuery({ page: '' })
  const log = useCall<{ deliveries: Delivery[]; next_page_token?: string }>(
    path(id, `/deliveries${queryOf({ page_size: 50, page_token: token })}`), 3000)
  const w = one.data
  if (!w) {
    return <><h1>Endpoint {id}</h1>{one.error ? <Failure error={one.error} again={one.reload} />
      : <p class="loading" role="status">Loading …</p>}</>
  }
  return (
    <>
      <div class="head"><h1>{w.url}</h1><State w={w} />
        <div class="end"><Actions w={w} done={() => { one.reload(); log.reload() }} /></div></div>
      <div class="card">
        <dl class="pairs">
          <dt>Id</dt><dd class="mono">{w.id}</dd>
          <dt>For</dt><dd>{whose(w.tenant)}</dd>
          <dt>Messages</dt><dd>{w.types.join(', ')}</dd>
          <dt>Secret</dt><dd>the file <code>{w.secret}</code> of each node</dd>
          {w.description && <><dt>Description</dt><dd>{w.description}</dd></>}
          <dt>Created</dt><dd>{instant(w.created_at)}{w.created_by && ` by ${w.created_by}`}</dd>
        </dl>
      </div>
      <Card title="What it was sent" end={<a href={href(['alerts'])}>All endpoints</a>}>
        <Shown of={log} empty={(l) => l.deliveries.length === 0} none={<p>It was sent nothing yet.</p>}>
          {(l) => (
            <>
              <Log w={w} deliveries={l.deliveries} done={log.reload} />
              {(token || l.next_page_token) && <nav class="buttons" aria-label="Pages">
                {token && <a class="button" href={href(['alerts', id])}>Newest</a>}
                {l.next_page_token && <a class="button"
                  href={href(['alerts', id], { page: l.next_page_token })}>Older</a>}
              </nav>}
            </>
          )}
        </Shown>
      </Card>
    </>
  )
}

function Log({ w, deliveries, done }: { w: Endpoint; deliveries: Delivery[]; done: () => void }) {
  const tones = { pending: '', delivered: 'good', failed: 'bad' } as const
  return (
    <div class="scroll">
      <table class="cards">
        <caption class="unseen">What it was sent</caption>
        <thead><tr><th>Message</th><th>Type</th><th>State</th><th>Sent</th><th>Last attempt</th><th /></tr></thead>
        <tbody>
          {deliveries.map((d) => (
            <tr key={d.message}>
              <th scope="row" class="mono">{d.message}</th>
              <td data-label="Type">{d.type}</td>
              <td data-label="State"><Mark tone={tones[d.state]} dot>{d.state}</Mark></td>
              <td data-label="Sent" title={instant(d.created_at)}>{ago(d.created_at)}</td>
              <td data-label="Last attempt">{d.attempts.length ? <Attempts of={d} /> : 'none yet'}</td>
              <td><ChangeButton slim label={`Resend ${d.message}`} text="Resend" done={done}
                make={() => resend(w, d)} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const answered = (a: Attempt) => (a.error || (a.status ? `answered ${a.status}` : 'no answer'))

function Attempts({ of }: { of: Delivery }) {
  const last = of.attempts[of.attempts.length - 1]
  return (
    <details>
      <summary>{answered(last)}{of.next_attempt_at && `; again ${ago(of.next_attempt_at)}`}</summary>
      <ul class="small">
        {of.attempts.map((a) => <li key={a.at}>{instant(a.at)}: {answered(a)} after {
          a.took_ms < 1000 ? `${units(a.took_ms)} ms` : span(a.took_ms)}</li>)}
      </ul>
    </details>
  )
}

/** Says what became of a message, which is sent at once. It waits a few seconds for that. */
async function became(w: Endpoint, sent: Delivery): Promise<string> {
  const tries = 20
  for (let n = 0; n < tries; n++) {
    const { deliveries } = await call<{ deliveries: Delivery[] }>(path(w.id, '/deliveries?page_size=200'))
    const d = deliveries.find((one) => one.message === sent.message)
    const last = d?.attempts[d.attempts.length - 1]
    if (d && last && d.tries > 0) {
      const what = `The message ${d.message}`
      if (d.state === 'delivered') return `${what} was delivered: it ${answered(last)}.`
      return `${what} did not arrive: ${answered(last)}.${
        d.next_attempt_at ? ` It is sent again ${ago(d.next_attempt_at)}.` : ''}`
    }
    await new Promise((next) => setTimeout(next, 250))
  }
  return `The message ${sent.message} is on its way. The endpoint's page shows what becomes of it.`
}

function test(w: Endpoint): Change {
  return {
    title: 'Send a test', plan: () => [[w.url, 'nothing', 'a message of type test']], verb: 'Send it',
    intro: w.enabled ? undefined : 'A test is sent although the endpoint is disabled.',
    run: async () => became(w, await call<Delivery>(path(w.id, '/test'), { method: 'POST' })),
  }
}

function resend(w: Endpoint, d: Delivery): Change {
  return {
    title: 'Send it again',
    intro: 'The receiver gets it under the same webhook-id, and may know it already.',
    plan: () => [[`${d.type} ${d.message}`, d.state, 'sent again, with all attempts']], verb: 'Send it again',
    run: async () => became(w, await call<Delivery>(
      path(w.id, `/deliveries/${encodeURIComponent(d.message)}/resend`), { method: 'POST' })),
  }
}

function fields(w?: Endpoint): Field[] {
  return [
    { name: 'url', label: 'URL', initial: w?.url, hint: 'https://…; an address that is not public must be in ' +
      'webhooks.allow' },
    { name: 'secret', label: 'Secret', initial: w?.secret, hint: 'the name of a secret of the tenant' },
    ...(w ? [] : [{ name: 'tenant', label: 'Tenant', initial: me.value?.tenant,
      hint: 'empty: all tenants that you may see' }]),
    { name: 'description', label: 'Description', initial: w?.description },
    ...kinds.map((kind) => ({ name: kind, label: kind, box: true,
      initial: !w || w.types.includes(kind) ? 'yes' : '' })),
  ]
}

const typesOf = (v: Values) => kinds.filter((kind) => v[kind])

/** What is wrong with what was typed. */
function fault(v: Values): string {
  if (!/^https?:\/\/[^\s/]+/.test(v.url.trim())) return 'Type a URL that begins with https://.'
  if (!v.secret.trim()) return 'Type the name of the secret.'
  return typesOf(v).length ? '' : 'Tick at least one kind of message.'
}

function create(): Change {
  return {
    title: 'New endpoint', fields: fields(),
    intro: 'Messages are signed with the secret, which the receiver must have too.',
    plan: (v) => fault(v) || [['Endpoint', 'none', v.url.trim()], ['For', '–', whose(v.tenant.trim())],
      ['Messages', '–', typesOf(v).join(', ')], ['Secret', '–', v.secret.trim()]],
    verb: 'Make the endpoint',
    run: async (v) => {
      const made = await call<Endpoint>('v1/webhooks', { method: 'POST', body: { url: v.url.trim(),
        secret: v.secret.trim(), types: typesOf(v), description: v.description.trim(),
        ...(v.tenant.trim() ? { tenant: v.tenant.trim() } : {}) } })
      return `The endpoint ${made.id} gets ${made.types.join(', ')} of ${whose(made.tenant)}. Test it now.`
    },
  }
}

function change(w: Endpoint): Change {
  const body = (v: Values) => {
    const next: Record<string, unknown> = {}
    if (v.url.trim() !== w.url) next.url = v.url.trim()
    if (v.secret.trim() !== w.secret) next.secret = v.secret.trim()
    if (v.description.trim() !== (w.description ?? '')) next.description = v.description.trim()
    if (typesOf(v).join() !== kinds.filter((kind) => w.types.includes(kind)).join()) next.types = typesOf(v)
    return next
  }
  const text = (value: unknown) => (Array.isArray(value) ? value.join(', ') : String(value || 'none'))
  return {
    title: 'Change the endpoint', fields: fields(w), verb: 'Change it',
    plan: (v) => {
      const next = body(v)
      if (fault(v)) return fault(v)
      if (!Object.keys(next).length) return 'Change something.'
      return Object.entries(next).map(([name, value]) =>
        [name, text(w[name as keyof Endpoint]), text(value)])
    },
    run: async (v) => {
      const now = await call<Endpoint>(path(w.id), { method: 'PATCH', body: body(v) })
      return `${now.id} is ${now.url} and gets ${now.types.join(', ')}.`
    },
  }
}

function enable(w: Endpoint): Change {
  const becomes = w.enabled ? 'disabled' : 'enabled'
  return {
    title: `${w.enabled ? 'Disable' : 'Enable'} the endpoint`, danger: w.enabled,
    intro: w.enabled ? 'What is on its way to it, and what fires meanwhile, waits until it is enabled.' : undefined,
    plan: () => [[w.url, w.enabled ? 'enabled' : `disabled: ${w.disabled}`, becomes]],
    verb: w.enabled ? 'Disable it' : 'Enable it',
    run: async () => {
      await call(path(w.id), { method: 'PATCH', body: { enabled: !w.enabled } })
      return `The endpoint is ${becomes}.`
    },
  }
}

function remove(w: Endpoint): Change {
  return {
    title: 'Remove the endpoint', danger: true,
    intro: 'Its log of deliveries goes with it, and what is on its way to it is not sent any more.',
    plan: () => [[w.url, w.enabled ? 'gets messages' : 'disabled', 'removed']], verb: 'Remove it',
    run: async () => {
      await call(path(w.id), { method: 'DELETE' })
      return `The endpoint ${w.id} is gone.`
    },
  }
}
