// One push: what it says, to whom, how far it is, and what can be done about it.

import { get, post } from '../api.js'
import { onStatus } from '../banner.js'
import { copyable } from '../copyable.js'
import { ask, field } from '../dialog.js'
import { el, fill, terms } from '../dom.js'
import { number, people, t, time, zoneName } from '../format.js'
import { stream } from '../live.js'
import { hasEnded, isRejected, phone, progress, pushName, pushState, rejection, usersOf, warning, when } from '../parts.js'
import { batches, findUser, recipients, unreached } from './push-more.js'

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
  const next = el('div')
  const live = el('section', { class: 'card' })
  const details = el('section', { class: 'card' })
  const speed = el('div')
  const rest = el('div', { class: 'stack' })
  const rates = []
  let before = null
  heading.textContent = pushName(first)
  document.title = `${pushName(first)} · push-server`
  head.append(state, buttons)
  // Who approves reads the message first.
  const parts = [live, el('div', { class: 'columns' }, message(first), details)]
  main.append(next, ...(first.awaits_approval ? parts.reverse() : parts), findUser(url), rest)
  let remedy = null
  let last = first
  draw(first)
  onStatus(signal, status => {
    const item = status.pushes?.attention.find(other => other.id === first.id)
    if (!item || item.state !== last.state || item.remedy === remedy) return
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
    // What to do about the state before would mislead.
    if (push.state !== last.state) remedy = null
    last = push
    fill(state, pushState(push))
    const possible = actionsOf(push)
    redraw(buttons, possible, () => [possible.map(name => el('button', {
      type: 'button', class: name === 'reject' ? 'danger' : name === 'approve' ? 'main' : '',
      onclick: () => act(name, last)
    }, t(`action.${name}`))), session.allows('send') && el('a', { class: 'button', href: `#/new?copy=${push.id}` }, t('action.copy'))].flat())
    // What is none for most pushes is shown only if there is some.
    const numbers = { ...push.users, uncertain: push.unreached.uncertain }
    const counts = ['sent', 'failed', 'uncertain', 'skipped', 'may_repeat'].filter((name, index) => index < 2 || numbers[name] > 0)
    fill(next, nextStep(push, remedy, session))
    // Before the first batch there is nothing to count.
    const isBegun = push.started_at !== null
    live.hidden = !isBegun
    fill(live, progress(push), terms('facts', [[t('users'), number(usersOf(push)), t('users.hint')],
      ...counts.map(name => {
        const key = name.replace('_', '-')
        return [t(key), number(numbers[name]), t(`${key}.hint`)]
      }), push.opened > 0 && [t('opened'), number(push.opened), t('opened.hint')]]), push.users.sent > 0 && el('p', { class: 'soft small' }, t('sent.note')), speed)
    redraw(details, [withoutCounts(push), remedy], () => [el('h2', {}, t('details')), terms('list', [
      [t('new.to'), recipients(push)],
      !isBegun && [t('users'), number(usersOf(push)), t('users.hint')],
      [t('kind'), t(`kind.${push.kind ?? 'none'}`)],
      [t('created-by'), push.created_by ?? '–'],
      [t('created'), when(push.created_at)],
      push.approved_by && [t('approved-by'), [`${push.approved_by}, `, when(push.approved_at, 'short')]],
      push.stopped_by && [t(stopOf(push)), [push.stopped_by, push.finished_at && [', ', when(push.finished_at, 'short')]]],
      [t('tested'), push.last_tested_at ? when(push.last_tested_at) : t('tested.never')],
      push.send_at ? [t('send-at'), when(push.send_at)]
        : push.awaits_approval && [t('send-at'), t(push.kind === 'advertising' ? 'new.begin.approval.hours' : 'new.begin.approval')],
      push.finished_at && [t('finished'), when(push.finished_at)],
      push.expires_at && [t('expires-at'), when(push.expires_at)],
      push.estimated_end && [t('estimated-end'), when(push.estimated_end)],
      [t('time-zone'), zoneName()],
      ['ID', el('span', { class: 'mono' }, push.id)],
      session.allows('admin') && [t('push.history'), el('a', { href: `#/records?object=${push.id}` }, t('records.log'))]
    ])])
    // The end decides whom it did not reach.
    redraw(rest, [hasEnded(push)], () => [...['failed', 'uncertain'].filter(name => push.unreached[name] > 0)
      .map(name => batches(url, id, name, session, signal)), ...unreached(url, push, session)])
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
    const users = people(usersOf(push))
    const reason = name === 'reject' ? [field('reason', { required: true, tag: 'textarea', rows: 3, maxlength: 500 })] : []
    const again = name === 'retry' && push.users.uncertain > 0 ? [field('uncertain', { type: 'checkbox' })] : []
    const body = words => name === 'reject' ? { reason: words } :
      name === 'retry' ? { uncertain: again[0]?.input.checked ?? false } : {}
    const app = push.app?.name ?? push.app?.id ?? ''
    await ask({
      title: t(`action.${name}.title`, { name: pushName(push) }),
      text: t(name === 'approve' && Date.parse(push.send_at) > Date.now() ? 'action.approve.later' : `action.${name}.text`,
        { users, app, time: time(push.send_at) }),
      action: t(`action.${name}.do`), done: t(`action.${name}.done`), isDanger: name === 'cancel' || name === 'reject', fields: [...reason, ...again],
      act: async ([words]) => {
        draw({ ...first, ...await post(`${url}/${name}`, body(words)) })
        // Other parts come first now.
        if (name === 'retry' || name === 'approve' || name === 'reject') dispatchEvent(new Event('hashchange'))
      }
    })
  }
}

