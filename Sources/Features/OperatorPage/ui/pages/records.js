// The audit log, the operator keys, and the sessions of one's own key.

import { get, remove } from '../api.js'
import { ask } from '../dialog.js'
import { el, fill, table } from '../dom.js'
import { hasText, t } from '../format.js'
import { empty, states, when } from '../parts.js'
import { keys } from './records-keys.js'
import { download, filters, nextPage, parameters, tabs } from '../lists.js'

const names = ['operation', 'object', 'key_id', 'user_id', 'since', 'until']

/** The operations that have words; the log has others too, by their names. */
const operations = [
  'cancelPush', 'pausePush', 'resumePush', 'retryPush', 'approvePush', 'rejectPush', 'exportPushUsers', 'getPushUser', 'putAudience',
  'deleteAudience', 'stopSender', 'startSender', 'createKey', 'deleteKey', 'createSession', 'deleteSession', 'deleteOneSession',
  'listDevicesOfUser', 'listPushesOfUser', 'listMessages', 'listEvents', 'getAccount', 'reconcileUser', 'deleteUser', 'deleteDevice', 'importDevices',
  'exportDevices', 'createShare', 'reportConversion', 'exportLinkCallbacks', 'exportAuditRecords'
]

/** Records and keys. Without the scope `admin`, only one's own sessions. */
export async function show(view) {
  const { main, path: [part], session } = view
  const parts = session.allows('admin') ? ['log', 'keys', 'sessions'] : ['sessions']
  const current = parts.includes(part) ? part : parts[0]
  const shown = tabs('records', parts, current)
  if (shown) main.append(shown)
  await { log, keys, sessions }[current](view)
}

async function log({ main, head, query, signal }) {
  const chosen = query.get('operation')
  const known = chosen && !operations.includes(chosen) ? [chosen, ...operations] : operations
  main.append(filters('records', query, names, {
    operation: [['', t('all')], ...known.map(name => [name, hasText(`audit.${name}`) ? t(`audit.${name}`) : name])]
  }))
  const list = el('div', { class: 'stack', 'aria-live': 'polite' })
  main.append(list)
  const values = await parameters(query, names, signal)
  const range = Object.fromEntries(Object.entries(values).filter(([name]) => name === 'since' || name === 'until'))
  head.append(el('div', { class: 'actions' }, download(t('records.export'), '/v1/audit/export', range, 'audit.ndjson')))
  const page = await get('/v1/audit', { ...values, cursor: query.get('cursor'), limit: 50 }, { signal })
  if (page.items.length === 0) return fill(list, empty(t('records.none')))
  fill(list, table(t('records.log'), ['time', 'actor', 'address', 'operation', 'object', 'reason'].map(name => t(`records.${name}`)),
    page.items.map(record => [
      when(record.at, 'short'),
      record.actor.key_id
        ? el('a', { href: `#/records?${new URLSearchParams({ key_id: record.actor.key_id })}` }, record.actor.name) : record.actor.name,
      record.address ?? t('records.command'), { wide: operation(record.operation) }, { wide: subject(record) }, { wide: record.reason ?? '–' }
    ])), nextPage('records', query, page.next))
}

const operation = name => hasText(`audit.${name}`) ? el('span', { title: name }, t(`audit.${name}`)) : el('span', { class: 'mono' }, name)

/** What a record is about: a user or a push is a link to its screen. */
function subject({ operation, object, user_id }) {
  if (user_id) return el('a', { href: `#/user/${user_id}` }, t('records.user', { id: user_id }))
  if (!object) return '–'
  const name = el('span', { class: 'mono' }, object)
  return /Push(Users?)?$/.test(operation) ? el('a', { href: `#/push/${encodeURIComponent(object)}` }, name) : name
}

async function sessions({ main, signal }) {
  const own = await get('/v1/session', {}, { signal })
  if (!own.session) return
  const { items } = await get('/v1/sessions', {}, { signal })
  const end = id => ask({
    title: t('sessions.end.title'), text: t('sessions.end.text'), action: t('sessions.end'), isDanger: true,
    act: () => remove(`/v1/sessions/${id}`)
  }).then(done => done && dispatchEvent(new Event('hashchange')))
  main.append(el('section', { class: 'stack' }, el('p', { class: 'soft' }, t('sessions.text')),
    table(t('records.sessions'), ['started', 'ends', 'address', 'action'].map(name => t(`sessions.${name}`)), items.map(item => [
      when(item.started_at, 'short'), when(item.ends_at, 'short'), item.address,
      item.id === own.session.id
        ? states('sessions.current', 'good')
        : el('button', { type: 'button', class: 'danger', onclick: () => end(item.id) }, t('sessions.end.open'))
    ]))))
}
