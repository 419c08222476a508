// A phone that registers, and a push that is followed until it has ended. Each step is drawn from an answer.

import { call, get } from '../api.js'
import { el } from '../dom.js'
import { number, problemText, t, time } from '../format.js'
import { acted } from '../live.js'
import { hasEnded, when } from '../parts.js'
import { quoted, sandboxLine, serverLine } from './try-lines.js'

/** The user whom a login at the sandbox names by default, and the phone of the story. */
export const userID = '1001'
const deviceID = 'try-phone'
/** The name of the story's pushes, and its campaign. */
export const storyName = 'try-it'

const devicePath = `/v1/devices/${deviceID}?user_id=${userID}`
const token = '740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad'

/** Waits some time, or until something was done on this page. */
export const rest = (milliseconds, signal) => new Promise(resolve => {
  const timer = setTimeout(resolve, milliseconds)
  const done = () => { clearTimeout(timer); resolve(undefined) }
  addEventListener('acted', done, { once: true, signal })
  signal.addEventListener('abort', done)
})

/** The phone of the story, if it is registered. */
export async function readDevice(signal) {
  const { items } = await get(`/v1/users/${userID}/devices`, {}, { signal })
  return items.find(device => device.device_id === deviceID)
}

/** Registers the phone. */
export async function register({ tale, signal, free }) {
  const body = { push_type: 'apns', push_token: token }
  await tale.add({
    from: 'phone', to: 'server', key: 'register', code: `PUT /v1/devices/${deviceID}`, lines: [serverLine('PUT', devicePath, body)]
  })
  let device = await call('PUT', devicePath, { body })
  free()
  const see = [serverLine('GET', `/v1/users/${userID}/devices`)]
  if (device.state === 'pending') await tale.add({ from: 'server', to: 'kakao', key: 'pending', level: 'warn', lines: see })
  while (device?.state === 'pending') {
    await rest(3000, signal)
    device = await readDevice(signal)
  }
  if (!device) return
  const values = { time: time(device.expires_at, 'short') }
  await tale.add({ from: 'server', to: 'kakao', key: 'registered', values, code: 'POST /v1/push/register', lines: see })
}

/** Sends a push to the phone, which registers before if it has not, and follows it. */
export async function send(scene) {
  const { tale, signal, free } = scene
  if (!await readDevice(signal)) await register({ ...scene, free: () => {} })
  const shown = { title: t('try.message.title'), body: t('try.message.body') }
  // The sandbox counts by this marker, and the notification of this push is found by it.
  const message = { for_apns: { message: shown, custom_field: { marker: `try-${Date.now().toString(36)}` } } }
  const body = { name: storyName, audience: { uuids: [userID] }, message }
  await tale.add({
    from: 'server', key: 'request', values: { text: `${shown.title} – ${shown.body}` }, code: 'POST /v1/pushes', lines: [
      serverLine('POST', '/v1/pushes', body),
      `push-server pushes send --user ${userID} --name ${storyName} --message ${quoted(JSON.stringify(message))} --watch`
    ]
  })
  const push = await call('POST', '/v1/pushes', { body })
  free()
  await follow(scene, push)
}

