// The message of a push: the fields of the form and Kakao's `push_message` are two forms of one value. Pure, apart from what this
// browser remembers of how the app reads a push.

import { t } from '../format.js'

const mark = '(광고)'
const memory = 'push-app'
const usualTextNames = ['body', 'text', 'message', 'alert', 'content']

/** How the app reads a push, as this browser last sent one: the platforms, who shows it on Android, and names in `custom_field`. */
export function appFields() {
  const usual = { apns: true, fcm: true, android: '', titleName: 'title', textName: 'body', custom: [['link', '']] }
  try {
    return { ...usual, ...JSON.parse(localStorage.getItem(memory) ?? '{}') }
  } catch {
    return usual
  }
}

/** Remembers how the app reads a push, without what this one says. */
export function rememberApp({ mode, apns, fcm, android, titleName, textName, custom }) {
  if (mode === 'json') return
  const names = custom.filter(([name]) => name).map(([name]) => [name, ''])
  localStorage.setItem(memory, JSON.stringify({ apns, fcm, android, titleName, textName, custom: names }))
}

/** Returns the message of a draft. Throws an error with a text if its JSON is not a message. */
export function messageOf(draft) {
  return draft.mode === 'json' ? parsed(draft.json) : compose(draft)
}

function parsed(text) {
  let value
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new Error(t('new.json.invalid', { error: error.message }))
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error(t('new.json.object'))
  // JavaScript would round these.
  const long = text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/\d{16,}/)
  if (long) throw new Error(t('new.json.long', { number: long[0] }))
  return value
}

/** Returns the message of the fields, for the platforms that are chosen. */
function compose({ kind, title, text, apns, fcm, android, titleName, textName, custom }) {
  const marked = words => kind === 'advertising' && words && !words.startsWith(mark) ? `${mark} ${words}` : words
  const [head, body] = title.trim() ? [marked(title.trim()), text.trim()] : ['', marked(text.trim())]
  const shown = names => Object.fromEntries([[names[0], head], [names[1], body]].filter(([, words]) => words))
  const pairs = Object.fromEntries(custom.map(pair => pair.map(word => word.trim())).filter(([name, value]) => name && value))
  const field = object => Object.keys(object).length > 0 ? { custom_field: object } : {}
  const native = shown(['title', 'body'])
  return {
    ...apns && { for_apns: { message: native, ...field(pairs) } },
    ...fcm && {
      for_fcm: android === 'system' ? { notification: native, ...field(pairs) } : field({ ...shown([titleName, textName]), ...pairs })
    }
  }
}

/** Returns the fields of a message, or null if they cannot express it. */
export function express(message, kind, names = appFields()) {
  const { for_gcm: gcm, ...rest } = message
  // The server renames the member to the one of its version of Kakao's API.
  const whole = gcm === undefined ? message : { ...rest, for_fcm: gcm }
  const { for_apns: apns, for_fcm: fcm } = whole
  const data = { ...fcm?.custom_field }
  const native = apns?.message ?? fcm?.notification
  const android = fcm ? fcm.notification ? 'system' : 'app' : names.android
  const textName = [names.textName, ...usualTextNames].find(name => typeof data[name] === 'string') ?? names.textName
  const shown = native ?? { title: data[names.titleName], body: data[textName] }
  if (android === 'app') for (const name of [names.titleName, textName]) delete data[name]
  const unmarked = words => kind === 'advertising' && words.startsWith(`${mark} `) ? words.slice(mark.length + 1) : words
  const words = [shown?.title ?? '', shown?.body ?? '']
  if (words.some(part => typeof part !== 'string')) return null
  const [title, text] = words[0] ? [unmarked(words[0]), words[1]] : ['', unmarked(words[1])]
  const custom = Object.entries(apns ? apns.custom_field ?? {} : data)
  if (custom.some(([, value]) => typeof value !== 'string')) return null
  const fields = {
    title, text, apns: Boolean(apns), fcm: Boolean(fcm), android, titleName: names.titleName, textName,
    custom: custom.length > 0 ? custom : names.custom.map(([name]) => [name, ''])
  }
  return isEqual(compose({ kind, ...fields }), whole) ? fields : null
}

function isEqual(one, other) {
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object') return one === other
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const names = Object.keys(one)
  return names.length === Object.keys(other).length && names.every(name => name in other && isEqual(one[name], other[name]))
}
