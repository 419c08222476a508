// One push: what it says, to whom, how far it is, and what can be done about it.

import { get, post } from '../api.js'
import { onStatus } from '../banner.js'
import { ask, field } from '../dialog.js'
import { el, fill, terms } from '../dom.js'
import { number, t, zoneName } from '../format.js'
import { stream } from '../live.js'
import { chart, hasEnded, phone, progress, pushName, pushState, usersOf, warning, when } from '../parts.js'
import { batches, findUser, recipients } from './push-more.js'

/** The actions of each state, each with the scopes of which one is needed. */
const actions = {
  pause: { states: ['scheduled', 'preparing', 'sending'], scopes: ['send', 'operate'] },
  resume: { states: ['paused', 'halted'], scopes: ['send', 'operate'] },
  approve: { states: [], scopes: ['approve'] },
  reject: { states: [], scopes: ['approve'] },
  retry: { states: ['done'], scopes: ['send', 'operate'] },
  cancel: { states: ['proposed', 'scheduled', 'preparing', 'sending', 'paused', 'halted'], scopes: ['send', 'operate'] }
}

/** One push: what it says, to whom, when, and how far it is. */
export async function show({ main, head, heading, path: [id], session, signal }) {
  const url = `/v1/pushes/${encodeURIComponent(id)}`
  const first = await get(url, {}, { signal })
  const state = el('span')
  const buttons = el('div', { class: 'actions' })
  const live = el('section', { class: 'card' })
  const details = el('section', { class: 'card' })
  const speed = el('div')
  const rates = []
  let before = null
  heading.textContent = pushName(first)
  document.title = `${pushName(first)} · push-server`
  head.append(state, buttons)
  // Who approves reads the message first.
  const parts = [live, el('div', { class: 'columns' }, message(first), details)]
  main.append(...(first.awaits_approval ? parts.reverse() : parts), findUser(url),
    ...['failed', 'uncertain'].filter(name => first.users[name] > 0).map(name => batches(url, id, name, signal)))
  let remedy = null
  let last = first
  draw(first)
  onStatus(signal, status => {
    const item = status.pushes?.attention.find(other => other.id === first.id)
    if (!item || item.remedy === remedy) return
    remedy = item.remedy
    draw(last)
  })
  if (!hasEnded(first)) {
    const close = stream(`${url}/events`, signal, source => source.addEventListener('push', event => {
      draw({ ...first, ...JSON.parse(event.data) })
    }), () => get(url, {}, { signal }))
    signal.addEventListener('abort', close)
  }

  function draw(push) {
    last = push
    fill(state, pushState(push.state))
    fill(buttons, actionsOf(push).map(name => el('button', {
      type: 'button', class: name === 'cancel' || name === 'reject' ? 'danger' : name === 'approve' ? 'main' : '',
      onclick: () => act(name, push)
    }, t(`action.${name}`))), session.allows('send') && el('a', { class: 'button', href: `#/new?copy=${push.id}` }, t('action.copy')))
    fill(live, nextStep(push, remedy), progress(push), terms('facts', ['sent', 'failed', 'uncertain', 'skipped', 'may_repeat'].map(name => {
      const key = name.replace('_', '-')
      return [t(key), number(push.users[name]), t(`${key}.hint`)]
    })), speed)
    fill(details, el('h2', {}, t('details')), terms('list', [
      [t('new.to'), recipients(push)],
      [t('users'), number(usersOf(push)), t('users.hint')],
      [t('kind'), t(`kind.${push.kind ?? 'none'}`)],
      [t('created-by'), push.created_by ?? '–'],
      [t('created'), when(push.created_at)],
      push.approved_by && [t('approved-by'), push.approved_by],
      push.stopped_by && [t('stopped-by'), push.stopped_by],
      [t('tested'), push.last_tested_at ? when(push.last_tested_at) : t('tested.never')],
      push.send_at && [t('send-at'), when(push.send_at)],
      push.expires_at && [t('expires-at'), when(push.expires_at)],
      push.estimated_end && [t('estimated-end'), when(push.estimated_end)],
      [t('time-zone'), zoneName()],
      ['ID', el('span', { class: 'mono' }, push.id)]
    ]))
    measure(push)
  }

  /** Adds the speed since the last event to the chart. */
  function measure(push) {
    const now = { at: performance.now(), finished: push.users.sent + push.users.failed + push.users.uncertain }
    if (before && now.at - before.at > 200) {
      rates.push((now.finished - before.finished) * 1000 / (now.at - before.at))
      if (rates.length > 60) rates.shift()
      if (push.state === 'sending') fill(speed, el('h2', {}, t('rate')), chart(rates))
    }
    before = now
  }

  function actionsOf(push) {
    return Object.entries(actions).filter(([name, { states, scopes }]) => {
      if (!scopes.some(session.allows)) return false
      if (name === 'approve' || name === 'reject') return push.awaits_approval
      if (name === 'retry' && push.users.failed + push.users.uncertain === 0) return false
      return states.includes(push.state) && !(name === 'resume' && push.awaits_approval)
    }).map(([name]) => name)
  }

  async function act(name, push) {
    const users = t('users.count', { count: number(usersOf(push)) })
    const reason = name === 'reject' ? [field('reason', { required: true })] : []
    const again = name === 'retry' && push.users.uncertain > 0 ? [field('uncertain', { type: 'checkbox' })] : []
    const body = words => name === 'reject' ? { reason: words } :
      name === 'retry' ? { uncertain: again[0]?.input.checked ?? false } : {}
    const app = push.app?.name ?? push.app?.id ?? ''
    await ask({
      title: t(`action.${name}.title`), text: t(`action.${name}.text`, { users, app }), action: t(`action.${name}`).replace('…', ''),
      isDanger: name === 'cancel' || name === 'reject', fields: [...reason, ...again],
      act: async ([words]) => {
        draw({ ...first, ...await post(`${url}/${name}`, body(words)) })
        if (name === 'retry') dispatchEvent(new Event('hashchange'))
      }
    })
  }
}

/** What happens next, in a sentence. */
function nextStep(push, remedy) {
  if (push.awaits_approval) return el('p', { class: 'notice' }, t('next.approval', { name: push.created_by ?? '–' }), ' ',
    when(push.approve_before))
  if (push.stopped_by && !push.reason) return el('p', { class: 'notice' }, t('next.stopped', { name: push.stopped_by }))
  if (push.reason) return el('p', { class: 'problem' }, push.reason, remedy && ` ${remedy}`)
  if (push.waits_until) return el('p', { class: 'notice' }, t('next.hours'), ' ', when(push.waits_until))
  if (push.state === 'scheduled' && push.send_at) return el('p', {}, t('next.scheduled'), ' ', when(push.send_at))
  return null
}

function message(push) {
  return el('section', { class: 'card' },
    el('h2', {}, t('message')),
    (push.phones ?? []).map(phone),
    push.warnings.map(warning),
    el('details', {}, el('summary', {}, 'JSON'), el('pre', { class: 'mono' }, JSON.stringify(push.message ?? {}, null, 2))))
}
