// Arrivals, landings and conversions as bars over time. Periods without any have a gap, so that the axis is true.

import { el } from '../dom.js'
import { number, t } from '../format.js'
import { when } from '../parts.js'

export const kinds = ['arrivals', 'landings', 'conversions']

/** The bars of statistics in the time that was asked for. */
export function bars({ by, items }, { since, until }) {
  const step = by === 'hour' ? 3600000 : 86400000
  const end = until ? Date.parse(until) : Date.now()
  const from = since ? Date.parse(since) : end - (by === 'hour' ? 2 : 30) * 86400000
  const first = Date.parse(items[0].start)
  const base = first - Math.max(0, Math.ceil((first - from) / step)) * step
  const length = Math.max(1, Math.ceil((end - base) / step))
  const periods = Array.from({ length }, () => ({ name: '', arrivals: 0, landings: 0, conversions: 0 }))
  for (const item of items) {
    const period = periods[Math.min(length - 1, Math.round((Date.parse(item.start) - base) / step))]
    period.name = item.period
    for (const kind of kinds) period[kind] += item[kind]
  }
  const top = Math.max(1, ...periods.flatMap(period => kinds.map(kind => period[kind])))
  return el('figure', { class: 'stack tight' },
    el('figcaption', { class: 'choices small' },
      kinds.map(kind => el('span', { class: `state ${kind}`, title: t(`sharing.${kind}.hint`) }, t(`sharing.${kind}`))),
      el('span', { class: 'soft' }, t('sharing.top', { count: number(top) }))),
    el('svg', {
      class: 'chart tall', viewBox: `0 0 ${length * 10} 96`, preserveAspectRatio: 'none', role: 'img', 'aria-label': t('sharing.chart')
    },
      periods.flatMap((period, index) => kinds.filter(kind => period[kind] > 0).map(kind => el('rect', {
        class: kind, x: index * 10 + kinds.indexOf(kind) * 3, width: 2.8, y: 96 - period[kind] / top * 92, height: period[kind] / top * 92
      }, el('title', { svg: true }, `${period.name} ${t(`sharing.${kind}`)} ${number(period[kind])}`))))),
    el('p', { class: 'ends soft small' }, when(new Date(base).toISOString(), 'short'), when(new Date(end).toISOString(), 'short')))
}
