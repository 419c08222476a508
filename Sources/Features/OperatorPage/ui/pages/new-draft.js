// The draft of a push: what its form holds. It outlives the screen, a reload of the page, and the session, but not a sending.

import { t } from '../format.js'
import { appFields, express, messageOf } from './new-message.js'
import { zonedTime } from '../times.js'

const place = 'push-draft'

/** A form without what is typed. `form` is a part of its idempotency keys. */
export const emptyDraft = () => ({
  form: crypto.randomUUID(), name: '', kind: '', mode: 'fields', json: '', title: '', text: '', ...appFields(), to: 'testers', chosen: '',
  users: '', audience: '', tags: '', match: 'any', exceptTags: '', exceptAudience: '', exceptPushes: [], when: 'now', at: '', expires: '',
  pace: '', once: false, test: null
})

/** Returns the draft of the operator who is signed in: other people's drafts are deleted. */
export function storedDraft(session) {
  try {
    const { owner, draft } = JSON.parse(sessionStorage.getItem(place) ?? '{}')
    if (owner === session.key_id) return { ...emptyDraft(), ...draft }
  } catch {
    // It was stored by another version of the page.
  }
  sessionStorage.removeItem(place)
  return emptyDraft()
}

export function storeDraft(draft, session) {
  try {
    sessionStorage.setItem(place, JSON.stringify({ owner: session.key_id, draft }))
  } catch {
    // A browser without room loses it with a reload, which is no reason to stop the operator.
  }
}

export const hasContent = draft => ['name', 'title', 'text', 'users', 'json'].some(name => draft[name])

export const words = text => text.split(/[\s,]+/).filter(Boolean)
export const userID = /^[1-9]\d{0,18}$/
const tagsOf = text => text.split(',').map(tag => tag.trim()).filter(Boolean)

function userIDs(text) {
  const found = words(text)
  const wrong = found.find(word => !userID.test(word))
  if (wrong) throw new Error(t('new.users.wrong', { word: wrong }))
  return found
}

/** Runs `work`, and says which field of the request its error is about. */
function about(field, work) {
  try {
    return work()
  } catch (error) {
    throw Object.assign(error, { field })
  }
}

/** Returns the request of a draft without its recipients and times: that of a test. */
export function testOf(draft) {
  return {
    ...draft.name.trim() && { name: draft.name.trim() }, ...draft.kind && { kind: draft.kind },
    message: about('message', () => messageOf(draft)), to_testers: true
  }
}

/** Returns the request of a draft. Throws an error with a text and its field. */
export function requestOf(draft, zone) {
  const { to_testers: isTest, ...common } = testOf(draft)
  if (draft.to === 'testers') return { ...common, to_testers: isTest }
  const audience = {
    users: () => about('audience', () => ({ uuids: userIDs(draft.users) })),
    audience: () => ({ audience: draft.audience.trim() }),
    tags: () => ({ [`tags_${draft.match}`]: tagsOf(draft.tags) }),
    everyone: () => ({ everyone: true })
  }[draft.to]()
  const except = {
    ...tagsOf(draft.exceptTags).length > 0 && { tags_any: tagsOf(draft.exceptTags) },
    ...draft.exceptAudience.trim() && { audience: draft.exceptAudience.trim() },
    ...draft.exceptPushes.length > 0 && { pushes: draft.exceptPushes.map(({ id }) => id) }
  }
  return {
    ...common, audience, ...Object.keys(except).length > 0 && { except },
    ...draft.when === 'at' && { send_at: about('send_at', () => zonedTime(draft.at, zone)) },
    ...draft.expires && { expires_at: about('expires_at', () => zonedTime(draft.expires, zone)) },
    ...draft.pace && { users_per_second: Number(draft.pace) }, ...draft.once && { delivery: 'at_most_once' }
  }
}

/** Returns a draft that says what a push says, to the same recipients as far as it shows them, and what could not be copied. */
export function copyOf(push) {
  const kind = push.kind ?? ''
  const fields = express(push.message, kind)
  const draft = {
    ...emptyDraft(), name: push.name ?? '', kind, ...fields ?? { mode: 'json', json: JSON.stringify(push.message, null, 2) },
    ...recipientsOf(push), when: push.send_at ? 'at' : 'now', pace: String(push.users_per_second ?? ''), once: push.delivery === 'at_most_once',
    exceptTags: (push.except?.tags_any ?? []).join(', '), exceptAudience: push.except?.audience ?? '',
    exceptPushes: (push.except?.pushes ?? []).map(id => ({ id, name: id }))
  }
  return { ...draft, chosen: draft.to === 'testers' ? '' : draft.to }
}

function recipientsOf({ to_testers: isTest, audience }) {
  if (isTest) return {}
  // A longer list is shown in part only.
  if (audience.uuids) return audience.uuids_total ? {} : { to: 'users', users: audience.uuids.join('\n') }
  if (audience.audience) return { to: 'audience', audience: audience.audience }
  if (audience.everyone) return { to: 'everyone' }
  const match = audience.tags_all ? 'all' : 'any'
  return { to: 'tags', match, tags: (audience.tags_all ?? audience.tags_any).join(', ') }
}

/** What a copy lacks, as a text; null if nothing. */
export const lackOf = push => push.audience.uuids_total ? t('new.copied.users', { count: push.audience.uuids_total }) : null

/** The idempotency key of a request: one for each form and body, so that each of them is sent once. */
export async function keyOf(draft, body) {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(body)))
  return `${draft.form}-${Array.from(new Uint8Array(digest).slice(0, 16), byte => byte.toString(16).padStart(2, '0')).join('')}`
}
