// What a dry run has found, in words.

import { el, terms } from '../dom.js'
import { duration, number, people, percent, t } from '../format.js'
import { states, warning, when } from '../parts.js'

/** The number of users who would get it. */
export const usersOf = found => found.users.total - found.users.skipped

/** When it would begin: a time, or null for now. */
export function beginOf(found, body) {
  const times = [body.send_at, found.waits_until].filter(Boolean).map(text => Date.parse(text)).filter(at => at > Date.now())
  return times.length > 0 ? new Date(Math.max(...times)).toISOString() : null
}

const soft = text => el('span', { class: 'soft' }, text)

/** What stands about the push, and what is to know before it is sent. */
export function findings(found, body, sender, session) {
  const { users, needs_approval: needsApproval, duration_seconds: seconds, monthly_quota: quota } = found
  const begin = beginOf(found, body)
  const isStopped = sender && sender.state !== 'running'
  const cuts = found.warnings.filter(({ code }) => code === 'text-cut')
  const isUntested = !body.to_testers && !found.last_tested_at
  const end = seconds === null || needsApproval ? null : new Date((begin ? Date.parse(begin) : Date.now()) + seconds * 1000).toISOString()
  const reason = (count, key) => count > 0 && [t(key), [number(count), ' ', soft(t(`${key}.why`))]]
  return [
    isStopped && el('div', { class: 'problem' }, states(`sender.${sender.state}`, 'bad'), sender.reason && ` · ${sender.reason}`,
      el('p', {}, t('new.stopped'))),
    usersOf(found) === 0 && el('p', { class: 'notice' }, t('new.nobody')),
    terms('list', [
      [t('users'), el('strong', {}, people(usersOf(found))), t('users.hint')],
      reason(users.skipped, 'new.skipped'),
      reason(users.excluded, 'new.excluded'),
      reason(users.without_consent, 'new.without-consent'),
      found.waits_for.length > 0 && [t('new.waits-for'), t('new.waits-for.text', { count: number(found.waits_for.length) })],
      [t('new.begin'), begin ? [when(begin), ' ', found.waits_until && soft(t('new.hours'))]
        : t(!needsApproval ? 'new.when.now' : body.kind === 'advertising' ? 'new.begin.approval.hours' : 'new.begin.approval')],
      seconds !== null && [t('new.duration'), [t('new.about', { time: duration(Math.max(1, seconds)) }),
        ...end && seconds >= 60 ? [' ', soft(t('new.end')), ' ', when(end, 'short')] : []]],
      [t('new.requests'), [t('new.requests.count', { count: number(found.requests) }), ' · ', soft(t('new.requests.share', {
        share: quota.share > 0 && quota.share < 0.0001 ? t('new.least') : percent(quota.share),
        used: percent(quota.calls > 0 ? quota.used / quota.calls : 0)
      }))]],
      !body.to_testers && found.last_tested_at && [t('tested'), when(found.last_tested_at, 'short')],
      [t('new.approval'), t(needsApproval ? 'new.approval.needed' : 'new.approval.none', { name: session.name })]
    ]),
    isUntested && el('p', { class: 'notice small' }, t('new.untested')),
    cuts.length > 0 && el('p', { class: 'notice small' }, t('new.cut', { count: cuts.length })),
    ...found.warnings.filter(other => !cuts.includes(other)).map(warning)
  ]
}