/** What of a push seldom changes. */
const withoutCounts = ({ users, batches, opened, unreached, ...others }) => others

/** What each part shows, as JSON. */
const drawn = new WeakMap()

/** Draws a part again only if what it shows has changed: a click or a selection in it is not lost with each event. */
function redraw(part, shown, draw) {
  const json = JSON.stringify(shown)
  if (drawn.get(part) === json) return
  drawn.set(part, json)
  fill(part, ...draw())
}

/** What the operator who stopped it has done. */
const stopOf = push => isRejected(push) ? 'rejected-by' : push.state === 'canceled' ? 'canceled-by' : 'stopped-by'

/** What happens next, in sentences, and where its approver finds it. */
function nextStep(push, remedy, session) {
  const { created_by: author, reason } = push
  if (push.awaits_approval) {
    const isOwn = author === session.name
    return el('div', { class: 'notice stack tight' }, el('p', {}, t(isOwn ? 'next.approval.own' : 'next.approval', { name: author ?? '–' })),
      push.approve_before && el('p', {}, t('next.approval.until', { time: time(push.approve_before) })),
      isOwn && copyable(location.href.split('?')[0]))
  }
  if (isRejected(push)) return el('p', { class: 'notice' }, t('next.rejected', { name: push.stopped_by ?? '–' }), ' ', reason.replace(rejection, ''))
  if (push.stopped_by && !reason) return el('p', { class: 'notice' }, t(push.state === 'canceled' ? 'next.canceled' : 'next.stopped', { name: push.stopped_by }))
  if (reason) return el('p', { class: 'problem' }, reason, remedy && ` ${remedy}`)
  if (push.waits_until) return el('p', { class: 'notice' }, t('next.hours'), ' ', when(push.waits_until))
  if (push.state === 'scheduled' && push.send_at) return el('p', {}, t('next.scheduled'), ' ', when(push.send_at))
  return null
}

function message(push) {
  return el('section', { class: 'card' },
    el('h2', {}, t('message')),
    push.warnings.map(warning),
    el('div', { class: 'phones' }, (push.phones ?? []).map(phone)),
    el('details', {}, el('summary', {}, 'JSON'), el('pre', { class: 'mono' }, JSON.stringify(push.message ?? {}, null, 2))))
}

/** The speed of a push as bars, one for each second. */
function chart(rates) {
  const top = Math.max(1, ...rates)
  return el('svg', { class: 'chart', viewBox: '0 0 600 96', preserveAspectRatio: 'none', role: 'img', 'aria-label': t('rate') },
    rates.map((rate, index) => el('rect', {
      x: index * 10, width: 8, y: 96 - rate / top * 92, height: rate / top * 92
    }, el('title', { svg: true }, number(Math.round(rate))))))
}
