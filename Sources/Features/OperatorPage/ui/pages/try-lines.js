// The lines of a shell that do what a step has done. `. .local/dev.env` sets their variables.

import { el } from '../dom.js'
import { copyable } from '../copyable.js'

/** A text as one word of a shell. */
export const quoted = text => `'${text.replaceAll('\'', '\'\\\'\'')}'`

const curl = (address, credential, method, body) => [
  'curl -sS', credential, method !== (body ? 'POST' : 'GET') && `-X ${method}`, `"${address}"`,
  body && `--json ${quoted(JSON.stringify(body))}`
].filter(Boolean).join(' ')

/** A command that reads a value from its input. */
export const piped = (value, command) => `printf %s ${quoted(JSON.stringify(value))} | ${command}`

/** The curl line of an operation of the server. */
export const serverLine = (method, path, body) => curl(`$SERVER_URL${path}`, '-H "Authorization: Bearer $OPERATOR_KEY"', method, body)

/** The curl line of a control of the sandbox. */
export const sandboxLine = (method, path, body) => curl(`$SANDBOX_URL${path}`, '--cacert "$SANDBOX_CERTIFICATE"', method, body)

/** The lines of a step, closed at first. */
export const lines = texts => texts?.length > 0 && el('details', {},
  el('summary', { class: 'small' }, texts.map(text => text.match(/curl|push-server/)?.[0]).join(' · ')),
  el('div', { class: 'stack tight' }, texts.map(copyable)))
