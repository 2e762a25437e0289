// Calls real servers: budgetd at BUDGETD_URL, the fake one, and sockets that misbehave.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import ts from 'typescript'
import { Client, Conflict, Faulty, newRequestId, NotNow, Refused, Unknown } from '../build/index.js'
import { FakeServer } from '../build/fake.js'

const url = process.env.BUDGETD_URL
assert.ok(url, 'BUDGETD_URL names no server')

async function program(client) {
  const [one, two, three] = [newRequestId(), newRequestId(), newRequestId()]
  const answer = await client.deduct('sale', { request_id: one, amount: 3 })
  assert.deepEqual([answer.state, answer.replayed], ['used', false])
  assert.equal((await client.deduct('sale', { request_id: one, amount: 3 })).replayed, true)
  await assert.rejects(client.deduct('sale', { request_id: one, amount: 4 }), Conflict)
  await assert.rejects(client.deduct('sale', { request_id: two, amount: 1e6 }), (error) => {
    assert.ok(error instanceof Refused && error.code === 'budget_exhausted' && error.available > 0)
    return true
  })
  await assert.rejects(client.deduct('no-such', { request_id: two, amount: 1 }), Faulty)
  const results = await client.batch([{ budget: 'sale', request_id: two, amount: 1 },
    { budget: 'no-such', request_id: 'x', amount: 1 }])
  assert.equal(results[0].answer.state, 'used')
  assert.ok(results[1].error instanceof Faulty)
  assert.equal((await client.check([{ budget: 'sale', amount: 1 }]))[0].answer.outcome, 'would_be_accepted')
  await client.deduct('sale', { request_id: three, amount: 5, hold_ttl: '1m' })
  await client.extend('sale', { request_id: three, hold_ttl: '2m' })
  assert.equal((await client.confirm('sale', { request_id: three, amount: 2 })).confirmed, 2)
  assert.equal((await client.rollback('sale', { request_id: one })).state, 'rolled_back')
  assert.equal((await client.cancel('sale', { request_id: `${three}-never` })).state, 'void')
  assert.equal((await client.find('sale', one)).state, 'rolled_back')
  const page = await client.feed('sale', { limit: 1000 })
  assert.ok(page.entries.some((e) => e.request_id === three))
  assert.deepEqual((await client.feed('sale', { after: page.next })).entries, [])
}

test('a program with budgetd', () => program(new Client(url)))

test('a program with the fake server', () =>
  program(new Client('http://fake', { fetch: new FakeServer({ sale: 1000 }).fetch })))

test('a hold that outlives its time by heartbeats', async () => {
  const client = new Client(url)
  const id = newRequestId()
  const h = await client.hold('sale', { request_id: id, amount: 7, hold_ttl: '600ms' })
  h.dispatched()
  await wait(900)
  await h[Symbol.asyncDispose]()
  const { state, confirmed } = await client.find('sale', id)
  assert.deepEqual([state, confirmed], ['used', 7])
})

test('a hold that is aborted is cancelled', async () => {
  const fake = new FakeServer({ sale: 100 })
  const stop = new AbortController()
  const client = new Client('http://fake', { fetch: async (at, init) => {
    const answer = await fake.fetch(at, init)
    if (!String(at).includes('deduct')) return answer
    stop.abort() // after it has happened
    throw new TypeError('fetch failed')
  } })
  const held = client.hold('sale', { request_id: 'o1', amount: 7, hold_ttl: '1m' }, { signal: stop.signal })
  await assert.rejects(held, Unknown)
  assert.equal(fake.budgets.sale, 100)
})

test('the lines of the README', async () => {
  const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  const blocks = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, block]) => block)
  assert.equal(blocks.length, 2)
  const source = blocks.join('\n').replace("'http://127.0.0.1:8080'", `'${url}'`)
    .replace("'budgetd'", "'../build/index.js'").replace("'budgetd/fake'", "'../build/fake.js'")
  const { outputText } = ts.transpileModule(`${source}\nexport { order }\n`,
    { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } })
  const file = new URL('../build/readme.mjs', import.meta.url)
  writeFileSync(file, outputText)
  const said = []
  const { log } = console
  console.log = (...words) => said.push(words.join(' '))
  try {
    const { order } = await import(file)
    assert.deepEqual(said, ['used', '95'])
    assert.equal((await new Client(url).find('sale', `${order}-ai`)).confirmed, 42)
  } finally {
    console.log = log
    rmSync(file)
  }
})

test('what counts as sent', async () => {
  const body = '{"outcome":"accepted","state":"used"}'
  const head = 'HTTP/1.1 200 OK\r\n'
  for (const [reply, want] of [
    [`${head}Content-Length: ${body.length}\r\n\r\n${body}`, undefined],
    ['', Unknown], // lost
    [`${head}Content-Length: 1000\r\n\r\n${body}`, Unknown], // cut
    [undefined, Unknown], // too slow
    ['SSH-2.0-OpenSSH\r\n\r\n', Unknown],
  ]) {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () => { if (reply !== undefined) socket.end(reply) })
    })
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = `127.0.0.1:${server.address().port}`
    const once = new Client(address, { retry: { attempts: 1, attemptTimeout: 300 } })
    const call = once.deduct('b', { request_id: 'o1', amount: 1 })
    if (want) await assert.rejects(call, want)
    else assert.equal((await call).state, 'used')
    await new Promise((resolve) => server.close(resolve))
    await assert.rejects(once.deduct('b', { request_id: 'o1', amount: 1 }), NotNow)
  }
})

test('addresses', () => {
  for (const address of ['', 'http://', 'ftp://h', 'http://h?x=1', 'http://u:secret@h', 'h,']) {
    assert.throws(() => new Client(address), (error) => !error.message.includes('secret'), address)
  }
})

test('request ids', () => {
  const ids = Array.from({ length: 100 }, newRequestId)
  assert.equal(new Set(ids).size, 100)
  assert.match(ids[0], /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
