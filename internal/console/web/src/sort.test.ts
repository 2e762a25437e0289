import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { direction, turned } from './sort'

test('a click on a column sorts by it, and another the other way round', () => {
  equal(turned('name', 'end'), 'end')
  equal(turned('end', 'end'), '-end')
  equal(turned('-end', 'end'), 'end')
  equal(direction('end', 'end'), 'ascending')
  equal(direction('-end', 'end'), 'descending')
  equal(direction('name', 'end'), undefined)
})
