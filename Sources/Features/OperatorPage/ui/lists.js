// Lists: filters in the address, pages, tabs, and downloads with a reason.

import { call, get } from './api.js'
import { ask, field } from './dialog.js'
import { el } from './dom.js'
import { t } from './format.js'
import { zonedTime } from './times.js'

/** Links to the parts of a screen. */
export const tabs = (screen, names, current) => names.length > 1 && el('div', {
  class: 'tabs', role: 'navigation', 'aria-label': t(screen)
}, names.map((name, index) => el('a', {
    href: index === 0 ? `#/${screen}` : `#/${screen}/${name}`, 'aria-current': name === current && 'page'
  }, t(`${screen}.${name}`))))

const isTime = name => name.endsWith('since') || name.endsWith('until')

/** A form whose fields stand in the address. Lists make a choice, times are of the operators' zone. */
export function filters(address, query, names, lists = {}) {
  const control = name => lists[name]
    ? el('select', { name }, lists[name].map(([value, text]) =>
      el('option', { value, selected: value === (query.get(name) ?? '') }, text)))
    : el('input', { name, type: isTime(name) ? 'datetime-local' : 'text', value: query.get(name) ?? '' })
  const submit = event => {
    event.preventDefault()
    const pairs = [...new FormData(event.currentTarget)].filter(([, value]) => value !== '')
    location.hash = `#/${address}?${new URLSearchParams(/** @type {any} */ (pairs))}`
  }
  // On a phone, the list comes first.
  const set = names.filter(name => query.get(name)).length
  return el('details', { open: innerWidth > 767 }, el('summary', {}, t('filters'), set > 0 && ` (${set})`), el('form', { class: 'filters', onsubmit: submit, role: 'search' },
    names.map(name => el('label', {}, t(`filter.${name}`), control(name))), el('button', {}, t('search')),
    set > 0 && el('a', { href: `#/${address}` }, t('filters.clear'))))
}

/** The parameters of a request that the address gives, with its times as the API takes them. */
export async function parameters(query, names, signal) {
  const pairs = names.filter(name => query.get(name)).map(name => [name, query.get(name)])
  const zone = pairs.some(([name]) => isTime(name)) && await get('/v1/time-zone', {}, { signal })
  return Object.fromEntries(pairs.map(([name, value]) => [name, isTime(name) ? zonedTime(value, zone) : value]))
}

/** A link to the next page of a list. */
export function nextPage(address, query, cursor) {
  const next = new URLSearchParams(query)
  next.set('cursor', cursor ?? '')
  return cursor && el('div', { class: 'actions' }, el('a', { class: 'button', href: `#/${address}?${next}` }, t('next')))
}

/** A button that asks for the reason, and saves what the server sends as a file. */
export const download = (label, path, values, file) => el('button', {
  type: 'button', onclick: () => ask({
    title: label.replace('…', ''), text: t('download.text'), action: t('download'),
    fields: [field('reason', { required: true, maxlength: 500 })],
    act: async ([reason]) => {
      const url = URL.createObjectURL(await call('GET', `${path}?${new URLSearchParams({ ...values, reason })}`, { asFile: true }))
      el('a', { href: url, download: file }).click()
      setTimeout(() => URL.revokeObjectURL(url), 60000)
    }
  })
}, label)
