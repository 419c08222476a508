// The editor of templates: JSON, the message as KakaoTalk shows it, and what the linter finds.

import { el, fill } from '../dom.js'
import { problemText, t } from '../format.js'
import { empty, states } from '../parts.js'
import { call } from '../api.js'

const levels = { rejected: 'bad', truncated: 'warn', dropped: 'warn', uncertain: '' }
const types = ['feed', 'text', 'list', 'commerce', 'location', 'calendar']

/** A small template of a type, with words in the operator's language. */
function example(type) {
  const link = { web_url: 'https://example.com', mobile_web_url: 'https://example.com' }
  const content = {
    title: t('cake.title'), description: t('cake.text'), image_url: 'https://example.com/cake.png', link
  }
  const parts = {
    feed: { content, buttons: [{ title: t('cake.button'), link }] },
    text: { text: t('cake.text'), link },
    list: { header_title: t('cake.title'), header_link: link, contents: [content, content] },
    commerce: { content, commerce: { regular_price: 20000, discount_price: 18000, discount_rate: 10 } },
    location: { content, address: t('template.address') },
    calendar: { content, id_type: 'event', id: 'event-id' }
  }
  return JSON.stringify({ object_type: type, ...parts[type] }, null, 2)
}

let written = ''

/** The editor. What was written stays while the page is open. */
export async function template({ main, signal }) {
  written ||= example('feed')
  const hidden = el('input', { type: 'hidden', name: 'template' })
  const form = /** @type {HTMLFormElement} */ (el('form', {
    method: 'post', action: '/v1/templates/preview', target: 'bubble', hidden: true
  }, hidden))
  const ids = el('p', { class: 'soft small', hidden: true }, t('template.calendar.ids'))
  const findings = el('section', { class: 'stack tight', 'aria-live': 'polite' })
  const editor = /** @type {HTMLTextAreaElement} */ (el('textarea', {
    class: 'mono code', spellcheck: 'false', oninput: () => {
      written = editor.value
      clearTimeout(timer)
      timer = setTimeout(check, 600)
    }, value: written
  }))
  const start = /** @type {HTMLSelectElement} */ (el('select', {
    onchange: () => {
      if (!start.value) return
      editor.value = written = example(start.value)
      start.value = ''
      check()
    }
  }, el('option', { value: '' }, t('new.choose')), types.map(value => el('option', { value }, t(`template.${value}`)))))
  let timer
  let round = 0
  signal.addEventListener('abort', () => clearTimeout(timer))
  main.append(el('div', { class: 'columns' },
    el('div', { class: 'stack' }, el('label', {}, t('template.start'), start), el('label', {}, t('template.json'), editor), ids),
    el('div', { class: 'stack' }, el('h2', {}, t('template.preview')),
      el('iframe', { name: 'bubble', class: 'talk', title: t('template.preview') }), form)),
  el('h2', {}, t('template.findings')), findings)
  await check()

  async function check() {
    const current = round += 1
    ids.hidden = !/"object_type"\s*:\s*"calendar"/.test(editor.value)
    try {
      const found = await call('POST', '/v1/templates/lint', { text: editor.value, signal })
      if (current !== round) return
      fill(findings, found.findings.length === 0 ? empty(t('template.none')) : found.findings.map(finding))
      if (found.rejected && !found.checked) return
    } catch (error) {
      if (signal.aborted || current !== round) return
      fill(findings, el('p', { class: 'problem', role: 'alert' }, problemText(error)))
      return
    }
    hidden.setAttribute('value', editor.value)
    form.submit()
  }
}

const finding = ({ path, rule, effect, message }) => el('div', { class: 'card' },
  el('p', {}, states(`effect.${effect}`, levels[effect]), ' ', el('span', { class: 'mono' }, path)),
  el('p', {}, message, ' ', el('span', { class: 'mono soft' }, rule)))
