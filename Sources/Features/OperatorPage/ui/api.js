// Calls of the public API. The page has no other way to the server.

/** An error that the server describes, or that no answer came. */
export class Problem extends Error {
  constructor(status, body, wait) {
    super(body.detail ?? body.title ?? '')
    this.status = status
    this.type = (body.type ?? '').split(':').pop()
    this.field = body.field
    this.wait = wait
  }
}

let signedOut = () => {}
let askForKey = async () => false

/** Sets what happens when the session has ended, and when an operation needs the key again. */
export function whenRejected(out, again) {
  signedOut = out
  askForKey = again
}

/**
 * Calls an operation, and returns the body of its answer.
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, text?: string, type?: string, asFile?: boolean, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 *   `body` is sent as JSON, `text` as it is; with `asFile` the answer is returned as it is, to be saved.
 */
export async function call(method, path, options = {}) {
  const { body, text = body === undefined ? undefined : JSON.stringify(body), type = 'application/json', signal } = options
  const headers = { ...options.headers, ...(text === undefined ? {} : { 'Content-Type': type }) }
  let response
  try {
    response = await fetch(path, { method, headers, signal, body: text })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Problem(0, { type: 'unreachable' })
  }
  if (response.ok && options.asFile) return response.blob()
  const isJSON = (response.headers.get('Content-Type') ?? '').includes('json')
  const answer = isJSON ? parse(await response.text()) : {}
  if (response.ok) return answer
  const problem = new Problem(response.status, answer, Number(response.headers.get('Retry-After') ?? 0))
  if (problem.status === 401 && path !== '/v1/session') signedOut()
  if (problem.type === 'key-required' && await askForKey()) return call(method, path, options)
  throw problem
}

/** User ids have up to 19 digits, which JavaScript's numbers do not hold: long integers stay text. */
function parse(text) {
  const longIntegers = /("(?:[^"\\]|\\.)*")|(?<![.\d])(-?\d{16,})(?=[\s,\]}])/g
  return JSON.parse(text.replace(longIntegers, (all, string, digits) => string ?? `"${digits}"`))
}

export const get = (path, query = {}, options = {}) => {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '' && value !== null)
  const text = new URLSearchParams(pairs).toString()
  return call('GET', text ? `${path}?${text}` : path, options)
}
export const post = (path, body = {}, headers = {}) => call('POST', path, { body, headers })
export const remove = (path, body) => call('DELETE', path, { body })
