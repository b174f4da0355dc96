import { expect, test } from 'vitest'
import { marker, readConversation } from '../scripts/model/scenarios.mjs'
import { startModel } from '../scripts/model/server.mjs'

// biome-ignore lint/suspicious/noExplicitAny: wire JSON
const bodyOf = async (response: Response): Promise<any> => response.json()

type Model = Awaited<ReturnType<typeof startModel>>

async function withModel<T>(options: Parameters<typeof startModel>[0], use: (model: Model) => Promise<T>) {
  const model = await startModel(options)
  try {
    return await use(model)
  } finally {
    await model.close()
  }
}

const chat = (model: Model, content: string, init: RequestInit = {}, stream = false) =>
  fetch(`${model.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content }] }),
    ...init,
  })

const said = async (response: Response) => (await bodyOf(response)).choices[0].message.content

test('it listens on loopback only', async () => {
  await expect(startModel({ host: '0.0.0.0' })).rejects.toThrow('loopback only')
  await withModel({}, async model => expect(new URL(model.url).hostname).toBe('127.0.0.1'))
})

test('a marker decides, and without one the default scenario does', () =>
  withModel({ scenario: 'empty' }, async model => {
    expect(await said(await chat(model, 'Hello.'))).toBeNull()
    expect(await said(await chat(model, `Hello. ${marker('text')}`))).toMatch(/^Hello/)
  }))

test('an unknown scenario is refused by name', () =>
  withModel({}, async model => {
    const response = await chat(model, marker('no-such'))
    expect(response.status).toBe(400)
    expect((await bodyOf(response)).error.message).toBe('Unknown scenario: no-such')
  }))

test('a scenario of the caller sees the tool output', () =>
  withModel(
    {
      scenarios: {
        mine: (turn: { toolOutput: string }) => ({ parts: [{ text: [`<${turn.toolOutput}>`] }] }),
      },
    },
    async model => {
      const messages = [
        { role: 'user', content: marker('mine') },
        { role: 'tool', content: 'one' },
        { role: 'tool', content: [{ type: 'text', text: 'two' }] },
      ]
      const body = JSON.stringify({ model: 'm', messages })
      expect(await said(await chat(model, '', { body }))).toBe('<one\ntwo>')
    },
  ))

test('requests are listed as they came', () =>
  withModel({}, async model => {
    await chat(model, marker('text'))
    await fetch(`${model.url}/v1/models`)
    expect(model.requests).toMatchObject([
      { format: 'openai-chat', scenario: 'text', streaming: false, toolAnswered: false },
      { method: 'GET', path: '/v1/models' },
    ])
  }))

test('answering resolves when the first piece of a slow answer is out, and a client may leave then', () =>
  withModel({ slowMs: 20 }, async model => {
    const leaving = new AbortController()
    const request = chat(model, marker('slow'), { signal: leaving.signal }, true).then(response =>
      response.text(),
    )
    request.catch(() => {})
    const record = await model.answering((each: { scenario: string }) => each.scenario === 'slow')
    expect(record).toMatchObject({ scenario: 'slow', answering: true })
    leaving.abort()
    await expect(request).rejects.toThrow()
  }))

test('closing ends answers that never come', async () => {
  const model = await startModel()
  const request = chat(model, marker('hang'))
  request.catch(() => {})
  await model.answering()
  await model.close()
  await expect(request).rejects.toThrow()
})

test('unknown routes and broken requests are refused, known side routes answer', () =>
  withModel({}, async model => {
    expect((await fetch(`${model.url}/v2/none`)).status).toBe(404)
    expect((await chat(model, '', { body: '{' })).status).toBe(500)
    const count = await fetch(`${model.url}/v1/messages/count_tokens`, { method: 'POST', body: '{}' })
    expect(await count.json()).toEqual({ input_tokens: 1234 })
    const list = await bodyOf(await fetch(`${model.url}/v1/models`))
    expect(list.data.map((entry: { id: string }) => entry.id)).toContain('scripted-model')
  }))

test('the newest marked prompt of a resumed conversation decides, and older tool outputs do not count', () => {
  const entries = [
    { role: 'user', text: `first ${marker('tool')}` },
    { role: 'tool', text: 'hi' },
    { role: 'assistant', text: 'done' },
    { role: 'user', text: `second ${marker('multi')}` },
  ]
  expect(readConversation(entries, 'text')).toEqual({
    scenario: 'multi',
    toolAnswered: false,
    toolOutput: '',
  })
  entries.push({ role: 'tool', text: 'one' }, { role: 'user', text: 'a reminder' })
  expect(readConversation(entries, 'text')).toMatchObject({ toolAnswered: true, toolOutput: 'one' })
})
