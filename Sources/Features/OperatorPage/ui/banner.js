// The state of the sender, on every screen, with the switch that stops everything.

import { get, post } from './api.js'
import { ask, field } from './dialog.js'
import { byID, el, fill } from './dom.js'
import { t, time } from './format.js'
import { every } from './live.js'
import { states } from './parts.js'

let shown = new AbortController()
let listeners = []

/** Calls `listener` with each status that the banner reads. */
export function onStatus(signal, listener) {
  listeners.push(listener)
  signal.addEventListener('abort', () => { listeners = listeners.filter(other => other !== listener) })
  if (last) listener(last)
}

let last = null

/** Shows the banner for a session. */
export function banner(session) {
  shown.abort()
  shown = new AbortController()
  if (!session.allows('read')) return
  const { signal } = shown
  const update = async (isActed = true) => {
    // The server reads the status once a second for all pages, but not for the one that has just changed it.
    last = await get('/v1/status', {}, { signal, headers: isActed ? {} : { 'Cache-Control': 'max-age=1' } })
    draw(session, last, update)
    for (const listener of listeners) listener(last)
  }
  every(10, signal, update, () => drawUnknown())
}

function draw(session, { sender, database }, update) {
  const bar = byID('banner')
  const isStopped = sender.state === 'stopped'
  const level = sender.state === 'running' && database.up ? '' : sender.state === 'waiting' ? 'warn' : 'bad'
  const why = [sender.reason, sender.stopped_by && `${sender.stopped_by}, ${time(sender.stopped_at, 'short')}`]
  bar.className = level
  bar.hidden = false
  fill(bar,
    states(`sender.${sender.state}`, level === '' ? 'good' : level),
    !database.up && el('span', {}, t('database.down')),
    why.filter(Boolean).map(text => el('span', {}, text)),
    sender.remedy && el('span', { class: 'soft' }, sender.remedy),
    session.allows('operate') && el('button', { type: 'button', class: isStopped ? '' : 'danger', onclick: isStopped ? start : stop },
      t(isStopped ? 'sender.start' : 'sender.stop')))

  async function stop() {
    await ask({
      title: t('sender.stop.title'), text: t('sender.stop.text'), action: t('sender.stop.action'), isDanger: true,
      fields: [field('reason', { required: true })], act: ([reason]) => post('/v1/sender/stop', { reason })
    })
    await update()
  }

  async function start() {
    await ask({
      title: t('sender.start.title'), text: t('sender.start.text'), action: t('sender.start'), act: () => post('/v1/sender/start')
    })
    await update()
  }
}

function drawUnknown() {
  const bar = byID('banner')
  bar.className = 'bad'
  bar.hidden = false
  fill(bar, states('unreachable', 'bad'))
}
