/**
 * What to do about an error, from its message and the place where it stands (V8).
 *
 * The parsers say what they expected; a model needs to hear what to write. Owns the table from messages to next steps, and
 * the two searches that most of them come down to: the bracket and the element that were opened and never closed.
 */

/** The next step for an error at `offset` of `source`, or null when the table knows none. */
export function advise(code, message, source, offset) {
  const around = { before: source.text.slice(Math.max(0, offset - 200), offset), after: source.text.slice(offset, offset + 200), source, offset }
  for (const [codes, pattern, hint] of TABLE) {
    if (!codes.includes(code) || !pattern.test(message)) continue
    const said = typeof hint === 'function' ? hint(around, message) : hint
    if (said) return said
  }
  return null
}

const TEMPLATE = ['PAGE_TEMPLATE_SYNTAX']
const SCRIPT = ['PAGE_SCRIPT_SYNTAX']
const STYLE = ['PAGE_STYLE_SYNTAX', 'PAGE_STYLE_NOT_ALLOWED']
const BOTH = [...TEMPLATE, ...SCRIPT]

const STRAIGHT = 'Use straight quotes (" or \') instead of typographic ones.'
const WHOLE = 'Write the whole source out; nothing may be left out with an ellipsis.'
const NO_JSX = 'This is JSX in a Vue template. Write :style="{ color: \'red\' }", @click="save", v-for and {{ value }} instead.'

