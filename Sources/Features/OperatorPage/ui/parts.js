// Parts that several screens have.

import { el } from './dom.js'
import { hasText, number, t, time } from './format.js'

/** The color of each state of a push. */
const levels = {
  proposed: 'warn', scheduled: '', preparing: 'live', sending: 'live', done: 'good', paused: 'warn', canceled: '', expired: 'warn',
  halted: 'bad'
}

/** A state: a dot and a word. */
export const states = (key, level) => el('span', { class: `state ${level}` }, t(key))

/** Whether an approver has rejected a push. The server says so before the reason. */
export const rejection = /^Rejected(?:: |\.)/
export const isRejected = ({ state, reason }) => state === 'canceled' && rejection.test(reason ?? '')

export const pushState = push => isRejected(push) ? states('state.rejected', '') : states(`state.${push.state}`, levels[push.state] ?? '')

/** Whether nothing more of a push is sent. */
export const hasEnded = push => ['done', 'canceled', 'expired'].includes(push.state)

/** The phones of a push type. */
export const platform = type => t(`platform.${type}`)

/** A time with the same in UTC as its title. */
export const when = (text, style) => text ? el('time', { datetime: text, title: `${text}` }, time(text, style)) : '–'

export const count = (value, hint) => ({ number: number(value), hint })

export const pushName = push => push.name || push.first_words || push.id

/** The number of users to send to, as far as it is known. */
export const usersOf = push => push.users.total === 0 ? push.counted_users : push.users.total - push.users.skipped

export const empty = (text, ...next) => el('div', { class: 'empty' }, el('p', {}, text), ...next)

/** The bar of a push, and its numbers. */
export function progress(push) {
  const total = usersOf(push) ?? 0
  const finished = push.users.sent + push.users.failed + push.users.uncertain
  return el('div', { class: 'bar' }, el('progress', { max: Math.max(total, 1), value: finished, 'aria-label': t('progress') }))
}

/** What the server warns of: in the operator's language if its kind has a text, otherwise in the server's words. */
export function warning({ code, path, message }) {
  const own = hasText(`warning.${code}`) ? t(`warning.${code}`) : ''
  return el('p', { class: 'notice small' }, own || message, own && path && [' ', el('span', { class: 'mono' }, path)])
}

const beginning = text => text.length > 48 ? `${text.slice(0, 48)}…` : text

/** An address, in which a wrong host is seen. */
function address(url) {
  const [all, before, host, after] = url.match(/^(\w+:\/\/)?([^/?#]*)(.*)$/)
  return el('span', { class: 'mono' }, before ? [before, el('strong', {}, host), after] : all)
}

/** The notification as a phone shows it. What is cut off stands behind a mark. */
export function phone(view) {
  const parts = [['title', 'b'], ['subtitle', 'span'], ['text', 'span']].filter(([name]) => view[name])
  const words = part => part.text ?? `[${part.key}]`
  const length = text => number([...text].length)
  const counts = parts.map(([name]) => [t(`phone.${name}`), view[name]]).map(([name, part]) => part.visible
    ? t('phone.count.cut', { name, count: length(words(part)), visible: length(part.visible) })
    : t('phone.count', { name, count: length(words(part)) }))
  return el('figure', { class: 'stack tight' },
    el('figcaption', { class: 'small' }, platform(view.platform), view.shown_by === 'app' && ` · ${t('phone.by-app')}`),
    el('div', { class: `phone ${view.platform}` }, el('div', { class: 'notification' }, parts.length === 0
      ? el('span', {}, t('phone.nothing'))
      : parts.map(([name, tag]) => el(tag, {}, view[name].visible ?? words(view[name]),
        view[name].visible && el('span', { class: 'cut' }, beginning(words(view[name]).slice(view[name].visible.length))))))),
    el('p', { class: 'soft small' }, [...counts, t('phone.bytes', { bytes: number(view.payload_bytes) })].join(' · ')),
    view.links.map(({ url }) => el('p', {}, t('phone.link'), ' ', address(url))))
}
