// The story with the sandbox: a phone, this server and Kakao, at the press of buttons. Everything is done by this server's API and the
// sandbox's controls, and drawn from their answers.

import { get } from '../api.js'
import { copyable } from '../copyable.js'
import { byID, el, fill, terms } from '../dom.js'
import { loadTexts, number, problemText, t, time } from '../format.js'
import { acted } from '../live.js'
import { onStatus } from '../banner.js'
import { empty, pushState, states } from '../parts.js'
import { failed, follow, readDevice, register, send, storyName } from './try-push.js'
import { countArrivals, friend, retell, share } from './try-share.js'
import { story } from './try-story.js'
import { down, endInTime, readFaults, readLastPush, refuse, troubleOf, well } from './try-trouble.js'

const parts = { push: { register, send }, talk: { share, friend }, trouble: { refuse, down, well } }

/** Loads the style sheet of this screen, once. */
function loadStyle() {
  if (byID('try-style')) return
  return new Promise(resolve => document.head.append(el('link', {
    id: 'try-style', rel: 'stylesheet', href: new URL('../try.css', import.meta.url), onload: resolve, onerror: resolve
  })))
}

/** The whole story with the sandbox. */
export async function show({ main, signal }) {
  await Promise.all([loadTexts('try.'), loadStyle()])
  const buttons = {}
  const list = el('div', { class: 'stack' }, empty(t('try.empty')))
  const lanes = Object.fromEntries(['phone', 'server', 'kakao'].map(name => [name, el('div')]))
  let status = null
  let stats = ''
  let countdown
  const scene = { signal, sender: () => status?.sender.state }

  main.append(
    el('p', {}, t('try.intro')),
    el('div', { class: 'try-buttons' }, Object.entries(parts).map(([part, acts]) => el('div', {
      role: 'group', 'aria-labelledby': `try-${part}`
    }, el('h2', { id: `try-${part}`, class: 'small soft' }, t(`try.part.${part}`)),
      el('div', { class: 'actions' }, Object.entries(acts).map(([name, act]) => {
        buttons[name] = el('button', { type: 'button', onclick: () => press(name, act) }, t(`try.${name}`))
        return buttons[name]
      }))))),
    el('div', { class: 'lanes' }, Object.entries(lanes).map(([name, place]) => el('section', { class: 'card lane' },
      el('h2', {}, t(`try.${name}`)), el('p', { class: 'small soft' }, t(`try.${name}.role`)), place))),
    el('details', { class: 'small' }, el('summary', {}, t('try.shell')),
      el('div', { class: 'stack tight' }, el('p', {}, t('try.shell.more')), copyable('. .local/dev.env'))),
    el('h2', {}, t('try.story')), list)

  addEventListener('acted', refresh, { signal })
  await refresh()
  await resume()
  onStatus(signal, async news => {
    status = news
    // One request finds out whether somebody else, such as a shell, has done something.
    const fresh = await get('/sandbox/stats', {}, { signal }).then(JSON.stringify, () => stats)
    if (fresh !== stats) await refresh()
  })

  /** Acts once: a second press counts after the request of the first one was answered. */
  async function press(name, act) {
    if (buttons[name].getAttribute('aria-disabled') === 'true') return
    buttons[name].setAttribute('aria-disabled', 'true')
    await tell(`try.${name}`, act, () => buttons[name].setAttribute('aria-disabled', 'false'))
  }

  async function tell(key, act, free = () => {}, at) {
    const tale = story(list, key, at)
    try {
      await act({ ...scene, tale, free })
    } catch (error) {
      if (!signal.aborted) await failed(tale, error)
    }
    free()
    tale.finish()
    if (!signal.aborted) acted()
  }

  /** Tells again what the server knows of the story. */
  async function resume() {
    const [last, shares, faults] = await Promise.all([
      readLastPush(signal), get('/v1/link/shares', { campaign: storyName, limit: 1 }, { signal }), readFaults(signal)
    ])
    endInTime(faults)
    const [shared] = shares.items
    if (shared) tell('try.last.share', scene => retell(scene, shared), undefined, shared.created_at)
    if (last) tell('try.last.push', scene => follow(scene, last), undefined, last.created_at)
  }

  async function refresh() {
    try {
      const [device, push, faults, counts, arrivals] = await Promise.all([
        readDevice(signal), readLastPush(signal), readFaults(signal), get('/sandbox/stats', {}, { signal }), countArrivals(signal)
      ])
      stats = JSON.stringify(counts)
      drawLanes(device, push, faults, counts, arrivals)
      const done = { register: device, send: push, share: arrivals > 0, friend: arrivals > 0 }
      const next = Object.keys(done).find(name => !done[name])
      for (const [name, button] of Object.entries(buttons)) button.classList.toggle('main', name === (faults.length > 0 ? 'well' : next))
    } catch (error) {
      if (!signal.aborted) fill(lanes.kakao, el('p', { class: 'problem' }, problemText(error)))
    }
  }

  function drawLanes(device, push, faults, counts, arrivals) {
    fill(lanes.phone, terms('list', [
      [t('try.phone.owner'), device
        ? states(`device.${device.state}`, device.state === 'registered' ? 'good' : 'warn') : states('try.phone.none', '')],
      device?.expires_at && ['', el('span', { class: 'soft small' }, t('try.phone.until', { time: time(device.expires_at, 'short') }))]
    ]))
    fill(lanes.server, terms('list', [
      [t('try.last.push'), push ? el('a', { href: `#/push/${push.id}` }, pushState(push)) : t('try.none')],
      [t('try.arrivals'), number(arrivals)]
    ]))
    drawKakao(troubleOf(faults), counts)
  }

  function drawKakao(trouble, counts) {
    clearTimeout(countdown)
    const left = Math.ceil((trouble.until - Date.now()) / 1000)
    const word = trouble.kind === 'down' && left > 0 ? t('try.kakao.down.until', { count: left }) : t(`try.kakao.${trouble.kind ?? 'well'}`)
    fill(lanes.kakao, terms('list', [
      [t('state'), el('span', { class: `state ${trouble.kind ? 'bad' : 'good'}` }, word)],
      [t('try.delivered'), number(counts.deliveries.delivered)],
      [t('try.callbacks'), number(counts.link_callbacks.sent)]
    ]))
    if (left > 0 && !signal.aborted) countdown = setTimeout(() => drawKakao(trouble, counts), 1000)
  }
}
