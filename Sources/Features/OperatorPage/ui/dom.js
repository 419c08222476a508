// The only place that makes elements. Text becomes text nodes: nothing is ever parsed as HTML.

const svgTags = new Set(['svg', 'rect', 'path', 'title'])

/**
 * Makes an element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `onclick` and the like are listeners; `true` is an empty attribute; `false`, null and
 *   undefined are none.
 * @param {...(Node|string|number|null|undefined|false)} children
 */
export function el(tag, attributes = {}, ...children) {
  const isSVG = svgTags.has(tag) && (tag !== 'title' || attributes.svg)
  const node = isSVG ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'svg' || value === false || value === null || value === undefined) continue
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
    else if (name === 'value') /** @type {any} */ (node).value = value
    else node.setAttribute(name, value === true ? '' : String(value))
  }
  append(node, children)
  return node
}

/** Replaces the children of an element. */
export function fill(node, ...children) {
  node.replaceChildren()
  append(node, children)
  return node
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue
    node.append(typeof child === 'number' ? String(child) : child)
  }
}

export const byID = id => /** @type {HTMLElement} */ (document.getElementById(id))

/** A table that scrolls sideways, also with the keyboard. On phones, each row is a card with its headings. */
export function table(label, headings, rows) {
  const cell = (tag, content, attributes = {}) => {
    const isNumber = content?.number !== undefined
    const kind = isNumber ? 'number' : content?.wide ? 'wide' : null
    const shown = isNumber ? content.number : content?.wide ?? content
    return el(tag, { class: kind, title: content?.hint, ...attributes }, tag === 'td' ? el('div', {}, shown) : shown)
  }
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
    el('table', {},
      el('thead', {}, el('tr', {}, headings.map(heading => cell('th', heading, { scope: 'col' })))),
      el('tbody', {}, rows.map(row => el('tr', {}, row.map((content, index) => cell('td', content, { 'data-heading': words(headings[index]) })))))))
}

const words = heading => typeof heading === 'string' ? heading : heading.number

/** Terms with their descriptions: `facts` for large numbers, `list` for rows. */
export function terms(kind, pairs) {
  return el('dl', { class: kind }, pairs.filter(Boolean).map(([term, description, hint]) =>
    kind === 'list'
      ? [el('dt', {}, term), el('dd', { title: hint }, description)]
      : el('div', { title: hint }, el('dt', {}, term), el('dd', {}, description))).flat())
}
