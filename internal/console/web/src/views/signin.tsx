import { useState } from 'preact/hooks'
import { call, Refused, remember, root } from '../api'
import { Failure } from '../parts'
import { identify, leave, loginOffered } from '../session'

/** Why the provider's log-in came to nothing. */
const refusals: Record<string, string> = {
  login_expired: 'This log-in began elsewhere or too long ago. Log in again.',
  login_refused: 'You were not let in: the provider refused it, or none of your groups has a role here. ' +
    'An administrator gives groups their roles in oidc.roles.',
  login_unavailable: 'The identity provider does not answer. Try again later, or sign in with a key.',
}
const refusal = refusals[new URLSearchParams(location.search).get('refused') ?? '']
if (refusal) history.replaceState(null, '', location.pathname + location.hash)

export function SignIn() {
  const [text, set] = useState('')
  const [error, fail] = useState<Refused>()
  const submit = async (e: Event) => {
    e.preventDefault()
    remember(text.trim())
    try {
      await call('v1/whoami')
      fail(undefined)
      await identify()
    } catch (e) {
      remember('')
      if (e instanceof Refused) fail(e)
    }
  }
  const login = new URL('console/login', root)
  login.searchParams.set('return', location.pathname)
  return (
    <div class="card sign stack">
      <h1>Sign in</h1>
      {refusal && <p class="failure" role="alert">{refusal}</p>}
      {loginOffered && <p><a class="button" href={login.href} onClick={leave}>Log in with your organisation</a></p>}
      <form class="stack" onSubmit={submit}>
        <label>
          API key
          <input type="password" name="key" autocomplete="off" required spellcheck={false}
            value={text} onInput={(e) => set(e.currentTarget.value)} placeholder="bdg_…" />
        </label>
        {error && <Failure error={error} />}
        <div class="buttons"><button class="main">Sign in</button></div>
      </form>
      <p class="small quiet">
        The key stays in this tab and is forgotten with it. An administrator makes keys
        with <code>budgetctl keys create</code>.
      </p>
    </div>
  )
}
