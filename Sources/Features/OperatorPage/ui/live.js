// Work that repeats while the page is visible.

/**
 * Runs `work` now and every `seconds` until the signal, but not in a hidden tab. It is given whether something was just done that
 * changes what it shows. A failure is passed to `failed`.
 */
export function every(seconds, signal, work, failed = () => {}) {
  let timer
  const run = async event => {
    clearTimeout(timer)
    if (document.hidden || signal.aborted) return
    try {
      await work(event?.type === 'acted')
    } catch (error) {
      if (!signal.aborted) failed(error)
    }
    clearTimeout(timer)
    if (!signal.aborted) timer = setTimeout(run, seconds * 1000)
  }
  document.addEventListener('visibilitychange', run, { signal })
  addEventListener('acted', run, { signal })
  signal.addEventListener('abort', () => clearTimeout(timer))
  return run()
}

/** Runs the work that repeats at once, since something was done that changes what it shows. */
export const acted = () => dispatchEvent(new Event('acted'))

/**
 * Opens an event stream while the page is visible. A browser has six connections to a server for all of its tabs.
 * If it breaks, `check` is called, which leads to sign-in if the session has ended, and the stream is opened again after five seconds.
 */
export function stream(path, signal, listen, check = async () => {}) {
  let source, timer, isClosed = false
  const close = () => {
    clearTimeout(timer)
    source?.close()
  }
  const open = () => {
    close()
    if (document.hidden || signal.aborted || isClosed) return
    source = new EventSource(path)
    source.onerror = () => {
      close()
      check().catch(() => {})
      timer = setTimeout(open, 5000)
    }
    listen(source)
  }
  document.addEventListener('visibilitychange', open, { signal })
  signal.addEventListener('abort', close)
  open()
  return () => {
    isClosed = true
    close()
  }
}
