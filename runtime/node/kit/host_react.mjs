/** Makes a component of react out of a component of the kit. */
import { cloneElement, createElement } from 'react'
import { isForElement, settle } from './props.mjs'

export function component(definition) {
  function Kit({ children, ...given }) {
    const others = Object.keys(given).filter((name) => !(name in definition.props))
    const root = definition.render(settle(definition, given, others.filter((name) => !isForElement(name)), given['data-pg-loc']), el, children)
    const passed = Object.fromEntries(others.filter(isForElement).map((name) => [name, given[name]]))
    if (passed.className) passed.className = `${root.props.className} ${passed.className}`
    if (passed.style) passed.style = { ...root.props.style, ...passed.style }
    return cloneElement(root, passed)
  }
  Kit.displayName = definition.name
  return Kit
}

const el = (tag, attributes, ...children) => createElement(tag, named(attributes), ...children)

/** React has names of its own for attributes that have a hyphen. */
function named(attributes) {
  if (!attributes) return attributes
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name === 'class' ? 'className' : /^(?:aria|data)-/.test(name) ? name : name.replace(/-(\w)/g, (_, c) => c.toUpperCase()), value]),
  )
}
