// A chat model of LangChain.js behind a gate: new GatedModel(gate, model).
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { Closed } from './gate.mjs'

/** Calls a model only if the gate holds the estimate of the messages. A refusal is a message, with
 * response_metadata.finish_reason "budget". */
export class GatedModel extends BaseChatModel {
  constructor(gate, model) {
    super({})
    Object.assign(this, { gate, model })
  }

  _llmType() { return 'gated' }

  async _generate(messages, options, manager) {
    const pass = await this.#open(messages)
    if (pass instanceof Closed) {
      return { generations: [{ text: pass.message, message: new AIMessage(said(pass)) }] }
    }
    try {
      const result = await this.model._generate(messages, options, manager)
      await pass.used(result.generations[0]?.message.usage_metadata)
      return result
    } catch (error) {
      await pass.failed(error)
      throw error
    }
  }

  async *_streamResponseChunks(messages, options, manager) {
    const pass = await this.#open(messages)
    if (pass instanceof Closed) {
      yield new ChatGenerationChunk({ text: pass.message, message: new AIMessageChunk(said(pass)) })
      return
    }
    let begun = false
    let usage
    try {
      for await (const chunk of this.model._streamResponseChunks(messages, options, manager)) {
        begun = true
        usage = chunk.message.usage_metadata ?? usage
        yield chunk
      }
    } catch (error) {
      if (!begun) await pass.failed(error)
      throw error
    } finally {
      await pass.used(usage) // also if the reader goes
    }
  }

  async #open(messages) {
    try {
      return await this.gate.open(messages)
    } catch (error) {
      if (error instanceof Closed) return error
      throw error
    }
  }
}

const said = (closed) => ({ content: closed.message, response_metadata: { finish_reason: 'budget' } })
