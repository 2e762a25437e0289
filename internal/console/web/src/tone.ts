// How good or bad something is, as a colour beside the words.

export type Tone = 'good' | 'warn' | 'bad' | ''
