// Times that an operator types, as clocks of the operators' zone show them. Pure.

import { t } from './format.js'

const seconds = text => Math.floor(Date.parse(text) / 1000)
const clock = count => new Date(count * 1000).toISOString().slice(11, 16)

/** A difference from UTC, such as `+09:00`. */
function offsetText(offset) {
  const minutes = Math.floor(Math.abs(offset) / 60)
  const digits = count => String(count).padStart(2, '0')
  return `${offset < 0 ? '-' : '+'}${digits(Math.floor(minutes / 60))}:${digits(minutes % 60)}`
}

/**
 * Returns a local time with its difference from UTC. Throws an error with a text for a time that clocks skip, or show twice, and for
 * one of which the difference is not known.
 * @param {string} local `YYYY-MM-DDTHH:MM`
 * @param {{name: string, offsets: {since: string, seconds: number}[], until: string}} zone The answer of `GET /v1/time-zone`.
 */
export function zonedTime(local, { name, offsets, until }) {
  const shown = { time: local.replace('T', ' '), zone: name }
  const wanted = seconds(`${local}Z`)
  if (Number.isNaN(wanted)) throw new Error(t('new.time.invalid'))
  const spans = offsets.map((offset, index) => ({
    offset: offset.seconds, since: seconds(offset.since), until: seconds(offsets[index + 1]?.since ?? until)
  }))
  const found = spans.filter(span => wanted - span.offset >= span.since && wanted - span.offset < span.until)
  if (found.length === 1) return `${local}:00${offsetText(found[0].offset)}`
  if (found.length > 1) throw new Error(t('new.time.twice', shown))
  const index = spans.findIndex((span, at) => at > 0 && wanted - span.offset < span.since && wanted - spans[at - 1].offset >= span.since)
  if (index < 0) throw new Error(t('new.time.far', shown))
  const { since, offset } = spans[index]
  throw new Error(t('new.time.skipped', { ...shown, from: clock(since + spans[index - 1].offset), to: clock(since + offset) }))
}
