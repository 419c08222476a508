// Text that is meant to be pasted elsewhere.

import { el } from './dom.js'
import { t } from './format.js'

/** A line with a button that copies it. */
export function copyable(text) {
  const code = el('code', { class: 'mono' }, text)
  const button = el('button', {
    type: 'button', onclick: async () => {
      try {
        await navigator.clipboard.writeText(text)
        button.textContent = t('copied')
        setTimeout(() => { button.textContent = t('copy') }, 2000)
      } catch {
        getSelection()?.selectAllChildren(code)
      }
    }
  }, t('copy'))
  return el('div', { class: 'line' }, el('pre', { tabindex: 0, 'aria-label': t('copy.line') }, code), button)
}
