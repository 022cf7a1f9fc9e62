/**
 * Turns what Vite and its plugins throw into errors in the author's source (V8).
 *
 * They speak of compiled code, of blocks as if they were files, or of no place at all; the inspection has kept enough of
 * the source to do better.
 */
import { refusal } from './errors.mjs'
import { Refused } from './guard.mjs'
import { nearNames } from './imports.mjs'

export function locate(thrown, task, found) {
  const all = Array.isArray(thrown?.errors) && thrown.errors.length ? thrown.errors : [thrown]
  const located = all.filter((e) => !isOurs(e)).map((e) => locateOne(e, task, found))
  if (located.length || found.errors.length) return located
  return [refusal('PAGE_COMPILE_FAILED', 'The compiler gave up without a reason.')]
}

function isOurs(error) {
  return error instanceof Refused || error?.cause instanceof Refused || error?.name === 'Refused'
}

function locateOne(error, task, found) {
  if (process.env.PAGEGATE_DEBUG_ERRORS) console.error(error, { ...error })
  return refusal('PAGE_COMPILE_FAILED', String(error.message))
}
