import { get } from '../api.js'
import { el, fill, table, terms } from '../dom.js'
import { onStatus } from '../banner.js'
import { duration, hasText, number, percent, t } from '../format.js'
import { empty, progress, pushName, pushState, states, when } from '../parts.js'

/** What goes out, what needs somebody, and the state of all parts. */
export function show({ main, session, signal }) {
  if (!session.allows('read')) return main.append(empty(t('overview.none')))
  const attention = el('section', { class: 'card' })
  const running = el('section', { class: 'card' })
  const health = el('section', { class: 'card' })
  const isOnCall = session.allows('operate')
  main.append(el('div', { class: 'columns' }, attention, running), health)
  if (!isOnCall) main.append(el('p', { class: 'soft' }, t('sender.stop.who')))
  // The number of pushes that are shown, once it is known.
  let shown = null, isAsking = false
  const drawRunning = async () => {
    if (isAsking) return
    isAsking = true
    const { items } = await get('/v1/pushes', { state: 'sending', limit: 5 }, { signal }).finally(() => { isAsking = false })
    shown = items.length
    fill(running, el('h2', {}, t('running')), shown > 0 ? items.map(push =>
      el('div', { class: 'stack' },
        el('div', { class: 'head' }, el('a', { href: `#/push/${push.id}` }, pushName(push)), pushState(push)),
        progress(push),
        el('span', { class: 'soft small' }, t('running.count', { sent: number(push.users.sent), total: number(push.users.total) }))))
      : empty(t('running.none')))
  }
  onStatus(signal, status => {
    drawAttention(attention, status)
    drawHealth(health, status, isOnCall)
    // While nothing is sent, the status says so.
    if (shown !== 0 || status.pushes?.states.sending > 0) drawRunning().catch(() => {})
  })
  return drawRunning().catch(() => {})
}

function drawAttention(card, { pushes, messages }) {
  const items = [...(pushes?.attention ?? []).map(item => ({ ...item, page: 'push' })), ...(messages?.attention ?? [])]
  fill(card, el('h2', {}, t('attention')), items.length === 0 ? empty(t('attention.none')) : items.map(item =>
    el('div', {},
      el('div', { class: 'head' },
        item.page ? el('a', { href: `#/push/${item.id}` }, item.name ?? item.id) : el('span', {}, item.name ?? item.id),
        pushState(item), el('span', { class: 'soft small' }, t('created'), ' ', when(item.created_at, 'short'))),
      item.page && pushes.states[item.state] > 1 && el('a', { class: 'small', href: `#/pushes?state=${item.state}` },
        t('attention.more', { state: t(`state.${item.state}`), count: number(pushes.states[item.state]) })),
      reasons(item).filter(Boolean).map(text => el('p', { class: 'small' }, text)))))
}

/** Why it is not sent, and what to do: in the operator's language if its state says all, otherwise in the server's words. */
const reasons = ({ state, reason, remedy }) => hasText(`attention.${state}`)
  ? [state === 'halted' && reason, t(`attention.${state}`)] : [reason, remedy]

/** The state of all parts, or for those who are not on call of what concerns their pushes. */
function drawHealth(card, { kakao, database, journal, servers, webhook_endpoints: endpoints, backlog }, isOnCall) {
  const kakaoLevel = { reachable: 'good', unknown: '' }[kakao.state] ?? 'bad'
  const failing = endpoints.filter(endpoint => endpoint.state !== 'delivering')
  fill(card, el('h2', {}, t('health')),
    terms('list', [
      [t('kakao'), [states(`kakao.${kakao.state}`, kakaoLevel),
        kakao.mean_milliseconds !== null && ` ${number(kakao.mean_milliseconds)} ms`,
        kakao.reason && el('p', { class: 'small' }, kakao.reason)]],
      [t('quota'), [el('progress', {
        max: kakao.calls_per_month, value: kakao.calls_this_month ?? 0, 'aria-label': t('quota')
      }), ' ', t('quota.of', {
        calls: number(kakao.calls_this_month), all: number(kakao.calls_per_month),
        share: percent((kakao.calls_this_month ?? 0) / kakao.calls_per_month)
      })], t('quota.hint')],
      ...!isOnCall ? [] : [['PostgreSQL', states(`database.${database.state}`, database.up ? 'good' : 'bad')],
      [t('backlog'), backlog.batches
        ? t('backlog.of', { batches: number(backlog.batches), time: duration(backlog.oldest_seconds) }) : t('backlog.none')],
      journal && [t('journal'), [states(journal.open ? 'journal.open' : 'journal.closed', journal.open ? 'good' : 'bad'),
        journal.records > 0 && ` ${t('journal.records', { records: number(journal.records) })}`,
        journal.rejected > 0 && ` ${t('journal.rejected', { rejected: number(journal.rejected) })}`]],
      endpoints.length > 0 && [t('webhooks'), failing.length === 0 ? states('webhooks.good', 'good')
        : failing.map(endpoint =>
          el('p', {}, states(`endpoint.${endpoint.state}`, 'bad'), ` ${endpoint.name}: ${endpoint.last_error ?? ''}`))]]
    ]),
    isOnCall && table(t('servers'), [t('server'), t('version'), { number: t('uptime') }],
      servers.map(server => [server.host, server.version, { number: duration(server.uptime_seconds) }])))
}
