// The list of pushes.

import { get } from '../api.js'
import { el, fill, table } from '../dom.js'
import { t } from '../format.js'
import { filters, nextPage, parameters } from '../lists.js'
import { count, empty, pushName, pushState, usersOf, when } from '../parts.js'

const names = ['state', 'name', 'created_by', 'since', 'until', 'unfinished']
const states = ['proposed', 'scheduled', 'preparing', 'sending', 'paused', 'halted', 'done', 'canceled', 'expired']

/** The list of pushes. Its filters stand in the address, so that it can be passed on. */
export async function show({ main, query, signal }) {
  const list = el('div', { class: 'stack', 'aria-live': 'polite' })
  main.append(filters('pushes', query, names, {
    state: [['', t('all')], ...states.map(name => [name, t(name === 'canceled' ? 'filter.canceled' : `state.${name}`)])],
    unfinished: [['', t('all')], ['true', t('filter.unfinished.only')]]
  }), list)
  const values = await parameters(query, names, signal)
  const page = await get('/v1/pushes', { ...values, cursor: query.get('cursor'), limit: 50 }, { signal })
  if (page.items.length === 0) return fill(list, query.size > 0
    ? empty(t('pushes.none.filtered'), el('a', { class: 'button', href: '#/pushes' }, t('filters.clear'))) : empty(t('pushes.none')))
  fill(list, table(t('pushes'),
    [t('name'), t('state'), t('created-by'), counted('users'), counted('sent'), counted('failed'), counted('uncertain'), t('created')],
    page.items.map(push => [
      { wide: [el('a', { href: `#/push/${push.id}` }, pushName(push)), push.to_testers && [' ', el('span', { class: 'tag' }, t('test'))],
        push.name && el('p', { class: 'soft small line-1' }, push.first_words)].flat() },
      [pushState(push), push.state === 'scheduled' && el('p', { class: 'soft small' }, when(push.send_at, 'short'))],
      push.created_by ?? '–', count(usersOf(push)), count(push.users.sent), count(push.users.failed), count(push.users.uncertain),
      when(push.created_at, 'short')
    ])), nextPage('pushes', query, page.next))
}

const counted = key => ({ number: t(key), hint: t(`${key}.hint`) })
