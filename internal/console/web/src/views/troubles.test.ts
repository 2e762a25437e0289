import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { titled } from './troubles'

test('the words of a trouble', () => {
  const lost = titled({ cause: 'store_down', instance: 'redis-b' })
  equal(`${lost.tone}: ${lost.title}, ${lost.query.trouble}`, 'bad: redis-b does not answer, store_down:redis-b')
  equal(titled({ cause: 'used_up' }).tone, 'warn')
})
