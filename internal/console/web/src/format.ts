// Formats figures and instants for people. The locale is fixed, so that a figure looks the same on
// every screen.

const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 })
const few = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 3 })
// The en-GB form of a million, m, reads as milli or metres.
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })
const percents = new Intl.NumberFormat('en-GB', { style: 'percent', maximumFractionDigits: 1 })

export type Unit = 'count' | 'amount'

/** Units grouped by thousands; none: a dash. */
export const units = (n: number | null | undefined) => (n == null ? '–' : whole.format(n))

/** Units that an unlimited budget lacks. */
export const orUnlimited = (n: number | null) => (n === null ? 'unlimited' : units(n))

/** What units of a budget are called. */
export const unitName = (unit: Unit | undefined) => (unit === 'amount' ? 'minor units' : 'units')

export const compact = (n: number) => short.format(n)

export const share = (part: number, of: number | null | undefined) =>
  of ? percents.format(part / of) : '–'

/** A rate per second, or per minute or hour where that reads better. */
export function rate(perSecond: number): string {
  if (perSecond >= 1 || perSecond === 0) return `${few.format(perSecond)}/s`
  if (perSecond * 60 >= 1) return `${few.format(perSecond * 60)}/min`
  return `${few.format(perSecond * 3600)}/h`
}

/** An instant with its zone; the zone of the browser where none is given. */
export function instant(at: string | number | undefined | null, zone?: string): string {
  if (!at) return '–'
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return '–'
  const options: Intl.DateTimeFormatOptions = {
    year: 'numeric', month: 'short', day: '2-digit', hour: '2-digit', minute: '2-digit',
    second: '2-digit', hour12: false, timeZoneName: 'short',
  }
  try {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zone || undefined }).format(date)
  } catch {
    return new Intl.DateTimeFormat('en-GB', options).format(date)
  }
}

/** How long it is from one instant to another, in two units at most. */
export function span(ms: number): string {
  const s = Math.round(Math.abs(ms) / 1000)
  if (s < 60) return `${s} s`
  const m = Math.floor(s / 60)
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`
  const h = Math.floor(m / 60)
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`
  const d = Math.floor(h / 24)
  return h % 24 && d < 10 ? `${d} d ${h % 24} h` : `${d} d`
}

/** An instant relative to now. */
export function ago(at: string | undefined | null, now = Date.now()): string {
  if (!at) return '–'
  const ms = now - new Date(at).getTime()
  return ms < 0 ? `in ${span(ms)}` : `${span(ms)} ago`
}

const longest = 9007199254740991n

/** Reads an amount that a person typed: digits, which may be grouped by thousands with one kind of
 * separator. Returns null for any other text: 12,5 is a fraction to many, and never 125. */
export function amount(text: string): number | null {
  const typed = text.trim()
  if (!/^(\d+|\d{1,3}(?:([\s,_'])\d{3})(?:\2\d{3})*)$/.test(typed)) return null
  const digits = typed.replace(/\D/g, '')
  if (digits.length > 16) return null
  const n = BigInt(digits)
  return n >= 1n && n <= longest ? Number(n) : null
}
