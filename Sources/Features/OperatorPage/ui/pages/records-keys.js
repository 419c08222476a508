// The operator keys: the list, making one, and revoking one.

import { get, post, remove } from '../api.js'
import { ask, field } from '../dialog.js'
import { copyable } from '../copyable.js'
import { el, fill, table } from '../dom.js'
import { problemText, t } from '../format.js'
import { empty, states, when } from '../parts.js'
import { nextPage } from '../lists.js'
import { zonedTime } from '../times.js'

const roles = ['marketing', 'support', 'on-call', 'approver', 'security', 'backend']
const scopes = ['devices', 'send', 'operate', 'approve', 'accounts', 'tokens', 'talk', 'user-calls', 'sharing', 'read', 'export', 'admin']

/** The list of keys. A key itself is shown once, when it is made. */
export async function keys({ main, head, query, session, signal }) {
  const made = el('section', { 'aria-live': 'polite' })
  const list = el('div', { class: 'stack' })
  main.append(made, list)
  head.append(el('div', { class: 'actions' }, el('button', {
    type: 'button', class: 'main', onclick: () => make(key => {
      fill(made, el('div', { class: 'card' }, el('h2', {}, t('keys.made', { name: key.name })),
        el('p', { class: 'notice' }, t('keys.once')), copyable(key.key ?? '')))
      return again()
    })
  }, t('keys.make'))))
  await draw()

  async function draw() {
    const page = await get('/v1/keys', { limit: 50, cursor: query.get('cursor') }, { signal })
    if (page.items.length === 0) return fill(list, empty(t('keys.none')))
    fill(list, table(t('records.keys'),
      ['name', 'state', 'scopes', 'by', 'created', 'used', 'end', 'action'].map(name => t(`keys.${name}`)),
      page.items.map(key => [
        {
          wide: el('span', {}, el('a', { href: `#/records?${new URLSearchParams({ key_id: key.id })}` }, key.name),
            key.id === session.key_id && ` · ${t('keys.yours')}`)
        },
        state(key),
        { wide: el('span', { class: 'mono' }, key.scopes.join(' ')) }, key.created_by ?? '–',
        when(key.created_at, 'short'),
        key.last_used_at ? when(key.last_used_at, 'short') : t('keys.unused'),
        key.expires_at ? when(key.expires_at, 'short') : t('keys.endless'),
        key.revoked_at ? '–' : el('button', { type: 'button', class: 'danger', onclick: () => revoke(key) }, t('keys.revoke.open'))
      ])), nextPage('records/keys', query, page.next))
  }

  /** Draws the list anew. A failure is shown in its place; what was made stays above it. */
  function again() {
    return draw().catch(error => {
      if (!signal.aborted) fill(list, el('p', { class: 'problem', role: 'alert' }, problemText(error)))
    })
  }

  async function revoke(key) {
    const text = t(key.id === session.key_id ? 'keys.revoke.own' : 'keys.revoke.text')
    const isDone = await ask({
      title: t('keys.revoke.title', { name: key.name }), text, action: t('keys.revoke'), isDanger: true,
      act: () => remove(`/v1/keys/${key.id}`)
    })
    if (isDone) await again()
  }
}

function state({ revoked_at, expires_at }) {
  if (revoked_at) return states('keys.revoked', 'bad')
  return expires_at && Date.parse(expires_at) <= Date.now() ? states('keys.expired', 'warn') : states('keys.valid', 'good')
}

async function make(shown) {
  const name = field('name', { required: true, maxlength: 100 })
  const role = el('select', {}, el('option', { value: '' }, t('keys.role.none')),
    roles.map(value => el('option', { value }, t(`role.${value}`))))
  const boxes = scopes.map(value => el('input', { type: 'checkbox', value }))
  const end = el('input', { type: 'datetime-local' })
  let key
  const isDone = await ask({
    title: t('keys.make.title'), action: t('keys.make.action'),
    contents: el('div', { class: 'stack' }, name.label, el('label', {}, t('keys.role'), role),
      el('details', {}, el('summary', {}, t('keys.scopes.more')), el('div', { class: 'choices' },
        boxes.map((box, index) => el('label', { class: 'choice' }, box, el('span', { class: 'mono' }, scopes[index]))))),
      el('label', {}, t('keys.end.optional'), end)),
    act: async () => {
      const more = boxes.filter(box => /** @type {HTMLInputElement} */ (box).checked)
        .map(box => /** @type {HTMLInputElement} */ (box).value)
      key = await post('/v1/keys', {
        name: name.input.value.trim(),
        ...role.value && { role: role.value }, ...more.length > 0 && { scopes: more },
        ...end.value && { expires_at: zonedTime(end.value, await get('/v1/time-zone')) }
      })
    }
  })
  if (isDone) await shown(key)
}
