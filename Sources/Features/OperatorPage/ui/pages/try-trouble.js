// Faults of the sandbox: Kakao refuses the key, or is down, and works again.

import { call, get, post } from '../api.js'
import { acted } from '../live.js'
import { sandboxLine, serverLine } from './try-lines.js'
import { send, storyName } from './try-push.js'

const path = '/sandbox/faults'
const downSeconds = 20
let timer

const isRefusal = ({ kind, status, path }) => kind === 'status' && status === 401 && path === '/v1/push/send'

/** What is wrong with Kakao: `refuses`, `down`, `other` or nothing, and until when. */
export function troubleOf(faults) {
  const down = faults.find(({ kind }) => kind === 'down')
  if (down) return { kind: 'down', until: Date.parse(down.msg) }
  return { kind: faults.some(isRefusal) ? 'refuses' : faults.length > 0 ? 'other' : null }
}

export const readFaults = async signal => (await get(path, {}, { signal })).items

/** Ends a fault in time. Its text says when, so that a page that is opened again knows it too. */
export function endInTime(faults, then = () => {}) {
  const fault = faults.find(({ kind, msg }) => kind === 'down' && Date.parse(msg))
  if (!fault) return
  clearTimeout(timer)
  timer = setTimeout(async () => {
    await call('DELETE', `${path}/${fault.id}`).catch(() => {})
    then()
    acted()
  }, Math.max(0, Date.parse(fault.msg) - Date.now()))
}

/** Adds a fault unless it is there, and sends a push that meets it. */
async function meet(scene, key, body, isThere, then) {
  const { tale, signal } = scene
  const before = await readFaults(signal)
  const again = before.some(isThere)
  if (!again) await call('POST', path, { body })
  const { msg, ...shown } = body
  await tale.add({ from: 'kakao', key: again ? `${key}.again` : key, level: 'warn', lines: [sandboxLine('POST', path, shown)] })
  if (!again) then()
  acted()
  await send(scene)
}

/** Kakao refuses the Admin key. */
export const refuse = scene => {
  const body = { path: '/v1/push/send', kind: 'status', status: 401, code: -401 }
  return meet(scene, 'refuse', body, isRefusal, () => {})
}

/** Kakao answers nothing for a while. */
export function down(scene) {
  const until = new Date(Date.now() + downSeconds * 1000).toISOString()
  const end = async () => endInTime(await readFaults(scene.signal), () => scene.tale.add({
    from: 'kakao', key: 'up', level: 'good', lines: [sandboxLine('DELETE', path)]
  }))
  return meet(scene, 'down', { kind: 'down', msg: until }, ({ kind }) => kind === 'down', end)
}

/** Removes all faults, and resumes what has halted. */
export async function well({ tale, signal, free }) {
  clearTimeout(timer)
  await call('DELETE', path)
  await tale.add({ from: 'kakao', key: 'well', level: 'good', lines: [sandboxLine('DELETE', path)] })
  const { items } = await get('/v1/pushes', { state: 'halted', limit: 100 }, { signal })
  free()
  for (const { id } of items) {
    const way = `/v1/pushes/${id}/resume`
    await tale.add({ from: 'server', key: 'resume', code: id, lines: [serverLine('POST', way), `push-server pushes resume ${id}`] })
    // Another press, or a shell, may have resumed it.
    await post(way).catch(error => { if (error.status !== 409) throw error })
    acted()
  }
  if (items.length === 0) await tale.add({ from: 'server', key: 'fine', lines: [serverLine('GET', '/v1/status'), 'push-server status'] })
}

/** The last push of the story. */
export const readLastPush = async signal => (await get('/v1/pushes', { name: storyName, limit: 1 }, { signal })).items[0]
