// What happened after a click: steps between three lanes, the phone, the server and Kakao.

import { el } from '../dom.js'
import { hasText, t } from '../format.js'
import { states, when } from '../parts.js'
import { lines } from './try-lines.js'

const lanes = ['phone', 'server', 'kakao']
const maxStories = 6

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

/**
 * Begins a story at the top of a list.
 * @param {HTMLElement} list
 * @param {string} key Of its title.
 * @param {string} [at] When it began, if that is not now: then the page does not follow its steps.
 */
export function story(list, key, at) {
  const steps = el('ol', { 'aria-live': 'polite' })
  const waiting = el('p', { class: 'soft' }, states('try.waiting', 'live'))
  list.querySelector('.empty')?.remove()
  if (!at) for (const older of list.children) older.removeAttribute('open')
  list.prepend(el('details', { class: 'card story', open: true },
    el('summary', {}, el('h3', {}, t(key)), ' ', el('span', { class: 'soft small' }, when(at ?? new Date().toISOString(), 'exact'))),
    steps, waiting))
  while (list.children.length > maxStories) list.lastChild?.remove()
  // The steps of a push take a few milliseconds: they are drawn one after the other, so that they can be followed.
  let turn = Promise.resolve()

  /** Draws a step. Resolves to its second line, which may change. */
  function add(step) {
    const drawn = turn.then(() => draw(steps, step, !at))
    turn = drawn.then(() => pause(matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 350))
    return drawn
  }
  return { add, finish: () => turn.then(() => waiting.remove()) }
}

/** A step from one lane to another, or within one. */
function draw(steps, { from, to = from, key, values, more, level = '', code, link, lines: texts, picture }, isFollowed) {
  const [first, last] = [from, to].map(name => lanes.indexOf(name) + 1).sort()
  const isBack = lanes.indexOf(to) < lanes.indexOf(from)
  const text = el('p', { class: 'small' }, more ?? (hasText(`try.step.${key}.more`) ? t(`try.step.${key}.more`, values) : ''))
  const route = from === to ? t(`try.${from}`) : `${t(`try.${from}`)} → ${t(`try.${to}`)}`
  const item = el('li', { class: `step s${first}${last} ${level}${isBack ? ' back' : ''}` },
    el('div', { class: 'said' },
      el('span', { class: 'soft small' }, route),
      el('strong', {}, level ? states(`try.step.${key}`, level) : t(`try.step.${key}`, values)),
      text, code && el('span', { class: 'mono soft' }, code), link),
    from !== to && el('span', { class: 'arrow', 'aria-hidden': 'true' }),
    lines(texts), picture)
  steps.append(item)
  if (isFollowed) item.scrollIntoView({ block: 'nearest' })
  return text
}
