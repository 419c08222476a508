import { get } from '../api.js'
import { el, fill } from '../dom.js'
import { t } from '../format.js'
import { empty, pushTable } from '../parts.js'
import { parameters } from './records-parts.js'

const stateNames = ['proposed', 'scheduled', 'preparing', 'sending', 'paused', 'halted', 'done', 'canceled', 'expired']

/** The list of pushes. Its filters stand in the address, so that it can be passed on. */
export async function show({ main, query, signal }) {
  const filters = Object.fromEntries(['state', 'name', 'created_by', 'unfinished'].map(name => [name, query.get(name) ?? '']))
  const times = await parameters(query, ['since', 'until'], signal)
  const submit = event => {
    event.preventDefault()
    const pairs = [...new FormData(event.currentTarget)].filter(([, value]) => value !== '')
    location.hash = `#/pushes?${new URLSearchParams(/** @type {any} */ (pairs))}`
  }
  const text = name => el('label', {}, t(`field.${name}`), el('input', { name, type: 'text', value: filters[name] }))
  main.append(el('form', { class: 'filters', onsubmit: submit, role: 'search' },
    el('label', {}, t('state'), el('select', { name: 'state' },
      el('option', { value: '' }, t('all')),
      stateNames.map(name => el('option', { value: name, selected: name === filters.state }, t(`state.${name}`))))),
    text('name'), text('created_by'),
    ['since', 'until'].map(name => el('label', {}, t(`filter.${name}`),
      el('input', { name, type: 'datetime-local', value: query.get(name) ?? '' }))),
    el('label', {}, t('filter.unfinished'), el('select', { name: 'unfinished' }, el('option', { value: '' }, t('all')),
      el('option', { value: 'true', selected: filters.unfinished === 'true' }, t('filter.unfinished.only')))),
    el('button', {}, t('search'))))
  const list = el('div', { class: 'stack', 'aria-live': 'polite' })
  main.append(list)
  const cursor = query.get('cursor') ?? ''
  const page = await get('/v1/pushes', { ...filters, ...times, cursor, limit: 50 }, { signal })
  if (page.items.length === 0) return fill(list, empty(t(query.size > 0 ? 'pushes.none.filtered' : 'pushes.none')))
  const next = new URLSearchParams(query)
  next.set('cursor', page.next ?? '')
  fill(list, pushTable(t('pushes'), page.items),
    page.next && el('div', { class: 'actions' }, el('a', { class: 'button', href: `#/pushes?${next}` }, t('next'))))
}
