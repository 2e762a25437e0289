// Runs the gates with models that are not real, and a real budgetd at BUDGETD_URL.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { generateText, streamText, wrapLanguageModel } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { Client } from 'budgetd'
import { budgetMiddleware } from '../src/ai.mjs'
import { Gate } from '../src/gate.mjs'
import { GatedModel } from '../src/langchain.mjs'

const url = process.env.BUDGETD_URL
const client = new Client(url)
const estimate = 50

async function ask(method, path, body) {
  const answer = await fetch(url + path, {
    method, headers: { 'Content-Type': 'application/json' }, ...(body ? { body: JSON.stringify(body) } : {}),
  })
  const text = await answer.json()
  assert.ok(answer.ok, JSON.stringify(text))
  return text
}

let budgets = 0

/** Makes a budget, with a gate that tells what it could not settle. */
async function budget(total, more = {}) {
  const name = `gate-${++budgets}`
  await ask('POST', '/v1/budgets', { name, unit: 'count', type: 'promo', total_quantity: total })
  const left = []
  const gate = new Gate(client, name, {
    estimate: () => estimate, unsettled: (what) => left.push(what),
    cost: (u) => u.total_tokens ?? u.inputTokens.total + u.outputTokens.total, ...more,
  })
  return { name, gate, left, view: () => ask('GET', `/v1/budgets/${name}`) }
}

async function check(b, used) {
  const view = await b.view()
  assert.deepEqual([view.used, view.held, b.left], [used, 0, []])
}

const usage = (n) => ({ inputTokens: { total: 10 }, outputTokens: { total: n - 10 } })
const stop = { unified: 'stop', raw: 'stop' }
const rejected = Object.assign(new Error('no such model'), { statusCode: 404 })
const dropped = new Error('connection reset')

/** A model of the AI SDK whose calls use n units, in parts of a text; then is what happens after them. A
 * deaf one does not end at an abort. */
function aiModel(gate, n, { parts = 5, fails, then, deaf } = {}) {
  const model = new MockLanguageModelV3({
    doGenerate: async () => {
      if (fails) throw fails
      return { content: [{ type: 'text', text: 'hello' }], finishReason: stop, usage: usage(n), warnings: [] }
    },
    doStream: async ({ abortSignal }) => {
      if (fails) throw fails
      return { stream: ReadableStream.from((async function* () {
        yield { type: 'text-start', id: '0' }
        for (let i = 0; i < parts; i++) {
          await new Promise((r) => setTimeout(r, 1))
          if (!deaf && abortSignal?.aborted) throw abortSignal.reason
          yield { type: 'text-delta', id: '0', delta: 'x' }
        }
        if (then) throw then
        yield { type: 'text-end', id: '0' }
        yield { type: 'finish', finishReason: stop, usage: usage(n) }
      })()) }
    },
  })
  return wrapLanguageModel({ model, middleware: budgetMiddleware(gate) })
}

/** A model of LangChain.js, likewise. */
class Fake extends BaseChatModel {
  constructor(n, { parts = 5, fails, then } = {}) {
    super({})
    Object.assign(this, { n, parts, fails, then })
  }
  _llmType() { return 'fake' }
  get usage() { return { input_tokens: 10, output_tokens: this.n - 10, total_tokens: this.n } }
  async _generate() {
    if (this.fails) throw this.fails
    return { generations: [{ text: 'hello', message: new AIMessage({ content: 'hello', usage_metadata: this.usage }) }] }
  }
  async *_streamResponseChunks() {
    if (this.fails) throw this.fails
    for (let i = 0; i <= this.parts; i++) {
      await new Promise((r) => setTimeout(r, 1))
      if (i === this.parts && this.then) throw this.then
      const more = i === this.parts ? { usage_metadata: this.usage } : {}
      yield new ChatGenerationChunk({ text: 'x', message: new AIMessageChunk({ content: 'x', ...more }) })
    }
  }
}

