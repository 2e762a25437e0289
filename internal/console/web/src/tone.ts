// How good or bad something is, as a colour beside the words.
import type { Budget } from './types'

export type Tone = 'good' | 'warn' | 'bad' | ''

export const tones: Record<Budget['status'], Tone> =
  { effective: 'good', pending: '', paused: 'warn', expired: '' }
