// Writes a push. The draft outlives the screen, and a copy of a push can be taken back.

import { get, post } from '../api.js'
import { el, fill } from '../dom.js'
import { t } from '../format.js'
import { pushName } from '../parts.js'
import { copyOf, emptyDraft, hasContent, lackOf, storeDraft, storedDraft } from './new-draft.js'
import { showForm } from './new-form.js'

/** The screen: a new push, or a copy of the one in the address. */
export async function show({ main, head, session, signal, query }) {
  let draft = storedDraft(session)
  let before = null
  let lack = null
  const zone = await get('/v1/time-zone', {}, { signal })
  const id = query.get('copy')
  if (id) {
    const push = await get(`/v1/pushes/${encodeURIComponent(id)}`, {}, { signal })
    replace(copyOf(push), 'new.copied', pushName(push), lackOf(push))
    // A reload continues the copy, and does not copy again.
    history.replaceState(null, '', '#/new')
  }
  if (!draft.android) draft.android = await usualAndroid()
  if (signal.aborted) return
  const notice = el('div', { role: 'status' })
  const body = el('div')
  const clear = el('button', { type: 'button', onclick: () => {
    replace({ ...emptyDraft(), android: draft.android }, 'new.cleared')
    show()
  } }, t('new.clear'))
  head.append(el('div', { class: 'actions' }, clear))
  main.append(notice, body)
  show()

  /** Puts another draft in the place of this one, which can be had back. */
  function replace(other, key, name = '', missing = null) {
    lack = missing
    before = hasContent(draft) ? { draft, key, name } : { key, name }
    draft = other
    storeDraft(draft, session)
  }

  function show() {
    const says = before && (before.name || before.draft) && t(before.key, { name: before.name })
    const back = () => {
      ({ draft } = before)
      before = lack = null
      storeDraft(draft, session)
      show()
    }
    fill(notice, says && el('p', { class: 'notice' }, says, ' ', lack && `${lack} `,
      before.draft && el('button', { type: 'button', class: 'plain', onclick: back }, t('new.back'))))
    showForm({ place: body, draft, clear, session, signal, zone })
  }
}

/** Who shows a push on Android, unless the operator has said it: Kakao's version 1 leaves it to the app. */
async function usualAndroid() {
  const { warnings } = await post('/v1/pushes/preview', { message: { for_fcm: { notification: { title: '-' } } } }).catch(() => ({}))
  return warnings?.some(({ code }) => code === 'other-version') === false ? 'system' : 'app'
}
