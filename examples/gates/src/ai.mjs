// Middleware of Vercel's AI SDK: wrapLanguageModel({ model, middleware: budgetMiddleware(gate) }).
import { Closed } from './gate.mjs'

const nothing = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
}
const closed = { unified: 'other', raw: 'budget' }

/** Returns middleware that makes a call only if the gate holds its estimate. A refusal is the text of
 * the answer, with the finish reason "other". */
export function budgetMiddleware(gate) {
  return {
    specificationVersion: 'v3',

    async wrapGenerate({ doGenerate, params }) {
      let pass
      try {
        pass = await gate.open(params)
      } catch (error) {
        if (!(error instanceof Closed)) throw error
        return { content: [{ type: 'text', text: error.message }], finishReason: closed, usage: nothing, warnings: [] }
      }
      try {
        const result = await doGenerate()
        await pass.used(result.usage)
        return result
      } catch (error) {
        await pass.failed(error)
        throw error
      }
    },

    async wrapStream({ doStream, params }) {
      let pass
      try {
        pass = await gate.open(params)
      } catch (error) {
        if (!(error instanceof Closed)) throw error
        return { stream: message(error.message) }
      }
      try {
        const result = await doStream()
        // The SDK reads on after an abort, and the model may not have heard of it.
        params.abortSignal?.addEventListener('abort', () => void pass.used(undefined), { once: true })
        return { ...result, stream: settling(result.stream, pass) }
      } catch (error) {
        await pass.failed(error)
        throw error
      }
    },
  }
}

/** Returns a stream with one text. */
function message(text) {
  return ReadableStream.from([
    { type: 'stream-start', warnings: [] },
    { type: 'text-start', id: 'budget' },
    { type: 'text-delta', id: 'budget', delta: text },
    { type: 'text-end', id: 'budget' },
    { type: 'finish', finishReason: closed, usage: nothing },
  ])
}

/** Passes a stream on, and settles before its last part, at an error, and when the reader goes. */
function settling(stream, pass) {
  const reader = stream.getReader()
  return new ReadableStream({
    async pull(out) {
      try {
        const { done, value } = await reader.read()
        if (value?.type === 'finish') await pass.used(value.usage)
        if (!done) return out.enqueue(value)
        await pass.used(undefined) // it ended without its last part
        out.close()
      } catch (error) {
        await pass.used(undefined) // it had begun
        out.error(error)
      }
    },
    async cancel(reason) {
      await Promise.allSettled([pass.used(undefined), reader.cancel(reason)])
    },
  })
}
