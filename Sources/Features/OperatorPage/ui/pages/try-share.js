// A KakaoTalk message that is shared, arrives in a room, and is counted.

import { call, get } from '../api.js'
import { el } from '../dom.js'
import { number, t } from '../format.js'
import { piped, sandboxLine, serverLine } from './try-lines.js'
import { rest, storyName } from './try-push.js'

/** The last share of this page. Its signed address is in the answer that creates it and nowhere else. */
let current = null

const statistics = '/v1/link/stats?by=day&group=campaign'
const address = { web_url: 'https://example.com/cakes/1', mobile_web_url: 'https://example.com/cakes/1' }

const message = () => ({
  object_type: 'feed',
  content: { title: t('cake.title'), description: t('cake.text'), image_url: 'https://example.com/cake.png', link: address },
  buttons: [{ title: t('cake.button'), link: address }]
})

/** A message as KakaoTalk shows it, in a room. */
function bubble({ content, buttons }, room) {
  return el('figure', { class: 'room' },
    el('figcaption', { class: 'small' }, room),
    el('div', { class: 'bubble' },
      el('div', { class: 'image' }),
      el('div', { class: 'words' }, el('b', {}, content.title), el('span', {}, content.description)),
      buttons.map(({ title }) => el('span', { class: 'press' }, title))))
}

/** The number of arrivals of the story's shares. */
export async function countArrivals(signal) {
  const { items } = await get('/v1/link/stats', { by: 'day', group: 'campaign' }, { signal })
  return items.filter(({ value }) => value === storyName).reduce((sum, { arrivals }) => sum + arrivals, 0)
}

/** Creates a share. */
export async function share({ tale, free }) {
  const body = { template: message(), args: { product_id: '12' }, campaign: storyName }
  const path = '/v1/link/shares'
  await tale.add({ from: 'phone', to: 'server', key: 'share', code: `POST ${path}`, lines: [serverLine('POST', path, body)] })
  const made = await call('POST', path, { body })
  free()
  current = { id: made.id, url: made.sharer_url ?? made.kakaolink_url, template: made.template ?? body.template }
  if (made.kakaolink_url) await tale.add({
    from: 'server', to: 'kakao', key: 'checked', values: { count: number(Object.keys(made.warning_msg ?? {}).length) },
    code: '/v2/api/kakaolink/talk/template/default', lines: [
      serverLine('POST', '/v1/templates/lint', current.template),
      piped(current.template, 'push-server templates lint -')
    ]
  })
  await tale.add({
    from: 'server', to: 'phone', key: 'shared', code: made.callback_args.share, picture: bubble(current.template, t('try.draft')),
    lines: [serverLine('GET', `${path}/${made.id}`), piped(current.template, 'push-server templates preview -')]
  })
}

/** Plays the user who picks a friend: the message arrives, and Kakao calls back. */
export async function friend(scene) {
  const { tale, signal, free } = scene
  if (!current) await share({ ...scene, free: () => {} })
  const { id, url, template } = current
  const body = { url, chat_type: 'DirectChat' }
  await tale.add({ from: 'phone', to: 'kakao', key: 'pick', lines: [sandboxLine('POST', '/sandbox/link/share', body)] })
  const answer = await call('POST', '/sandbox/link/share', { body })
  free()
  await tale.add({ from: 'kakao', to: 'phone', key: 'room', level: 'good', picture: bubble(template, t('try.room')) })
  if (!answer.sent || answer.status !== 200) {
    const more = t('try.step.callback.none', { reason: answer.reason ?? answer.status })
    return tale.add({ from: 'kakao', to: 'server', key: 'callback', level: 'bad', more })
  }
  await arrival(scene, id, answer)
}

/** Draws the callback of a share and its count. */
async function arrival({ tale, signal }, id, answer) {
  let callback
  for (let round = 0; !callback && round < 10; round += 1) {
    const { items } = await get('/v1/link/callbacks', { share: id, limit: 10 }, { signal })
    callback = items.find(item => !answer || item.resource_id === answer.resource_id)
    if (!callback) await rest(500, signal)
  }
  if (!callback) return
  await tale.add({
    from: 'kakao', to: 'server', key: 'callback', values: { type: callback.chat_type, signature: callback.signature ?? '–' },
    code: `/kakao/link/callback?CHAT_TYPE=${callback.chat_type}&product_id=${callback.args.product_id}`,
    lines: [serverLine('GET', `/v1/link/callbacks?share=${id}`)]
  })
  await tale.add({
    from: 'server', key: 'counted', level: 'good', values: { campaign: storyName, count: number(await countArrivals(signal)) },
    lines: [serverLine('GET', statistics)], link: el('a', { href: '#/sharing' }, t('try.open.sharing'))
  })
}

/** Draws the last share of the story as the server knows it. */
export async function retell(scene, { id, arrivals }) {
  const hasArrived = Object.keys(arrivals).length > 0
  const [from, key, level, room] = hasArrived ? ['kakao', 'room', 'good', 'try.room'] : ['server', 'shared', '', 'try.draft']
  await scene.tale.add({
    from, to: 'phone', key, level, code: id, picture: bubble(message(), t(room)), lines: [serverLine('GET', `/v1/link/shares/${id}`)]
  })
  if (hasArrived) await arrival(scene, id, null)
}
