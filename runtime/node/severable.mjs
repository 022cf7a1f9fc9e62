/**
 * Plugins that can be forgotten after their build.
 *
 * Rolldown (1.2.19) never lets go of the log function of a build, and with it of all the plugins of that build. Tailwind's
 * holds a whole design system: a megabyte a build. So Rolldown gets hooks that only point at the plugin, and the pointer
 * is cut when the build is over.
 */

/** `{plugins, cut}`: stand-ins for `plugins`, and the function that lets go of the real ones. */
export function severable(plugins) {
  const holders = plugins.map((plugin) => ({ plugin }))
  return {
    plugins: holders.map(standIn),
    cut() {
      for (const holder of holders) holder.plugin = null
    },
  }
}

function standIn(holder) {
  return Object.fromEntries(
    Object.entries(holder.plugin).map(([key, value]) => {
      if (typeof value === 'function') return [key, forwarded(holder, (plugin) => plugin[key])]
      if (typeof value?.handler === 'function') {
        return [key, { ...value, handler: forwarded(holder, (plugin) => plugin[key].handler) }]
      }
      return [key, value]
    }),
  )
}

function forwarded(holder, hookOf) {
  return function (...args) {
    return hookOf(holder.plugin).apply(this, args)
  }
}
