// What a user's screen shows below the devices and the pushes: the account, KakaoTalk messages, channels, events, and the comparison with Kakao.

import { get, post } from '../api.js'
import { ask } from '../dialog.js'
import { el, fill, table, terms } from '../dom.js'
import { number, problemText, t } from '../format.js'
import { empty, platform, states, when } from '../parts.js'

const section = (key, contents) => el('section', { class: 'stack' }, el('h2', {}, t(key)), contents)

/** Loads a list, and shows it, its emptiness or why it cannot be shown. */
function loaded(key, path, query, signal, shown) {
  const body = el('div', { class: 'stack' })
  get(path, query, { signal }).then(found => {
    fill(body, found.items?.length === 0 ? empty(t(`${key}.none`)) : shown(found))
  }, error => {
    if (signal.aborted) return
    // Without a login on the server there is no account.
    const isNone = error.status === 404 || error.type === 'not-configured'
    fill(body, isNone ? empty(t(`${key}.none`)) : el('p', { class: 'problem' }, problemText(error)))
  })
  return section(key, body)
}

/** A scope; those of Talk Calendar with their names. */
const scope = id => ['talk_calendar', 'talk_calendar_task'].includes(id) ? `${t(`scope.${id}`)} (${id})` : id

const levels = { linked: 'good', login_required: 'warn', sent: 'good', failed: 'bad', ADDED: 'good', BLOCKED: 'warn' }

/** The account, the messages in the user's name, the channels and the events of a user, as far as the key allows. */
export function more(id, session, signal) {
  const allowsAny = (...scopes) => scopes.some(session.allows)
  return [
    allowsAny('accounts', 'operate') && loaded('account', `/v1/accounts/${id}`, {}, signal, account => terms('list', [
      [t('state'), states(`account.${account.state}`, levels[account.state] ?? '')],
      account.reason && [t('field.reason'), account.reason],
      [t('account.scopes'), account.scopes.map(scope).join(', ') || '–'],
      [t('account.linked'), when(account.linked_at, 'short')],
      [t('account.refreshed'), when(account.refreshed_at, 'short')]
    ])),
    allowsAny('talk', 'operate') && loaded('messages', '/v1/messages', { sender: id, limit: 20 }, signal, ({ items }) => table(
      t('messages'),
      [t('created'), t('state'), t('created-by'), { number: t('message.receivers') }, { number: t('sent') }, { number: t('failed') }],
      items.map(item => [
        when(item.created_at, 'short'), t(`message.${item.state}`), item.created_by ?? '–', { number: number(item.receivers.total) },
        { number: number(item.receivers.sent) }, { number: number(item.receivers.failed) }
      ]))),
    allowsAny('read') && loaded('channels', `/v1/users/${id}/channels`, {}, signal, ({ items }) =>
      table(t('channels'), [t('channel'), t('state'), t('channel.since')], items.map(item => [
        [el('span', { class: 'mono' }, item.channel_public_id), item.channel_uuid && el('p', { class: 'soft small' }, item.channel_uuid)],
        states(`channel.${item.relation}`, levels[item.relation] ?? ''), when(item.updated_at, 'short')
      ]))),
    allowsAny('read') && loaded('events', '/v1/events', { user_id: id, limit: 20 }, signal, ({ items }) =>
      table(t('events'), [t('records.time'), t('kind')], items.map(item => [when(item.received_at, 'short'), item.type])))
  ].filter(Boolean)
}

/** Compares the devices with Kakao's, first without changing anything. `hasNone`: there are none here. */
export function comparison(url, hasNone) {
  const out = el('div', { class: 'stack', 'aria-live': 'polite' })
  const mend = () => ask({
    title: t('compare.mend.title'), text: t('compare.mend.text'), action: t('compare.mend'), done: t('compare.mended'), act: () => post(`${url}/sync`)
  }).then(done => done && dispatchEvent(new Event('hashchange')))
  const compare = async () => {
    try {
      const { differences } = await post(`${url}/sync`, { dry_run: true })
      if (differences.length === 0) return fill(out, el('p', {}, hasNone ? states('compare.none', '') : states('compare.same', 'good')))
      fill(out, table(t('compare'), [t('device'), t('push-type'), t('compare.difference')], differences.map(found => [
        el('span', { class: 'mono' }, found.device_id), platform(found.push_type), { wide: t(`compare.${found.difference}`) }
      ])), el('div', {}, el('button', { type: 'button', onclick: mend }, t('compare.mend'))))
    } catch (error) {
      fill(out, el('p', { class: 'problem', role: 'alert' }, problemText(error)))
    }
  }
  return el('section', { class: 'card' }, el('h2', {}, t('compare')), el('p', { class: 'soft' }, t('compare.text')),
    el('div', {}, el('button', { type: 'button', onclick: compare }, t('compare.action'))), out)
}
