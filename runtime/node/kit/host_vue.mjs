/** Makes a component of vue out of a component of the kit. */
import { defineComponent, h } from 'vue'
import { isForElement, settle } from './props.mjs'

export function component(definition) {
  const props = Object.fromEntries(Object.entries(definition.props).map(([name, { kind }]) => [name, { type: kind === 'flag' ? Boolean : null, default: undefined }]))
  return defineComponent({
    name: definition.name,
    props,
    setup: (given, { attrs, slots }) => () =>
      definition.render(settle(definition, given, Object.keys(attrs).filter((name) => !isForElement(name)), attrs['data-pg-loc']), el, slots.default?.()),
  })
}

const el = (tag, attributes, ...children) => h(tag, attributes, children.filter((child) => child !== null && child !== undefined && child !== ''))
