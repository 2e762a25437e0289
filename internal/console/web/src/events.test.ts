import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from './events'

test('a block of a stream is an event', () => {
  deepEqual(parse('event: budget\nid: 7-2\ndata: {"a":"b: c"}'), { type: 'budget', id: '7-2', data: '{"a":"b: c"}' })
  deepEqual(parse('data:one\ndata: two'), { type: 'message', id: '', data: 'one\ntwo' })
  deepEqual(parse(': still here'), { type: 'message', id: '', data: '' })
})
