// Who gets a push: the fields of its recipients, of those who are left out, and a file of user ids.

import { call, get } from '../api.js'
import { ask, field } from '../dialog.js'
import { el, fill } from '../dom.js'
import { number, people, t, time } from '../format.js'
import { pushName } from '../parts.js'
import { group, slot } from './new-fields.js'
import { userID, words } from './new-draft.js'

/** The users that a push may list. */
const maxListedUsers = 10000

/** The fields of the recipients. Returns the node, and what updates it after a change. */
export function recipientFields(draft, fields, { session, signal, redraw }) {
  const { text, select, radio } = fields
  const noteOfUsers = el('p', { class: 'hint', 'aria-live': 'polite' })
  const problem = slot('audience')
  const file = el('input', { type: 'file', id: 'new-file', accept: '.txt,.csv,text/plain,text/csv', onchange: read })
  /** The user ids of a file that has too many to list. */
  let many = null
  const store = el('button', { type: 'button', onclick: storeAsAudience }, t('new.store'))
  const parts = {
    users: [
      text('users', { rows: 5, placeholder: '1001\n1002', class: 'mono', spellcheck: 'false' }, 'textarea'), noteOfUsers,
      el('label', { for: 'new-file' }, t('new.file'), file), el('div', {}, store)
    ],
    audience: [el('div')],
    tags: [
      text('tags', { placeholder: 'deals, vip' }),
      group(t('tags'), false, radio('match', 'any'), radio('match', 'all'))
    ]
  }
  const nodes = Object.fromEntries(Object.entries(parts).map(([name, children]) => [name, el('div', { class: 'stack' }, children)]))
  const exceptAudience = el('div')
  const exceptPushes = el('div', { class: 'stack tight' })
  const except = el('details', { open: Boolean(draft.exceptTags || draft.exceptAudience || draft.exceptPushes.length > 0) },
    el('summary', {}, t('new.except')),
    el('div', { class: 'stack' }, text('exceptTags', { placeholder: 'staff' }), exceptAudience, exceptPushes, slot('except')))
  const node = el('fieldset', {}, el('legend', {}, t('new.to')),
    group(t('new.to'), false, ['testers', 'users', 'audience', 'tags', 'everyone'].map(value => radio('to', value))),
    Object.values(nodes), problem, except)
  fill(parts.audience[0], text('audience'))
  fill(exceptAudience, text('exceptAudience'))
  if (session.allows('read')) load()
  return { node, update }

  function update(name) {
    for (const [value, part] of Object.entries(nodes)) part.hidden = draft.to !== value
    for (const required of Object.keys(parts)) node.querySelector(`[name=${required}]`).required = draft.to === required
    except.hidden = draft.to === 'testers'
    if (name === 'users') many = null
    const found = words(draft.users)
    const wrong = found.find(word => !userID.test(word))
    showStore(many ?? found)
    if (name === 'users' || !name) {
      noteOfUsers.textContent = [
        found.length > maxListedUsers ? t('new.file.many', { count: number(found.length), max: number(maxListedUsers) })
          : found.length > 0 && people(found.length),
        wrong && t('new.users.wrong', { word: wrong })
      ].filter(Boolean).join(' · ')
    }
  }

  /** Only a key that can read finds out whether a name is taken: an upload would replace the audience. */
  function showStore(users) {
    store.hidden = users.length === 0 || !session.allows('read')
  }

  /** Lets the operator choose from the stored audiences and the latest pushes, which are typed otherwise. */
  async function load() {
    try {
      const [audiences, pushes] = await Promise.all([
        get('/v1/audiences', { limit: 1000 }, { signal }), get('/v1/pushes', { limit: 50 }, { signal })
      ])
      drawPushes(pushes.items.filter(push => !push.to_testers))
      if (audiences.next) return
      for (const [name, place] of [['audience', parts.audience[0]], ['exceptAudience', exceptAudience]]) {
        const known = audiences.items.map(item => [
          item.name, t('new.audience.of', { name: item.name, users: number(item.users), time: time(item.updated_at, 'short') })
        ])
        const isGone = draft[name] && !audiences.items.some(item => item.name === draft[name])
        const first = [['', audiences.items.length > 0 ? t('new.choose') : t('new.audience.none')]]
        const hadFocus = place.contains(document.activeElement)
        fill(place, select(name, [...first, ...known, ...isGone ? [[draft[name], t('new.audience.gone', { name: draft[name] })]] : []]))
        if (hadFocus) place.querySelector('select').focus()
      }
      update()
    } catch (error) {
      // The names can be typed.
    }
  }

  function drawPushes(known) {
    const add = el('select', { id: 'new-exceptPushes', onchange: ({ target }) => {
      const push = known.find(({ id }) => id === target.value)
      change([...draft.exceptPushes, { id: push.id, name: pushName(push) }])
    } }, el('option', { value: '' }, t('new.choose')), known.map(push =>
      el('option', { value: push.id, disabled: draft.exceptPushes.some(({ id }) => id === push.id) },
        `${pushName(push)} · ${t(`state.${push.state}`)} · ${time(push.created_at, 'short')}`)))
    const change = pushes => {
      fields.set('exceptPushes', pushes)
      drawPushes(known)
      exceptPushes.querySelector('select').focus()
    }
    fill(exceptPushes, el('label', { for: 'new-exceptPushes' }, t('new.exceptPushes'), add),
      draft.exceptPushes.map(({ id, name }) => el('div', { class: 'chip' },
        el('a', { href: `#/push/${id}` }, known.find(push => push.id === id)?.name ?? name),
        el('button', {
          type: 'button', 'aria-label': t('new.except.remove', { name }),
          onclick: () => change(draft.exceptPushes.filter(push => push.id !== id))
        }, '×'))))
  }

  /** Reads the user ids of a file: the first column of each line. A heading and empty lines are skipped. */
  async function read() {
    const [chosen] = file.files
    if (!chosen) return
    const lines = (await chosen.text()).split(/\r?\n/).map(line => line.split(/[,;\t]/)[0].replace(/^[\s"\uFEFF]+|[\s"]+$/g, ''))
    const wrong = lines.flatMap((line, index) => line && !userID.test(line) && index > 0 ? [index + 1] : [])
    const found = [...new Set(lines.filter(line => userID.test(line)))]
    many = null
    if (found.length <= maxListedUsers) {
      const area = node.querySelector('[name=users]')
      area.value = found.join('\n')
      fields.set('users', area.value)
    } else {
      many = found
      update('to')
    }
    noteOfUsers.textContent = [
      t(many ? 'new.file.many' : 'new.file.read', { count: number(found.length), max: number(maxListedUsers) }),
      wrong.length > 0 && t('new.file.wrong', { count: number(wrong.length), lines: wrong.slice(0, 5).join(', ') })
    ].filter(Boolean).join(' ')
    showStore(found)
  }

  /** Stores the users under a name that is not taken, and sends to them by it. */
  async function storeAsAudience() {
    const users = many ?? words(draft.users)
    const name = field('audience', {
      required: true, pattern: '[A-Za-z0-9_.\\-]{1,100}', hint: t('new.store.hint'), value: file.files[0]?.name.replace(/\.\w+$/, '') ?? ''
    })
    const stored = await ask({
      title: t('new.store.title', { users: number(users.length) }), text: t('new.store.text'), action: t('new.store.action'),
      fields: [name],
      act: async ([value]) => {
        if (await isTaken(value)) throw new Error(t('new.store.taken', { name: value }))
        await call('PUT', `/v1/audiences/${encodeURIComponent(value)}`, { text: `${users.join('\n')}\n`, type: 'text/plain' })
        Object.assign(draft, { audience: value, users: '', to: 'audience', chosen: 'audience' })
      }
    })
    if (!stored) return
    fields.set('to', 'audience')
    redraw('audience')
  }
}

async function isTaken(name) {
  try {
    await get(`/v1/audiences/${encodeURIComponent(name)}`)
    return true
  } catch (error) {
    if (error.status === 404) return false
    throw error
  }
}
