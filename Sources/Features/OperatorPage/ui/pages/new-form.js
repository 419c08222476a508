// The form of a push: checking it, sending it to the testers, and sending it.

import { call, get, post } from '../api.js'
import { ask, field } from '../dialog.js'
import { el, fill } from '../dom.js'
import { duration, number, people, problemText, t, time } from '../format.js'
import { stream } from '../live.js'
import { hasEnded, phone, pushState, warning, when } from '../parts.js'
import { beginOf, findings, usersOf } from './new-check.js'
import { emptyDraft, hasContent, keyOf, requestOf, storeDraft, testOf } from './new-draft.js'
import { binder, fillSlot, messageFields, timeFields } from './new-fields.js'
import { messageOf, rememberApp } from './new-message.js'
import { recipientFields } from './new-recipients.js'

/** The number of users above which the operator has to type it. */
const manyUsers = 1000

/**
 * Shows the form of a draft: the fields on the left, the phones on the right. Nothing is sent before it was checked.
 * @param {{place: HTMLElement, draft: any, clear: HTMLElement, session: any, signal: AbortSignal, zone: any}} screen
 */
export function showForm(screen) {
  const { place, draft, clear, session, signal, zone } = screen
  let timer
  let shown = 0
  let testPush = null
  let lacksMark = false
  const fields = binder(draft, changed)
  const preview = el('div', { class: 'stack', 'aria-live': 'polite' })
  const tests = el('section', { class: 'stack', 'aria-label': t('new.tests'), tabindex: -1, hidden: true })
  const result = el('section', { class: 'stack', 'aria-live': 'polite', 'aria-label': t('new.check') })
  const problem = el('p', { class: 'problem', role: 'alert', hidden: true })
  const redraw = name => {
    showForm(screen)
    place.querySelector(`[name=${name}]:checked, [name=${name}]:not([type=radio])`)?.focus()
  }
  const message = messageFields(draft, fields, redraw)
  const recipients = recipientFields(draft, fields, { session, signal, redraw })
  const times = timeFields(draft, fields, zone)
  const checkButton = el('button', { class: 'main' }, t('new.check'))
  const node = el('form', { class: 'compose', onsubmit: check },
    el('div', { class: 'card fields' }, fields.text('name', { maxlength: 200 }), message.node, recipients.node, times.node),
    el('section', { class: 'card side', tabindex: 0, 'aria-label': t('new.preview') }, el('h2', {}, t('new.preview')), preview),
    el('section', { class: 'card verdict' }, tests, el('p', { class: 'soft' }, t('new.check.hint')),
      el('div', {}, checkButton), result, problem))
  fill(place, node)
  update()
  draw()
  followTest()

  function changed(name) {
    if (name === 'to' && draft.to !== 'testers') draft.chosen = draft.to
    storeDraft(draft, session)
    update(name)
    clearTimeout(timer)
    timer = setTimeout(draw, 300)
  }

  function update(name) {
    shown += 1
    clear.hidden = !hasContent(draft)
    for (const part of [message, recipients, times]) part.update(name)
    // A test is sent at once. Disabled fields are not validated.
    times.node.hidden = times.node.disabled = draft.to === 'testers'
    for (const slot of node.querySelectorAll('[data-field]:not([data-field$=_at])')) fillSlot(slot, '')
    fillSlot(problem, '')
    fill(result)
    checkButton.className = 'main'
    drawTest()
  }

  async function draw() {
    if (signal.aborted || !node.isConnected) return
    const at = shown
    if (![draft.text, draft.title].some(Boolean) && draft.mode === 'fields') {
      return fill(preview, el('p', { class: 'soft' }, t('new.preview.none')))
    }
    try {
      const { phones, warnings } = await post('/v1/pushes/preview', { message: messageOf(draft), ...draft.kind && { kind: draft.kind } })
      lacksMark = warnings.some(({ code }) => code === 'mark-missing')
      if (at === shown) {
        // A cut is shown in its place.
        fill(preview, warnings.filter(({ code }) => code !== 'text-cut').map(warning), phones.map(phone))
      }
    } catch (error) {
      if (at === shown && !signal.aborted) fill(preview, el('p', { class: 'problem' }, problemText(error)))
    }
  }

  /** Shows an error at the field that the server names, otherwise below the buttons. */
  function fail(error) {
    if (signal.aborted) return
    const name = (error.field ?? '').split(/[.[]/)[0]
    const slot = name ? node.querySelector(`[data-field="${name}"]`) : null
    const isOfMark = lacksMark && name === 'message'
    const words = error.type === 'not-configured' ? t('new.testers.none') : isOfMark ? t('warning.mark-missing') : problemText(error)
    fillSlot(slot ?? problem, words)
    if (!slot) return
    slot.closest('details')?.setAttribute('open', '')
    // No field of the message corrects it.
    const inputs = isOfMark ? [] : [...slot.parentElement.querySelectorAll('textarea, select, input:not([type=radio])')]
    inputs.find(input => input.offsetParent)?.focus()
    slot.scrollIntoView({ block: 'nearest' })
  }

  /** Runs `work` with the button disabled, so that it is not pressed twice. */
  async function busy(button, work) {
    button.setAttribute('disabled', '')
    fillSlot(problem, '')
    try {
      await work()
    } catch (error) {
      fail(error)
    }
    button.removeAttribute('disabled')
  }

  function check(event) {
    event?.preventDefault()
    const at = shown
    return busy(checkButton, async () => {
      const body = requestOf(draft, zone)
      const [found, status] = await Promise.all([
        post('/v1/pushes', { ...body, dry_run: true }), session.allows('read') ? get('/v1/status').catch(() => null) : null
      ])
      if (at !== shown || signal.aborted) return
      if (found.duration_seconds !== null) times.showDuration(t('new.about', { time: duration(Math.max(1, found.duration_seconds)) }))
      const isTest = Boolean(body.to_testers)
      const canSend = usersOf(found) > 0 || Boolean(body.send_at)
      const isTested = Boolean(found.last_tested_at)
      const test = el('button', {
        type: 'button', class: isTest || !isTested ? 'main' : '', onclick: () => sendTest(test)
      }, t('new.testers'))
      fill(result, findings(found, body, status?.sender, session),
        el('div', { class: 'actions' }, test, !isTest && canSend && el('button', {
          type: 'button', class: isTested ? 'main' : '', onclick: () => send(body, found)
        }, t(found.needs_approval ? 'new.ask' : 'new.send'))))
      checkButton.className = ''
      clearTimeout(timer)
      draw()
      result.scrollIntoView({ block: 'nearest' })
    })
  }

  async function create(body) {
    try {
      return await call('POST', '/v1/pushes', { body, headers: { 'Idempotency-Key': await keyOf(draft, body) } })
    } catch (error) {
      // Its response may have been lost.
      if (error.status === 0) throw new Error(`${problemText(error)} ${t('new.again')}`)
      throw error
    }
  }

  /** Sends it to the testers. The form stays for the real recipients. */
  function sendTest(button) {
    return busy(button, async () => {
      const body = testOf(draft)
      const { id } = await create(body)
      rememberApp(draft)
      draft.form = crypto.randomUUID()
      draft.test = { id, at: new Date().toISOString(), message: JSON.stringify(body.message) }
      storeDraft(draft, session)
      fill(result)
      followTest()
      tests.focus()
    })
  }

  /** Shows how far the latest test is, until it has ended. */
  function followTest() {
    testPush = null
    drawTest()
    if (!draft.test || !session.allows('read')) return
    const done = new AbortController()
    const { id } = draft.test
    stream(`/v1/pushes/${id}/events`, AbortSignal.any([signal, done.signal]), source => source.addEventListener('push', event => {
      if (draft.test?.id !== id || !node.isConnected) return done.abort()
      testPush = JSON.parse(event.data)
      drawTest()
      if (hasEnded(testPush) || testPush.state === 'halted') done.abort()
    }))
  }

  function drawTest() {
    tests.hidden = !draft.test
    if (!draft.test) return
    const { id, at, message: sent } = draft.test
    let isSame = false
    try {
      isSame = JSON.stringify(messageOf(draft)) === sent
    } catch {
      // JSON that is not a message yet.
    }
    const goesOn = isSame && draft.to === 'testers'
    checkButton.className = goesOn ? '' : 'main'
    fill(tests, el('h2', {}, t('new.tests')), el('p', { class: 'actions' },
      testPush && [pushState(testPush),
        t('running.count', { sent: number(testPush.users.sent), total: number(testPush.users.total) })],
      when(at, 'short'),
      session.allows('read') ? el('a', { href: `#/push/${id}` }, t('new.tests.open')) : el('span', { class: 'mono' }, id)),
    el('p', { class: isSame ? 'soft' : 'notice small' }, t(isSame ? 'new.tests.same' : 'new.tests.changed')),
    goesOn && el('div', {}, el('button', { type: 'button', class: 'main', onclick: checkReal },
      t(draft.chosen ? 'new.real' : 'new.real.choose'))),
    isSame && !goesOn && el('p', { class: 'soft' }, t('new.tests.next')))
  }

  /** Goes on from the testers to the recipients that were chosen before. Without any, their numbers are to be entered now. */
  function checkReal() {
    const choice = node.querySelector(`[name=to][value=${draft.chosen || 'users'}]`)
    const isKnown = Boolean(draft.chosen)
    choice.click()
    if (isKnown) return node.requestSubmit()
    const list = node.querySelector('[name=users]')
    list.focus()
    list.scrollIntoView({ block: 'center' })
  }

  async function send(body, found) {
    const users = usersOf(found)
    const begin = beginOf(found, body)
    const digits = String(users).replace(/\B(?=(\d{3})+$)/g, ',?')
    const typed = users > manyUsers
      ? [field('count', {
        inputmode: 'numeric', required: true, autocomplete: 'off', pattern: digits, hint: t('new.type', { count: number(users) })
      })] : []
    let stored
    const sent = await ask({
      title: t(found.needs_approval ? 'new.ask.title' : 'new.send.title', { name: draft.name.trim() || found.first_words }),
      text: [t('new.send.text', { users: people(users), app: found.app.name ?? found.app.id ?? '' }),
        begin && t('new.send.begin', { time: time(begin) }),
        found.needs_approval && t('new.approval.needed', { name: session.name })
      ].filter(Boolean).join(' '),
      action: t(found.needs_approval ? 'new.ask.action' : 'new.send.action'),
      fields: typed,
      act: async () => { stored = await create(body) }
    })
    if (!sent) return
    rememberApp(draft)
    Object.assign(draft, emptyDraft())
    storeDraft(draft, session)
    if (session.allows('read')) location.hash = `#/push/${stored.id}`
    else fill(place, el('p', { class: 'card' }, t('new.sent', { id: stored.id })))
  }
}
