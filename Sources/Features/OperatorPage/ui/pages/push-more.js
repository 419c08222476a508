// What one push offers below its numbers: a user in it, the batches that failed, and the users whom it did not reach.

import { get } from '../api.js'
import { el, fill, table } from '../dom.js'
import { number, problemText, t } from '../format.js'
import { hasEnded, when } from '../parts.js'
import { download } from '../lists.js'

const problem = error => el('p', { class: 'problem', role: 'alert' }, problemText(error))

const kakao = (status, code, message) => [status, code, message].filter(part => part !== null).join(' · ') || '–'

/** Whom a push is for, in words, and who is left out. */
export function recipients({ to_testers: isTest, audience, except }) {
  const list = words => words.join(', ')
  const named = isTest ? t('new.to.testers')
    : audience.everyone ? t('new.to.everyone')
      : audience.audience ? `${t('new.to.audience')}: ${audience.audience}`
        : audience.tags_any ? `${t('push.tags-any')}: ${list(audience.tags_any)}`
          : audience.tags_all ? `${t('push.tags-all')}: ${list(audience.tags_all)}`
            : listed(audience)
  const left = except && [
    except.tags_any && `${t('push.tags-any')}: ${list(except.tags_any)}`, except.audience, except.pushes && list(except.pushes)
  ].filter(Boolean)
  return [...[named].flat(), left?.length > 0 && el('p', { class: 'soft' }, `${t('push.except')}: ${left.join('; ')}`)]
}

/** The listed users, each a link: the first ten, and the others on demand. */
function listed({ uuids, uuids_total: total }) {
  const links = ids => ids.flatMap((id, index) => [index > 0 && ', ', el('a', { href: `#/user/${id}` }, id)])
  if (uuids.length <= 10) return links(uuids)
  return [...links(uuids.slice(0, 10)), el('details', {}, el('summary', {}, t('push.more-users', { count: number((total ?? uuids.length) - 10) })),
    el('p', {}, links(uuids.slice(10)), total && ' …'))]
}

/** What became of a user in a push: what waits when the push ends is not sent any more. */
export const result = ({ state, push_state: end, may_repeat: again }) =>
  t(`result.${state !== 'waiting' || !hasEnded({ state: end }) ? state : again ? 'uncertain' : 'unsent'}`)

/** A form that finds a user in a push, and says what became of them. */
export function findUser(url) {
  const out = el('div', { 'aria-live': 'polite' })
  const input = el('input', { name: 'user', type: 'text', inputmode: 'numeric', required: true, pattern: '[1-9][0-9]{0,18}', title: t('field.user.hint') })
  const submit = async event => {
    event.preventDefault()
    const id = input.value.trim()
    const link = el('a', { href: `#/user/${id}` }, t('records.user', { id }))
    try {
      const found = await get(`${url}/users/${encodeURIComponent(id)}`)
      fill(out, el('p', {}, link, ': ', result(found), found.may_repeat && ` · ${t('may-repeat')}`,
        found.state !== 'sent' && ` · ${kakao(found.status, found.code, found.message)}`, ' · ', when(found.finished_at)))
    } catch (error) {
      fill(out, error.status === 404 ? el('p', { class: 'notice' }, link, ': ', t('push.find.none')) : problem(error))
    }
  }
  return el('section', { class: 'card' }, el('h2', {}, t('push.find')),
    el('form', { class: 'filters', role: 'search', onsubmit: submit }, el('label', {}, t('field.user'), input),
      el('button', {}, t('search'))), out)
}

/** The users who were skipped or not sent to, by cause, and each cause as a file for keys that may download. */
export function unreached(url, push, session) {
  const { id, unreached: { skipped, unsent, complete } } = push
  const isCut = !complete && hasEnded(push)
  const causes = [['skipped', skipped], ['unsent', unsent]].flatMap(([state, counts]) =>
    Object.entries(counts).filter(([, count]) => count > 0).map(([cause, count]) => ({ state, cause, count })))
  if (causes.length === 0 && !isCut) return []
  const file = ({ state, cause }) => session.allows('export') &&
    download(t('push.unreached.download'), `${url}/users`, { state, cause }, `${id}-${cause}.csv`)
  return [el('section', { class: 'stack' }, el('h2', {}, t('push.unreached')), el('p', { class: 'soft' }, t('push.unreached.text')),
    isCut && el('p', { class: 'notice' }, t('push.unreached.incomplete')),
    causes.length > 0 && table(t('push.unreached'), [t('push.unreached.cause'), { number: t('users') }, ''],
      causes.map(each => [{ wide: t(`cause.${each.cause}`) }, { number: number(each.count) }, file(each) || ''])))]
}

/** The batches that failed or are uncertain, with Kakao's words, and their users as a file for keys that may download. */
export function batches(url, id, state, session, signal) {
  const body = el('div', { class: 'stack' })
  const section = el('section', { class: 'stack' }, el('h2', {}, t(`push.batches.${state}`)), body)
  get(`${url}/batches`, { state, limit: 20 }, { signal }).then(({ items }) => fill(body,
    items.length > 0 && table(t(`push.batches.${state}`), [{ number: t('push.batch') }, { number: t('users') }, t('push.kakao'), t('updated')],
      items.map(batch => [{ number: number(batch.number) }, { number: number(batch.uuids.length) },
        { wide: kakao(batch.kakao_status, batch.kakao_code, batch.kakao_message) }, when(batch.finished_at, 'short')])),
    session.allows('export') && el('div', {}, download(t(`push.download.${state}`), `${url}/users`, { state }, `${id}-${state}.csv`))
  ), error => signal.aborted || fill(body, problem(error)))
  return section
}
