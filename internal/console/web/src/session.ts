// Who uses the page, and what that person may do. The views ask it; it knows none of them.
import { signal } from '@preact/signals'
import { call, key, Refused, remember, root, unauthenticated } from './api'
import type { Identity } from './types'

/** Who the person is; undefined until the server has said so. */
export const me = signal<Identity | undefined>(undefined)
/** Why it is not known who the person is. */
export const unreachable = signal<Refused | undefined>(undefined)

const order = ['read', 'deduct', 'rollback', 'operator', 'admin']

/** Reports whether the person has at least a role. */
export const may = (role: Identity['role']) =>
  !!me.value && order.indexOf(me.value.role) >= order.indexOf(role)

/** Reports whether the person sees the whole installation. */
export const everywhere = () => !!me.value && !me.value.tenant && !me.value.budgets?.length

/** Whether the server has a provider that persons log in with. */
export const loginOffered =
  document.querySelector<HTMLMetaElement>('meta[name=budgetd-login]')?.content === 'true'

const stored = 'budgetd.view'

/** Remembers the view that was asked for: what follows # does not come back from the provider. */
export const leave = () => sessionStorage.setItem(stored, location.hash)

/** Goes to the view that was asked for before the log-in. */
function reopen() {
  const view = sessionStorage.getItem(stored)
  sessionStorage.removeItem(stored)
  if (view && !location.hash) location.hash = view
}

/** Asks the server who the person is. After any failure but 401 it asks again in three seconds. */
export async function identify() {
  unreachable.value = undefined
  try {
    me.value = await call<Identity>('v1/whoami')
    unauthenticated.value = false
    reopen()
  } catch (e) {
    if (e instanceof Refused && e.problem.status !== 401) {
      unreachable.value = e
      setTimeout(() => void identify(), 3000)
    }
  }
}

/** Ends the session, and shows only then that it has ended: another person may come next. */
export async function signOut() {
  if (!key.value && loginOffered) {
    try {
      await fetch(new URL('console/logout', root), { method: 'POST', redirect: 'manual', keepalive: true })
    } catch {
      me.value = undefined
      unreachable.value = new Refused({ status: 0, code: 'unreachable', title: 'You are still signed in',
        detail: 'The server does not answer. Sign out again when it does.' })
      return
    }
  }
  remember('')
  me.value = undefined
  unauthenticated.value = true
}