/** Draws what becomes of a push, from its batch to the notification. */
export async function follow({ tale, signal, sender }, { id }) {
  const url = `/v1/pushes/${id}`
  const seen = [serverLine('GET', `${url}/batches`), `push-server pushes show ${id} --batches`]
  const add = (key, step) => tale.add({ key, lines: seen, ...step })
  await add('stored', { from: 'server', code: id, lines: [serverLine('GET', url), `push-server pushes show ${id}`] })
  /** What was drawn last: a step is drawn when it changes. */
  let phase = ''
  let hasBatch = false
  let isCalled = false
  let attempts
  for (let round = 0; !signal.aborted; round += 1) {
    const [push, batch] = await look(url, signal)
    if (!push) {
      await rest(2000, signal)
      continue
    }
    if (batch && !hasBatch) {
      hasBatch = true
      await add('batch', { from: 'server', values: { number: batch.number, count: number(batch.uuids.length) } })
    }
    if (batch && !isCalled && (batch.state !== 'waiting' || batch.kakao_message)) {
      isCalled = true
      await add('call', { from: 'server', to: 'kakao', code: 'POST /v1/push/send' })
    }
    const next = hasEnded(push) ? 'over' : ['halted', 'paused'].includes(push.state) ? push.state : sender() === 'stopped' ? 'stopped'
      : batch?.state === 'waiting' && batch.kakao_message ? 'silent' : 'running'
    const tried = batch && { attempts: number(batch.attempts), time: time(batch.next_attempt_at) }
    if (next === 'over') return finish(push, batch)
    if (next === phase) {
      if (next === 'silent') attempts.textContent = t('try.step.silent.more', tried)
    } else if (next === 'halted') {
      await add('refused', { from: 'kakao', to: 'server', level: 'bad', code: push.reason })
      const status = await get('/v1/status', {}, { signal })
      acted()
      await add('halted', {
        from: 'server', level: 'bad', code: status.sender.remedy, lines: [serverLine('GET', '/v1/status'), 'push-server status']
      })
    } else if (next === 'silent') {
      attempts = await add('silent', { from: 'kakao', to: 'server', level: 'warn', values: tried, code: batch.kakao_message })
    } else if (next !== 'running') await add(next, { from: 'server', level: 'warn' })
    phase = next
    await rest(phase === 'silent' ? 1000 : phase !== 'running' ? 5000 : round < 20 ? 200 : 2000, signal)
  }

  async function finish(push, batch) {
    const { sent, failed, uncertain, skipped, total } = push.users
    if (batch?.state === 'sent') {
      const words = t('try.step.answer.more', { status: batch.kakao_status, attempts: number(batch.attempts) })
      const more = batch.may_repeat ? `${words}. ${t('try.step.answer.repeat')}` : words
      await add('answer', { from: 'kakao', to: 'server', more })
      await notification(tale, push, signal)
    } else if (batch?.kakao_message) await add('refused', { from: 'kakao', to: 'server', level: 'bad', code: batch.kakao_message })
    const link = el('a', { href: `#/push/${id}` }, t('try.open'))
    const end = { from: 'server', link, lines: [serverLine('GET', url), `push-server pushes show ${id}`] }
    if (push.state !== 'done') await add('ended', { ...end, more: t(`state.${push.state}`) })
    else if (total === skipped) await add('none', { ...end, level: 'warn', values: { skipped } })
    else await add('done', {
      ...end, level: sent > 0 ? 'good' : 'bad', values: { sent: number(sent), failed: number(failed), uncertain: number(uncertain) }
    })
  }
}

/** The push and its batch, or nothing while the server does not answer. */
async function look(url, signal) {
  try {
    const [push, { items }] = await Promise.all([get(url, {}, { signal }), get(`${url}/batches`, { limit: 1 }, { signal })])
    return [push, items[0]]
  } catch (error) {
    if (signal.aborted || !(error.status === 0 || error.status >= 500)) throw error
    return []
  }
}

/** Draws the notification that the sandbox has delivered. */
async function notification(tale, push, signal) {
  const path = '/sandbox/deliveries'
  const { items } = await get(path, { user_id: userID, limit: 10000 }, { signal })
  const marker = push.message?.for_apns?.custom_field?.marker
  const found = marker && items.findLast(item => item.device_id === deviceID && item.payload?.custom_field?.marker === marker)
  if (!found) return
  const shown = found.payload.message
  const isShown = found.outcome === 'delivered'
  await tale.add({
    from: 'kakao', to: 'phone', key: isShown ? 'notified' : 'undelivered', level: isShown ? 'good' : 'bad',
    values: { device: found.device_id, outcome: found.outcome }, lines: [sandboxLine('GET', `${path}?user_id=${userID}`)],
    picture: isShown && el('div', { class: 'phone apns' }, el('div', { class: 'notification' },
      el('b', {}, shown.title), el('span', {}, shown.body), el('span', { class: 'at' }, when(found.delivered_at))))
  })
}

/** Draws an error where it came about. */
export const failed = (tale, error) => tale.add({
  from: 'server', key: 'failed', level: 'bad', more: problemText(error) || `HTTP ${error.status}`
})
