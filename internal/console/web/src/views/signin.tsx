import { useState } from 'preact/hooks'
import { call, Refused, remember, root } from '../api'
import { identify } from '../app'
import { Failure } from '../parts'

/** Whether the server has a provider that persons log in with. */
export const loginOffered =
  document.querySelector<HTMLMetaElement>('meta[name=budgetd-login]')?.content === 'true'

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
      {loginOffered && <p><a class="button" href={login.href}>Log in with your organisation</a></p>}
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
