// Texts, numbers and times in the operator's language.

const stored = localStorage.getItem('language')

/** `ko` or `en`. */
export const language = stored === 'ko' || stored === 'en' ? stored : navigator.language.startsWith('ko') ? 'ko' : 'en'

/** @type {Record<string, string>} */
let texts = {}
let zone = 'UTC'

/** Loads the texts that all screens have, or those of one screen, by the prefix of their keys. */
export async function loadTexts(prefix = '') {
  const response = await fetch(new URL(`texts/${prefix}${language}.json`, import.meta.url))
  texts = { ...texts, ...await response.json() }
}

/** Sets the time zone of the operators: `pushes.time_zone`. */
export function setZone(name) { zone = name }

export function switchLanguage() {
  localStorage.setItem('language', language === 'ko' ? 'en' : 'ko')
  location.reload()
}

/**
 * Returns a text by its key, with `{name}` replaced. A key without a text shows itself, which a test forbids.
 * @param {string} key
 * @param {Record<string, any>} [values]
 */
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all)
}

export const hasText = key => key in texts

const digits = new Intl.NumberFormat(language)
const shortPercent = new Intl.NumberFormat(language, { style: 'percent', maximumFractionDigits: 2 })

/** A number of users in words. */
export const people = count => t(count === 1 ? 'user.count' : 'users.count', { count: number(count) })

export const number = value => value === null || value === undefined ? '–' : digits.format(value)
export const percent = value => shortPercent.format(value)

/** A time as the operators' clocks show it: `short` for tables, without the day of the week and the present year; `exact` with seconds. */
export function time(text, style = 'medium') {
  if (!text) return '–'
  const date = new Date(text)
  const isShort = style === 'short'
  const isThisYear = date.getFullYear() === new Date().getFullYear()
  return new Intl.DateTimeFormat(language, {
    year: isShort && isThisYear ? undefined : 'numeric', month: 'short', day: 'numeric', weekday: isShort ? undefined : 'short',
    hour: '2-digit', minute: '2-digit', second: style === 'exact' ? '2-digit' : undefined, hourCycle: 'h23', timeZone: zone
  }).format(date)
}

export const zoneName = () => zone

/** A duration of seconds in the two largest units. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds))
  const parts = [['days', 86400], ['hours', 3600], ['minutes', 60], ['seconds', 1]]
  let rest = whole
  const shown = []
  for (const [unit, size] of parts) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0 || (unit === 'seconds' && shown.length === 0)) shown.push(t(`duration.${unit}`, { count: number(count) }))
    if (shown.length === 2) break
  }
  return shown.join(' ')
}

/** What a problem says: in the operator's language if its kind has a text, and in the server's words. */
export function problemText(error) {
  const key = `problem.${error.type}`
  const own = hasText(key) ? t(key, { wait: number(error.wait) }) : ''
  // The server's sentence says no more.
  const isWhole = own && (language === 'en' || error.type === 'not-found')
  return [own, isWhole ? '' : error.message].filter(Boolean).join(' ')
}
