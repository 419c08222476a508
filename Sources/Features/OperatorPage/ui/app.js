// Signing in, navigation, and the banner that every screen has.

import { call, get, post, whenRejected } from './api.js'
import { byID, el, fill, terms } from './dom.js'
import { ask, field, say } from './dialog.js'
import { language, loadTexts, problemText, setZone, switchLanguage, t } from './format.js'
import { banner } from './banner.js'

/** Whether `push-server dev` serves the page, which has a sandbox in Kakao's place. */
const isSandbox = document.documentElement.dataset.sandbox !== undefined

/**
 * The screens, each with its module, which is loaded when it is first shown; the scopes of which one is needed, none for everybody; and
 * whether the navigation has it, or the screen under which it stands there.
 */
const screens = {
  '': { load: () => import('./pages/overview.js'), title: 'overview', scopes: ['read', 'operate', 'send', 'approve'], isMain: true },
  pushes: { load: () => import('./pages/pushes.js'), title: 'pushes', scopes: ['read'], isMain: true },
  new: { load: () => import('./pages/new.js'), title: 'new', scopes: ['send'], isMain: true },
  user: { load: () => import('./pages/user.js'), title: 'user', scopes: ['read', 'devices'], isMain: true },
  sharing: { load: () => import('./pages/sharing.js'), title: 'sharing', scopes: ['read', 'sharing'], isMain: true },
  records: { load: () => import('./pages/records.js'), title: 'records', scopes: [], isMain: true },
  try: { load: () => import('./pages/try.js'), title: 'try', scopes: ['admin'], isMain: isSandbox },
  push: { load: () => import('./pages/push.js'), title: 'push', scopes: ['read'], under: 'pushes' }
}

/** @type {{name: string, scopes: string[], allows: (scope: string) => boolean} | null} */
let session = null
let leave = new AbortController()

/** Without the scope `admin`, the records are one's own sessions. */
const titleOf = name => name === 'records' && !session.allows('admin') ? 'records.sessions' : screens[name].title

/** Shows a screen: its heading, its actions and its contents. */
function frame(title) {
  const heading = el('h1', { tabindex: -1 }, title)
  const head = el('div', { class: 'head' }, heading)
  fill(byID('main'), head)
  document.title = `${title} · push-server`
  return { main: byID('main'), head, heading }
}

async function route() {
  if (!session) return
  leave.abort()
  leave = new AbortController()
  const { signal } = leave
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const [name, ...rest] = path.split('/').map(decodeURIComponent)
  const screen = screens[name] ?? screens['']
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${screen.under ?? name}`) {
      link.setAttribute('aria-current', 'page')
      // On a phone, the bar may be wider than the screen.
      link.scrollIntoView({ inline: 'center', block: 'nearest' })
    } else {
      link.removeAttribute('aria-current')
    }
  }
  const view = frame(t(titleOf(name in screens ? name : '')))
  view.heading.focus()
  try {
    const { show } = await screen.load()
    if (signal.aborted) return
    await show({ ...view, session, signal, path: rest, query: new URLSearchParams(query ?? '') })
  } catch (error) {
    if (signal.aborted || !session) return
    view.main.append(el('p', { class: 'problem', role: 'alert' }, problemText(error)))
  }
}

/** The names of the screens in the navigation that the key allows. */
const allowed = () => Object.keys(screens).filter(name => {
  const { isMain, scopes } = screens[name]
  return isMain && (scopes.length === 0 || scopes.some(session.allows))
})

function navigation() {
  fill(byID('header'),
    el('div', { class: 'brand' }, el('strong', {}, 'push-server'), el('span', { class: isSandbox ? 'tag good' : 'tag bad' }, appName())),
    el('nav', { 'aria-label': t('navigation') },
      allowed().map(name => el('a', { href: `#/${name}` }, t(titleOf(name))))))
  fill(byID('account'),
    el('span', {}, session.name),
    el('button', { type: 'button', class: 'plain', onclick: signOut }, t('sign-out')),
    languageButton())
  byID('header').hidden = byID('account').hidden = false
}

/** What the sends reach: nobody, or the users of an app. */
const appName = () => isSandbox ? t('sandbox') : session.app?.name ?? session.app?.id ?? t('app')

