// Events as the server sends them: text/event-stream, of which the API uses event, id and data.

export interface Event { type: string; id: string; data: string }

/** Reads a block: what is between two empty lines of a stream. */
export function parse(block: string): Event {
  const e: Event = { type: 'message', id: '', data: '' }
  for (const line of block.split('\n')) {
    const [name, ...rest] = line.split(':')
    const value = rest.join(':').replace(/^ /, '')
    if (name === 'event') e.type = value
    if (name === 'id') e.id = value
    if (name === 'data') e.data += e.data ? `\n${value}` : value
  }
  return e
}
