// A user: the devices, the pushes with their results, and what else the server knows.

import { get, remove } from '../api.js'
import { ask, field, say } from '../dialog.js'
import { el, table } from '../dom.js'
import { number, problemText, t, time } from '../format.js'
import { empty, platform, pushName, states, when } from '../parts.js'
import { result } from './push-more.js'
import { comparison, more } from './user-more.js'

/** A user: devices, pushes and their results. The id stands only in the fragment of the address, which no server and no log gets. */
export async function show({ main, path: [id], session, signal }) {
  const input = el('input', {
    id: 'user-id', inputmode: 'numeric', required: true, pattern: '[1-9][0-9]{0,18}', title: t('field.user.hint'), value: id ?? '', type: 'text'
  })
  main.append(el('form', {
    class: 'filters', role: 'search', onsubmit: event => {
      event.preventDefault()
      location.hash = `#/user/${input.value.trim()}`
    }
  }, el('label', { for: 'user-id' }, t('field.user'), input), el('button', { class: 'main' }, t('search'))), el('p', { class: 'soft small' }, t('user.recorded')))
  if (!id) return input.focus()
  const url = `/v1/users/${encodeURIComponent(id)}`
  const [devices, pushes] = await Promise.all([
    session.allows('devices') || session.allows('read') ? get(`${url}/devices`, {}, { signal }).catch(refused) : null,
    session.allows('read') ? get(`${url}/pushes`, { limit: 50 }, { signal }).catch(refused) : null
  ])
  main.append(section('devices', deviceTable(devices, session.allows('devices') && (device => removal(id, device)))), section('pushes-of-user', pushTable(pushes)))
  main.append(...more(id, session, signal))
  if (session.allows('devices')) main.append(comparison(url, devices?.items?.length === 0), erasure(id, url))
}

const refused = error => ({ refusal: error })

const section = (key, contents) => el('section', { class: 'stack' }, el('h2', {}, t(key)), contents)

/** @param {false | ((device: any) => Node)} action what can be done about a device */
function deviceTable(page, action) {
  if (!page) return empty(t('missing.scope'))
  if (page.refusal) return el('p', { class: 'problem' }, problemText(page.refusal))
  if (page.items.length === 0) return empty(t('devices.none'))
  return table(t('devices'), [
    t('device'), t('push-type'), t('state'), t('app-version'), t('tags'), t('device.token'), { number: t('failures'), hint: t('failures.hint') },
    t('device.expires'), ...action ? [t('device.action')] : []
  ],
    page.items.map(device => [
      { wide: el('span', { class: 'mono' }, device.device_id) }, platform(device.push_type),
      [states(`device.${device.state}`, device.state === 'registered' ? 'good' : 'warn'),
        el('p', { class: 'soft small' }, t('updated'), ' ', when(device.updated_at, 'short'))], device.app_version ?? '–',
      device.tags.join(', ') || '–', el('span', { class: 'mono' }, device.push_token), { number: number(device.failures) }, when(device.expires_at, 'short'),
      ...action ? [action(device)] : []
    ]))
}

function pushTable(page) {
  if (!page) return empty(t('missing.scope'))
  if (page.refusal) return el('p', { class: 'problem' }, problemText(page.refusal))
  if (page.items.length === 0) return empty(t('pushes-of-user.none'))
  return [table(t('pushes-of-user'), [t('created'), t('push'), t('result'), t('finished')], page.items.map(item => [
    when(item.created_at, 'short'), {
      wide: [el('a', { href: `#/push/${item.push_id}` }, pushName({ ...item, id: item.push_id })),
        item.name && el('p', { class: 'soft small line-1' }, item.first_words)]
    },
    result(item), when(item.finished_at, 'short')
  ])), el('p', { class: 'soft small' }, t('sent.note'))]
}

/** A button that removes a device, after a question. */
const removal = (id, device) => el('button', {
  type: 'button', class: 'danger', onclick: () => ask({
    title: t('device.remove.title', { device: device.device_id }), text: t('device.remove.text'), action: t('device.remove'), isDanger: true,
    act: async () => {
      // The user stands in the body, since addresses are in logs.
      const { state } = await remove(`/v1/devices/${encodeURIComponent(device.device_id)}`, { user_id: id, push_type: device.push_type })
      say(t(state === 'pending' ? 'device.remove.pending' : 'device.remove.done', { device: device.device_id }))
    }
  }).then(done => done && dispatchEvent(new Event('hashchange')))
}, t('device.remove.open'))

/** Erases a user, after the number has been typed. */
const erasure = (id, url) => el('section', { class: 'card' }, el('h2', {}, t('erase')), el('p', { class: 'soft' }, t('erase.text')),
  el('div', {}, el('button', {
    type: 'button', class: 'danger', onclick: () => ask({
      title: t('erase.title', { id }), text: `${t('erase.text')} ${t('erase.type', { id })}`, action: t('erase'), isDanger: true,
      fields: [field('user', { required: true, pattern: id, inputmode: 'numeric', autocomplete: 'off' })],
      act: async ([typed]) => {
        if (typed !== id) throw new Error(t('erase.type', { id }))
        const { state } = await remove(url)
        say(t(state === 'pending' ? 'erase.pending' : 'erase.done', { id, time: time(new Date().toISOString()) }))
      }
    }).then(done => done && dispatchEvent(new Event('hashchange')))
  }, t('erase.action'))))