const languageButton = () => el('button', {
  type: 'button', class: 'plain', lang: language === 'ko' ? 'en' : 'ko', onclick: switchLanguage
}, language === 'ko' ? 'English' : '한국어')

async function signOut() {
  await call('DELETE', '/v1/session').catch(() => {})
  // Nobody reads there what was shown last.
  history.replaceState(null, '', location.pathname)
  signIn()
}

/** Shows the form that takes an operator key. */
function signIn(error) {
  session = null
  leave.abort()
  say('')
  document.body.className = 'out'
  for (const id of ['header', 'banner', 'account']) byID(id).hidden = true
  if (byID('dialog').open) byID('dialog').close()
  const key = field('key', { type: 'password', autocomplete: 'current-password', required: true, hint: t('key.hint') })
  const problem = el('p', { class: 'problem', role: 'alert', hidden: !error }, error ? problemText(error) : '')
  const submit = async event => {
    event.preventDefault()
    try {
      await post('/v1/session', { key: key.input.value.trim() })
      await start()
    } catch (failure) {
      problem.textContent = problemText(failure)
      problem.hidden = false
      key.input.select()
    }
  }
  document.title = `${t('sign-in')} · push-server`
  fill(byID('main'), el('div', { class: 'card sign-in' },
    el('h1', {}, t('sign-in')),
    el('form', { class: 'stack', onsubmit: submit }, keyOwner(), key.label, problem, el('button', { class: 'main' }, t('sign-in'))),
    languageButton()))
  key.input.focus()
}

/** Password managers store a password with a name. */
const keyOwner = () => el('input', { type: 'text', autocomplete: 'username', value: 'push-server', hidden: true })

/** Asks for the key of the session again. Returns whether it was given. */
async function enterAgain() {
  const given = await ask({
    title: t('key.again'), text: t('key.again.text'), action: t('continue'), contents: keyOwner(),
    fields: [field('key', { type: 'password', autocomplete: 'current-password', required: true })],
    act: ([key]) => post('/v1/session', { key: key.trim() })
  })
  return given
}

async function start() {
  const [signedIn, zone] = await Promise.all([get('/v1/session'), get('/v1/time-zone').catch(() => null)])
  session = {
    ...signedIn, allows: scope => signedIn.scopes.includes('admin') || signedIn.scopes.includes(scope)
  }
  if (zone?.name) setZone(zone.name)
  document.body.className = ''
  navigation()
  banner(session)
  await route()
}

/** The screens after `g`, by their letters. */
const letters = { o: '', p: 'pushes', u: 'user', s: 'sharing', r: 'records', t: 'try' }
let isAfterG = false

/** Shortcuts lead to screens; none of them acts on a push. */
function shortcut(event) {
  const { key, target } = event
  if (!session || event.ctrlKey || event.metaKey || event.altKey || byID('dialog').open || target.closest('input, select, textarea')) return
  const letter = isAfterG ? letters[key] : undefined
  isAfterG = key === 'g' && !isAfterG
  const open = name => { if (allowed().includes(name)) location.hash = `#/${name}` }
  if (letter !== undefined) open(letter)
  else if (key === 'n') open('new')
  else if (key === '?') ask({ title: t('shortcuts'), contents: shortcuts(), action: t('ok'), act: async () => {} })
  else if (key === '/') {
    const search = byID('main').querySelector('input')
    if (!search) return
    event.preventDefault()
    search.focus()
  }
}

const shortcuts = () => terms('list', [
  ...Object.entries(letters).filter(([, name]) => allowed().includes(name)).map(([letter, name]) => [`g ${letter}`, t(titleOf(name))]),
  allowed().includes('new') && ['n', t('new')], ['/', t('shortcut.search')], ['?', t('shortcuts')]
])

whenRejected(() => signIn(), enterAgain)
await loadTexts()
document.documentElement.lang = language
byID('skip').textContent = t('skip')
addEventListener('hashchange', event => {
  // An action that only draws its screen again has no new address.
  if (event.newURL) say('')
  route()
})
addEventListener('keydown', shortcut)
// The address that `push-server dev` prints has a key of the sandbox in its fragment, which no request and no log has.
const key = location.hash.match(/^#key=(.+)/)?.[1]
if (key) {
  history.replaceState(null, '', location.pathname)
  await post('/v1/session', { key }).catch(() => {})
}
start().catch(error => signIn(error.status === 401 ? undefined : error))