const TABLE = [
  // -- templates of Vue
  [TEMPLATE, /missing end tag/, ({ after }) => `Close <${/^<([\w-]+)/.exec(after)?.[1]}> with </${/^<([\w-]+)/.exec(after)?.[1]}>.`],
  [TEMPLATE, /Invalid end tag/, 'Remove it, or open the element that it closes; img, br, hr and input have no end tag.'],
  [TEMPLATE, /Interpolation end sign/, 'End it with two braces: {{ value }}.'],
  [TEMPLATE, /quote of an attribute/, 'Put the closing quote where the value ends.'],
  [TEMPLATE, /Attribute name cannot contain/, ({ source, offset }) => (/=\{/.test(lineOf(source, offset)) ? NO_JSX : 'Check the quotes of the attribute before it.')],
  [TEMPLATE, /JSX/, NO_JSX],
  [TEMPLATE, /v-for has invalid expression/, 'Write v-for="item in items" :key="item.id".'],
  [TEMPLATE, /v-if\/v-else-if is missing expression/, 'Write the condition: v-if="visible".'],
  [TEMPLATE, /no adjacent v-if/, 'Put it directly after the element with v-if, with no other element between them.'],
  [TEMPLATE, /v-model cannot be used on a const/, 'Make it a ref: const value = ref(…), with ref imported from vue.'],
  [TEMPLATE, /v-model/, 'v-model needs something that can be written: a ref, or a field of a reactive object.'],
  [TEMPLATE, /key should be placed/, 'Move :key to the <template v-for> itself.'],
  [TEMPLATE, /v-slot|slot/, 'Write <template #name> inside the component that has the slot.'],
  [TEMPLATE, /Duplicate attribute/, 'Merge the two into one: class="a b"; a static class and one :class may stand together.'],
  [TEMPLATE, /side effect/, 'Move it out of the template: a page has one <script setup> block and <style> blocks beside <template>.'],
  [TEMPLATE, /only one <(script|template)/, (_, message) => `Merge the two <${/only one <(\w+)/.exec(message)[1]}> blocks into one.`],
  [TEMPLATE, /contain only one/, 'Merge the two blocks into one.'],
  [TEMPLATE, /Error parsing JavaScript/, ({ before, source, offset }) => (/\{\{\{/.test(lineOf(source, offset)) ? 'Write {{ value }} with two braces; for HTML use v-html.' : /[“”‘’]/.test(before.slice(-2)) ? STRAIGHT : 'Only one expression may stand here, no statements; move more into <script setup>.')],
  [TEMPLATE, /EOF in tag/, 'Close this tag with >, and its attributes with their quotes.'],
  // -- scripts
  [SCRIPT, /without lang="ts"|TypeScript files/, 'Write <script setup lang="ts">.'],
  [SCRIPT, /cannot contain ES module exports/, 'Remove the export: what <script setup> declares is there for the template; options go into defineOptions({ … }).'],
  [SCRIPT, /return' statement can only/, 'Remove it: what <script setup> declares at its top level is there for the template.'],
  [SCRIPT, /duplicate define(\w+)\(\)/, (_, message) => `Merge them into one ${/duplicate (\w+)/.exec(message)[1]}() call.`],
  [SCRIPT, /Invalid Character `?[“”‘’]/, STRAIGHT],
  [SCRIPT, /already been declared/, 'Give one of the two another name, or remove it.'],
  [SCRIPT, /reserved word/, 'Choose another name; in JSX write className and htmlFor.'],
  [SCRIPT, /`await` is only allowed/, 'Make the function around it async.'],
  [SCRIPT, /Adjacent JSX/, 'Wrap them: <>…</>.'],
  [SCRIPT, /closing tag for '(area|br|col|embed|hr|img|input|link|meta|source|track|wbr)'/, (_, message) => `Close it in itself, as every element of JSX: <${/'(\w+)'/.exec(message)[1]} />.`],
  [SCRIPT, /closing tag for '/, (_, message) => `Close <${/for '([^']+)'/.exec(message)[1]}> before this place, or correct the end tag.`],
  [SCRIPT, /Unterminated/, 'Close the string, comment or expression that begins here.'],
  [SCRIPT, /Unexpected token|Expected/, unexpected],
  // -- styles
  [STYLE, /unknown utility class `(?:group|peer)/, 'group and peer are marks for other classes: write them on the element, not into @apply.'],
  [STYLE, /unknown utility class `!/, 'Write the mark behind each class: @apply flex!.'],
  [STYLE, /unknown utility class `[\w-]*(?:primary|secondary|accent|brand|muted|foreground|background|destructive|surface)/, 'The theme has only Tailwind\'s own colours: write bg-blue-600, or a value of your own, bg-[#1d4ed8].'],
  [STYLE, /unknown utility class/, '@apply takes utilities of Tailwind only: for a class of your own repeat its declarations, for a value of your own write w-[13px].'],
  [STYLE, /theme function/, 'Use a variable of Tailwind\'s theme, var(--color-blue-500), or the value itself.'],
  [STYLE, /no comment of CSS/, 'Write /* … */.'],
  [STYLE, /variable of Sass/, 'Write a variable of CSS: --brand: red; and color: var(--brand).'],
  [STYLE, /^@import/, 'Remove it: Tailwind is loaded already, and other style sheets and web fonts cannot be fetched. Upload a font as an asset and name it in @font-face.'],
  [STYLE, /^@screen/, 'Write @variant md { … } inside the rule, or @media (width >= 48rem) { … }.'],
  [STYLE, /^@(?:include|mixin|extend|use|forward|each|if|else|for|function|return|variants|responsive)\b/, 'That is not plain CSS: repeat the declarations; nesting, variables and @apply work.'],
  [STYLE, /Missed semicolon/, 'End the declaration before this place with a semicolon.'],
  [STYLE, /Unclosed block/, 'Close it with }.'],
  [STYLE, /Unexpected \}/, 'Remove this brace, or open the block that it closes.'],
  [STYLE, /Unknown word/, ({ source, offset }) => (/^\s*\/\//.test(lineOf(source, offset)) ? '"//" begins no comment of CSS: write /* … */.' : null)],
  [STYLE, /Unknown word/, 'Write property: value; with a colon and a semicolon.'],
]

/** The commonest message, and the least helpful: what stands there decides. */
function unexpected({ before, after, source, offset }, message) {
  const react = source.path.endsWith('.tsx')
  if (/^\.\.\./.test(after) && !/[[({,=]\s*$/.test(before.replace(/=\s*$/, ''))) return WHOLE
  if (/^…/.test(after)) return WHOLE
  if (/[“”‘’]/.test(after[0] ?? '')) return STRAIGHT
  if (react && /<\s*$/.test(before) && /^!--/.test(after)) return 'Comments in JSX are {/* … */}.'
  if (react && /\{\s*$/.test(before) && /^(?:if|for|while|switch|const|let|var|return)\b/.test(after)) {
    return 'Braces in JSX hold one expression: write condition ? a : b, or list.map((item) => …).'
  }
  if (react && /=\s*$/.test(before) && /^\w/.test(after)) return 'Write the value of the attribute in quotes or in braces: name="a" or name={a}.'
  if (react && /&gt;/.test(message)) {
    return /(?:=|\()\s*<\w+>\([^()]*\)\s*(?::[^=]+)?=$/.test(before) ? 'A generic arrow function is written <T,>(value: T) => … in a .tsx file.' : "Write {'>'} for this sign in text."
  }
  if (react && /<\s[^<>]*<?$/.test(before)) return "A < in text is written {'<'} or &lt;."
  if (react && /&rbrace;/.test(message) && /[^\s)];?[^\n]*$/.test(before.slice(before.lastIndexOf('\n') + 1))) return "Write {'}'} for this sign in text."
  const unclosed = /EOF|but found|&rbrace;|Unexpected token/.test(message) ? openBefore(source, offset, react) : null
  if (unclosed) return `${unclosed} is not closed before this place.`
  return null
}

const lineOf = (source, offset) => {
  const start = source.text.lastIndexOf('\n', offset - 1) + 1
  const end = source.text.indexOf('\n', offset)
  return source.text.slice(start, end === -1 ? undefined : end)
}

const CLOSES = { '}': '{', ')': '(', ']': '[' }

/** The element, or else the bracket, that is still open at `offset`, with its line; a guess good enough for a hint. */
function openBefore(source, offset, react) {
  const start = react ? 0 : Math.max(0, source.text.lastIndexOf('<script', offset))
  const text = blanked(source.text.slice(start, offset))
  const element = react ? openElement(text) : null
  const open = element ?? openBracket(text.replace(/^<script[^>]*>/, (tag) => ' '.repeat(tag.length)), source.text[offset])
  return open && `The ${open.what} in line ${source.at(start + open.at).line}`
}

/** Strings and comments become blanks, so that nothing in them counts. */
function blanked(text) {
  return text.replace(/\/\*[^]*?\*\/|(?<![:\w])\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, (found) => found.replace(/[^\n]/g, ' '))
}

function openElement(text) {
  const open = []
  for (const tag of text.matchAll(/<(\/?)([A-Za-z][\w.]*)?((?:\s(?:[^<>]|=>)*)?)>/g)) {
    if (tag[1]) {
      const at = open.findLastIndex((other) => other.name === tag[2])
      if (at !== -1) open.splice(at)
    } else if (!tag[3]?.endsWith('/') && (tag[2] === undefined || !/[\w)]$/.test(text.slice(0, tag.index)))) {
      open.push({ name: tag[2], at: tag.index })
    }
  }
  const last = open.at(-1)
  return last ? { what: `<${last.name ?? ''}>`, at: last.at } : null
}

function openBracket(text, found) {
  const open = []
  for (const { 0: char, index } of text.matchAll(/[{}()[\]]/g)) {
    if (char in CLOSES) {
      if (open.at(-1)?.char === CLOSES[char]) open.pop()
    } else open.push({ char, index })
  }
  const last = open.at(-1)
  if (!last || CLOSES[found] === last.char) return null
  return { what: `"${last.char}"`, at: last.index }
}