/** How both are called: say answers with a text, stream reads a number of parts and then goes. */
const kinds = {
  'AI SDK': {
    make: aiModel,
    say: async (model) => (await generateText({ model, prompt: 'hi', maxRetries: 0 })).text,
    stream: async (model, most = Infinity) => {
      const gone = new AbortController()
      let text = ''
      let failure
      const result = streamText({ model, prompt: 'hi', maxRetries: 0, abortSignal: gone.signal,
        onError: ({ error }) => { failure = error } })
      const reader = result.textStream.getReader()
      for (let i = 0; i < most; i++) {
        const { done, value } = await reader.read()
        if (done) break
        text += value
      }
      if (most < Infinity) {
        gone.abort()
        await reader.cancel()
      }
      if (failure) throw failure
      return text
    },
  },
  'LangChain.js': {
    make: (gate, n, more) => new GatedModel(gate, new Fake(n, { ...more })),
    say: async (model) => (await model.invoke('hi', {})).text,
    stream: async (model, most = Infinity) => {
      let text = ''
      let i = 0
      for await (const chunk of await model.stream('hi')) {
        text += chunk.text
        if (++i >= most) break
      }
      return text
    },
  },
}

for (const [kind, { make, say, stream }] of Object.entries(kinds)) {
  test(`${kind}: an answer costs what it used`, async () => {
    const b = await budget(1000)
    assert.equal(await say(make(b.gate, 30)), 'hello')
    await check(b, 30)
    assert.equal(await say(make(b.gate, 70)), 'hello') // above the estimate
    await check(b, 100)
    assert.ok((await stream(make(b.gate, 20))).startsWith('xxxxx'))
    await check(b, 120)
  })

  test(`${kind}: a refusal is a message, and the model is not called`, async () => {
    const b = await budget(estimate - 1)
    for (const call of [say, stream]) {
      assert.match(await call(make(b.gate, 30, { fails: new Error('called') })), /budget does not allow.*budget_exhausted/)
    }
    await check(b, 0)
  })

  test(`${kind}: what the provider refused costs nothing, what broke costs the estimate`, async () => {
    const b = await budget(1000)
    for (const call of [say, stream]) {
      await assert.rejects(call(make(b.gate, 30, { fails: rejected })), /no such model/)
    }
    await check(b, 0)
    for (const call of [say, stream]) {
      await assert.rejects(call(make(b.gate, 30, { fails: dropped })), /connection reset/)
    }
    await check(b, 2 * estimate)
    await assert.rejects(stream(make(b.gate, 30, { then: dropped })), /connection reset/)
    await check(b, 3 * estimate)
  })

  test(`${kind}: without budgetd the model is not called`, async () => {
    const gone = createServer().listen(0, '127.0.0.1')
    await once(gone, 'listening')
    const { port } = gone.address()
    gone.close()
    const nobody = new Client(`http://127.0.0.1:${port}`, { retry: { attempts: 1 } })
    const gate = new Gate(nobody, 'sale', { estimate: () => 1, cost: () => 1 })
    await assert.rejects(say(make(gate, 30, { fails: new Error('called') })), { name: 'NotNow' })
  })

  test(`${kind}: of 500 streams, a fifth is aborted, and each unit is charged once`, async () => {
    const b = await budget(100_000)
    let expected = 0
    let next = 0
    const one = async () => {
      for (let i = next++; i < 500; i = next++) {
        const aborted = i % 5 === 0
        const n = 11 + i % 60 // below and above the estimate
        expected += aborted ? estimate : n
        // Half of the models do not hear of the abort, and go on to their end.
        await stream(make(b.gate, n, { parts: aborted ? 500 : 5, deaf: i % 2 === 0 }), aborted ? 2 : Infinity)
      }
    }
    await Promise.all(Array.from({ length: 25 }, one))
    for (let i = 0; i < 100 && (await b.view()).held > 0; i++) await new Promise((r) => setTimeout(r, 50))
    await check(b, expected)
  })
}

test('a stream that nobody reads or ends holds nothing once its time is over', async () => {
  const b = await budget(1000, { ttl: '1s' })
  await b.gate.open({})
  assert.equal((await b.view()).held, estimate)
  await new Promise((r) => setTimeout(r, 1000))
  for (let i = 0; i < 200 && (await b.view()).held > 0; i++) await new Promise((r) => setTimeout(r, 50))
  await check(b, 0)
})

test('what cannot be settled is told, and the answer is the answer of the model', async () => {
  const b = await budget(1000, { ttl: '1s' })
  const slow = b.gate.cost
  b.gate.cost = (u) => { b.gate.budget = 'nowhere'; return slow(u) }
  assert.equal(await kinds['AI SDK'].say(aiModel(b.gate, 30)), 'hello')
  assert.deepEqual([b.left.length, b.left[0].amount, b.left[0].error.code], [1, 30, 'budget_not_found'])
})
