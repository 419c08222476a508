// What shared messages led to, Kakao's callbacks, the shares, and the editor of templates.

import { get } from '../api.js'
import { el, fill, table } from '../dom.js'
import { hasText, number, t, zoneName } from '../format.js'
import { count, empty, states, when } from '../parts.js'
import { download, filters, nextPage, parameters, tabs } from '../lists.js'
import { bars, kinds } from './sharing-bars.js'
import { template } from './sharing-template.js'

const callbackNames = ['since', 'until', 'stored_since', 'chat_type', 'template_id', 'share']
const signatures = { valid: 'good', expired: 'warn', invalid: 'bad', none: '' }

/** The parts of the screen that the key's scopes allow. */
export async function show(view) {
  const { main, path: [part], session } = view
  const parts = [...session.allows('read') ? ['stats', 'callbacks', 'shares'] : [], ...session.allows('sharing') ? ['template'] : []]
  const current = parts.includes(part) ? part : parts[0]
  const shown = tabs('sharing', parts, current)
  if (shown) main.append(shown)
  await { stats, callbacks, shares, template }[current](view)
}

/** Adds the place of a list, which is announced when it is there. */
function place(main) {
  const list = el('div', { class: 'stack', 'aria-live': 'polite' })
  main.append(list)
  return list
}

async function stats({ main, query, signal }) {
  const names = ['by', 'group', 'since', 'until', 'values']
  main.append(filters('sharing', query, names, { by: [['', t('sharing.day')], ['hour', t('sharing.hour')]] }),
    el('p', { class: 'soft small' }, t('sharing.group.hint')))
  const list = place(main)
  const values = { ...await parameters(query, names, signal), time_zone: zoneName() }
  const found = await get('/v1/link/stats', values, { signal })
  if (found.items.length === 0) return fill(list, empty(t('sharing.none')))
  const groups = new Map()
  for (const item of found.items) {
    const sum = groups.get(item.value ?? null) ?? { arrivals: 0, landings: 0, conversions: 0 }
    for (const kind of kinds) sum[kind] += item[kind]
    groups.set(item.value ?? null, sum)
  }
  const numbers = row => kinds.map(kind => count(row[kind]))
  const heads = kinds.map(kind => ({ number: t(`sharing.${kind}`), hint: t(`sharing.${kind}.hint`) }))
  const label = value => value ?? (found.group ? t('sharing.without') : t('all'))
  fill(list, el('div', { class: 'columns' },
    el('section', { class: 'card' }, bars(found, values)),
    table(t('sharing.groups'), [groupName(found.group), ...heads],
      [...groups].sort(([, a], [, b]) => b.arrivals - a.arrivals).map(([value, row]) => [{ wide: label(value) }, ...numbers(row)]))),
  el('details', {}, el('summary', {}, t('sharing.periods')), el('div', { class: 'stack' },
    table(t('sharing.periods'), [t('sharing.period'), groupName(found.group), ...heads],
      found.items.map(item => [item.period, { wide: label(item.value) }, ...numbers(item)])))))
}

async function callbacks({ main, head, query, signal }) {
  const argument = query.get('arg') ?? ''
  main.append(filters('sharing/callbacks', query, [...callbackNames, 'arg']))
  const list = place(main)
  const values = await parameters(query, callbackNames, signal)
  const [name, ...rest] = argument.split('=')
  if (name) values[`arg.${name}`] = rest.join('=')
  head.append(el('div', { class: 'actions' },
    download(t('sharing.export'), '/v1/link/callbacks/export', { ...values, format: 'csv' }, 'callbacks.csv')))
  const page = await get('/v1/link/callbacks', { ...values, cursor: query.get('cursor'), limit: 50 }, { signal })
  if (page.items.length === 0) return fill(list, empty(t('sharing.callbacks.none')))
  fill(list, table(t('sharing.callbacks'),
    ['sharing.received', 'sharing.signature', 'sharing.chat_type', 'filter.template_id', 'sharing.args', 'sharing.share']
    .map(key => t(key)),
    page.items.map(item => [
      when(item.received_at, 'short'), signature(item), item.chat_type ?? '–', item.template_id === null ? '–' : String(item.template_id),
      { wide: item.malformed ? el('span', { class: 'mono' }, item.raw) : pairs(item.args) },
      item.share_id ? el('a', { class: 'mono', href: `#/sharing/callbacks?share=${item.share_id}` }, item.share_id) : '–'
    ])), nextPage('sharing/callbacks', query, page.next))
}

const signature = item => item.malformed
  ? states('signature.malformed', 'bad')
  : states(`signature.${item.signature ?? 'none'}`, signatures[item.signature ?? 'none'])

const pairs = values => el('span', { class: 'mono' }, Object.entries(values).map(([name, value]) => `${name}=${value}`).join(', ') || '–')

async function shares({ main, query, signal }) {
  main.append(filters('sharing/shares', query, ['campaign']))
  const list = place(main)
  const page = await get('/v1/link/shares', { campaign: query.get('campaign'), cursor: query.get('cursor'), limit: 50 }, { signal })
  if (page.items.length === 0) return fill(list, empty(t('sharing.shares.none')))
  const sum = counts => {
    const entries = Object.entries(counts)
    const total = entries.reduce((all, [, value]) => all + value, 0)
    return { number: number(total), hint: entries.map(([name, value]) => `${name}: ${number(value)}`).join(', ') || undefined }
  }
  fill(list, table(t('sharing.shares'),
    [t('filter.campaign'), t('sharing.share'), ...kinds.map(kind => ({ number: t(`sharing.${kind}`), hint: t(`sharing.${kind}.hint`) })),
      t('sharing.args'), t('created'), t('expires-at')],
    page.items.map(item => [
      { wide: item.campaign ?? '–' }, el('a', { class: 'mono', href: `#/sharing/callbacks?share=${item.id}` }, item.id),
      sum(item.arrivals), count(item.landings), sum(item.conversions), { wide: pairs(item.args) },
      when(item.created_at, 'short'), when(item.expires_at, 'short')
    ])), nextPage('sharing/shares', query, page.next))
}

/** The name of what callbacks are grouped by; an argument has its own. */
const groupName = group => group ? hasText(`filter.${group}`) ? t(`filter.${group}`) : group : t('sharing.total')
