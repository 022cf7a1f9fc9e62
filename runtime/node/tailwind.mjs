/**
 * Tailwind's Vite plugin, without the module hooks it installs when it is loaded.
 *
 * They exist to reload JavaScript configurations, which no page may have (X2). On Node 20 they are a thread of their own
 * that every later `import()` waits for, and a worker's start is slower by a third.
 */
import module from 'node:module'

const { register, registerHooks } = module

function offer(hooks) {
  Object.assign(module, hooks)
  module.syncBuiltinESMExports()
}

offer({ register: undefined, registerHooks: undefined })
const { default: tailwindcss } = await import('@tailwindcss/vite')
offer({ register, registerHooks })

export { tailwindcss }
