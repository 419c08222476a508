// Fields of forms, and the one dialog.

import { byID, el, fill } from './dom.js'
import { problemText, t } from './format.js'

let count = 0

/** Says what an action has done, until another screen is opened. */
export const say = text => fill(byID('said'), text && el('p', { class: 'notice good' }, text))

/** The questions that are open: a call of one may ask for the key, which covers it until then. */
const open = []

/** Ends the question on top, and shows the one below as it was. Signing out ends all of them. */
function ended() {
  const dialog = /** @type {HTMLDialogElement} */ (byID('dialog'))
  const closed = document.body.className === 'out' ? open.splice(0).reverse() : open.splice(-1)
  const below = open.at(-1)
  if (below) {
    fill(dialog, below.form)
    dialog.showModal()
  }
  for (const { end } of closed) end()
}

/** A field with its label. Its text is the key `field.NAME`. */
export function field(name, { hint, tag = 'input', ...attributes } = {}) {
  const id = `field-${name}-${count += 1}`
  const describes = hint ? `${id}-hint` : undefined
  const input = /** @type {HTMLInputElement} */ (el(tag, {
    id, name, type: tag === 'input' ? 'text' : null, 'aria-describedby': describes, ...attributes
  }))
  const label = el('label', { for: id }, t(`field.${name}`), input, hint && el('span', { class: 'hint', id: describes }, hint))
  return { input, label }
}

/**
 * Asks for a confirmation, acts, and says that it is done. The focus returns to where it was. Resolves to whether the action has succeeded.
 * @param {{title: string, text?: string, contents?: Node, action: string, done?: string, isDanger?: boolean, fields?: ReturnType<typeof field>[],
 *   act: (values: string[]) => Promise<any>}} question
 */
export function ask({ title, text, contents, action, done, isDanger, fields = [], act }) {
  const dialog = /** @type {HTMLDialogElement} */ (byID('dialog'))
  const before = /** @type {HTMLElement | null} */ (document.activeElement)
  return new Promise(resolve => {
    let succeeded = false
    const problem = el('p', { class: 'problem', role: 'alert', hidden: true })
    const button = el('button', { class: isDanger ? 'danger' : 'main' }, action)
    const submit = async event => {
      event.preventDefault()
      button.setAttribute('disabled', '')
      try {
        await act(fields.map(({ input }) => input.value))
        succeeded = true
        if (done) say(done)
        dialog.close()
      } catch (error) {
        problem.textContent = problemText(error)
        problem.hidden = false
        button.removeAttribute('disabled')
      }
    }
    const form = el('form', { onsubmit: submit, 'aria-labelledby': 'dialog-title' },
      el('h2', { id: 'dialog-title' }, title),
      text && el('p', {}, text),
      contents,
      fields.map(({ label }) => label),
      problem,
      el('div', { class: 'actions' }, button, el('button', { type: 'button', onclick: () => dialog.close() }, t('close'))))
    open.push({
      form, end: () => {
        before?.focus()
        resolve(succeeded)
      }
    })
    dialog.onclose = ended
    fill(dialog, form)
    if (!dialog.open) dialog.showModal()
    else /** @type {HTMLElement | null} */ (form.querySelector('input:not([hidden]), select, textarea, button'))?.focus()
  })
}
