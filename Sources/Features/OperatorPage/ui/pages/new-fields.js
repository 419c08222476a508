// The fields of a push's message and times, and what all fields of its form have in common.

import { el, fill } from '../dom.js'
import { duration, problemText, t, zoneName } from '../format.js'
import { express, messageOf } from './new-message.js'
import { zonedTime } from '../times.js'

/** Makers of fields that are bound to a draft: each change is written into it, and then `changed` is called. */
export function binder(draft, changed) {
  const set = (name, value) => {
    draft[name] = value
    changed(name)
  }
  const label = (name, input, hint) => el('label', { for: `new-${name}` }, t(`new.${name}`), input,
    hint && el('span', { class: 'hint', id: `new-${name}-hint` }, hint))
  const text = (name, { hint, ...attributes } = {}, tag = 'input') => {
    const input = el(tag, {
      id: `new-${name}`, name, value: draft[name], type: tag === 'input' ? 'text' : undefined, autocomplete: 'off',
      'aria-describedby': hint ? `new-${name}-hint` : undefined, oninput: ({ target }) => set(name, target.value), ...attributes
    })
    return label(name, input, hint)
  }
  /** A choice among pairs of a value and a text. */
  const select = (name, options) => label(name, el('select', {
    id: `new-${name}`, name, onchange: ({ target }) => set(name, target.value)
  }, options.map(([value, words]) => el('option', { value, selected: draft[name] === value }, words))))
  const radio = (name, value, attributes = {}) => el('label', { class: 'choice' }, el('input', {
    type: 'radio', name, value, checked: draft[name] === value, onchange: () => set(name, value), ...attributes
  }), el('span', {}, t(`new.${name}.${value}`)))
  const check = name => el('label', { class: 'choice' }, el('input', {
    type: 'checkbox', name, checked: draft[name], onchange: ({ target }) => set(name, target.checked)
  }), el('span', {}, t(`new.${name}`)))
  return { set, text, select, radio, check }
}

/** The place of a problem with a field of the request, below what causes it. */
export const slot = field => el('p', { class: 'problem', role: 'alert', hidden: true, 'data-field': field })

export function fillSlot(place, text) {
  place.textContent = text
  place.hidden = !text
}

/** Choices with what they are about, which is shown unless a heading says it. */
export const group = (label, isShown, ...choices) => el('div', { class: 'choices', role: 'radiogroup', 'aria-label': label },
  isShown && el('span', { class: 'soft', 'aria-hidden': 'true' }, label), choices.flat())

