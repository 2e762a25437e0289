import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { amended, budgetHref, chosen, href, parse } from './address'
import { budgetPath, queryOf } from './paths'

test('an address is a path and a query', () => {
  const cases: [string, string[], string][] = [['', [], ''], ['#', [], ''], ['#/', [], ''],
    ['#/budgets', ['budgets'], ''], ['#budgets//shop/', ['budgets', 'shop'], ''],
    ['#/budgets/shop/a%2Fb', ['budgets', 'shop', 'a/b'], ''],
    ['#/budgets/shop/100%', ['budgets', 'shop', '100%'], ''],
    ['#/budgets?q=a+b&sort=-end', ['budgets'], 'q=a+b&sort=-end']]
  for (const [address, parts, query] of cases) {
    const at = parse(address)
    deepEqual(at.parts, parts, address)
    equal(at.query.toString(), query, address)
  }
})

test('an address that was written is read as it was meant', () => {
  for (const name of ['sale', 'a/b', '100%', 'ä ö', '?x=#y', '%zz']) {
    const at = parse(href(['budgets', name], { q: name, empty: '', none: undefined }))
    deepEqual(at.parts, ['budgets', name])
    deepEqual([...at.query], [['q', name]])
  }
  equal(budgetHref('shop', 'sale'), '#/budgets/shop/sale')
})

test('a view chooses what the address does not say', () => {
  const initial = { sort: 'name', q: '' }
  deepEqual(chosen(parse('#/budgets').query, initial), { sort: 'name', q: '' })
  deepEqual(chosen(parse('#/budgets?q=x&sort=end&other=1').query, initial), { sort: 'end', q: 'x' })
})

test('a change keeps the rest of the query and leaves out what is initial', () => {
  const initial = { sort: 'name', q: '', skip: '' }
  const change = (address: string, to: Partial<typeof initial>) => amended(parse(address), initial, to)
  equal(change('#/budgets', { q: 'x' }), '#/budgets?q=x')
  equal(change('#/budgets?q=x&over=1h', { sort: '-end' }), '#/budgets?q=x&over=1h&sort=-end')
  equal(change('#/budgets?q=x&skip=50&sort=end', { sort: 'name', skip: '' }), '#/budgets?q=x')
})

test('a path of a call names the tenant and leaves out what is empty', () => {
  equal(queryOf({ a: '', b: undefined, c: 0, d: 'x y' }), '?c=0&d=x+y')
  equal(queryOf({}), '')
  equal(budgetPath('a/b', 'shop', '/holds', { page_size: 10 }), 'v1/budgets/a%2Fb/holds?tenant=shop&page_size=10')
})