/** The message: its fields or its JSON, and its kind. Returns the node, and what updates it after a change. */
export function messageFields(draft, fields, redraw) {
  const problem = slot('message')
  const { text, radio, check } = fields
  const toJSON = () => {
    draft.json = JSON.stringify(messageOf({ ...draft, mode: 'fields' }), null, 2)
    fields.set('mode', 'json')
    redraw('mode')
  }
  /** Leaves the JSON if the fields can express it; otherwise it stays, with the reason. */
  const toFields = () => {
    try {
      const found = draft.json.trim() ? express(messageOf(draft), draft.kind, draft) : {}
      if (!found) throw new Error(t('new.json.stays'))
      Object.assign(draft, found)
      fields.set('mode', 'fields')
      redraw('mode')
    } catch (error) {
      node.querySelector('[name=mode][value=json]').checked = true
      fillSlot(problem, problemText(error))
    }
  }
  const custom = el('div', { class: 'stack tight' })
  const node = el('fieldset', {}, el('legend', {}, t('message')),
    group(t('kind'), true, radio('kind', 'informational', { required: true }), radio('kind', 'advertising', { required: true })),
    el('p', { class: 'hint', id: 'new-kind-note' }),
    group(t('new.mode'), true, radio('mode', 'fields', { onchange: toFields }), radio('mode', 'json', { onchange: toJSON })),
    draft.mode === 'json' ? text('json', { rows: 16, class: 'mono', spellcheck: 'false', hint: t('new.json.hint') }, 'textarea') : [
      text('title', { maxlength: 200 }), text('text', { rows: 4, required: true }, 'textarea'),
      el('div', { class: 'stack tight', role: 'group', 'aria-labelledby': 'new-custom' },
        el('span', { id: 'new-custom' }, t('new.custom')), el('span', { class: 'hint' }, t('new.custom.hint')), custom,
        el('div', {}, el('button', { type: 'button', class: 'plain', onclick: () => addPair() }, t('new.custom.add'))))
    ],
    problem,
    draft.mode === 'fields' && el('details', {}, el('summary', {}, t('new.app')),
      el('div', { class: 'stack' }, el('p', { class: 'hint' }, t('new.app.hint')),
        el('div', { class: 'choices' }, check('apns'), check('fcm')),
        group(t('new.android'), true, radio('android', 'app'), radio('android', 'system')),
        el('div', { class: 'pair' }, text('titleName'), text('textName')))))
  drawPairs()
  return { node, update }

  function update() {
    node.querySelector('#new-kind-note').textContent = draft.kind !== 'advertising' ? ''
      : [draft.mode === 'fields' && t('new.kind.mark'), t('new.kind.hours', { zone: zoneName() })].filter(Boolean).join(' ')
    for (const name of ['titleName', 'textName']) {
      const input = node.querySelector(`[name=${name}]`)
      if (input) input.parentElement.hidden = draft.android === 'system'
    }
  }

  function addPair() {
    draft.custom = [...draft.custom, ['', '']]
    drawPairs()
    custom.lastElementChild.querySelector('input').focus()
  }

  function drawPairs() {
    fill(custom, draft.custom.map((pair, index) => {
      const part = (at, key, attributes) => el('input', {
        type: 'text', 'aria-label': t(key, { number: index + 1 }), value: pair[at], autocomplete: 'off', ...attributes,
        oninput: ({ target }) => fields.set('custom', draft.custom.map((other, place) =>
          place === index ? other.with(at, target.value) : other))
      })
      return el('div', { class: 'pair keyed' }, part(0, 'new.custom.name', { class: 'mono' }),
        part(1, 'new.custom.value', { placeholder: index === 0 ? 'https://' : '' }),
        el('button', {
          type: 'button', 'aria-label': t('new.custom.remove', { number: index + 1 }), onclick: () => {
            fields.set('custom', draft.custom.filter((other, place) => place !== index))
            drawPairs()
          }
        }, '×'))
    }))
  }
}

/** When it is sent, until when, and how fast. */
export function timeFields(draft, { text, radio, check }, zone) {
  const [at, expires] = [['at', 'send_at'], ['expires', 'expires_at']].map(([name, field]) => {
    const note = el('p', { class: 'hint' })
    const problem = slot(field)
    const input = text(name, { type: 'datetime-local' })
    const update = () => {
      fillSlot(problem, '')
      note.textContent = t('new.zone', { zone: zoneName() })
      if (!draft[name]) return
      try {
        const seconds = (Date.parse(zonedTime(draft[name], zone)) - Date.now()) / 1000
        if (seconds > 0) note.textContent = t('new.zone.in', { zone: zoneName(), time: duration(seconds) })
        else fillSlot(problem, t('new.time.past'))
        if (name === 'expires' && draft.when === 'at' && draft.expires <= draft.at) fillSlot(problem, t('new.expires.early'))
      } catch (error) {
        fillSlot(problem, problemText(error))
      }
    }
    return { node: el('div', { class: 'stack tight' }, input, note, problem), update }
  })
  const pace = el('p', { class: 'hint' })
  const node = el('fieldset', {}, el('legend', {}, t('new.when')),
    group(t('new.when'), false, radio('when', 'now'), radio('when', 'at')), at.node,
    el('div', { class: 'pair' }, expires.node, el('div', { class: 'stack tight' },
      text('pace', { type: 'number', min: 1, max: 1000000, placeholder: t('new.pace.default') }), pace, slot('users_per_second'))),
    check('once'))
  const update = () => {
    at.node.hidden = draft.when !== 'at'
    at.node.querySelector('input').required = draft.when === 'at'
    pace.textContent = ''
    at.update()
    expires.update()
  }
  return { node, update, showDuration: words => { pace.textContent = words } }
}
