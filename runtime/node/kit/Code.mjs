const KEYWORDS = new Set(
  ('abstract and as async await break case catch class const continue def default del do elif else enum except export extends finally fn for from func function go if impl implements import in ' +
    'interface is lambda let match mod mut new not or package pass private protected public pub raise return select self static struct super switch this throw trait try type use var void where while with yield ' +
    'true false null None True False nil undefined SELECT FROM WHERE JOIN ON GROUP ORDER BY INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE AND OR NOT NULL AS LIMIT').split(' '),
)
const TOKEN = /(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->|(?<=^|\s)#[^\n]*|(?<=^|\s)--\s[^\n]*)|(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`)|(?<number>\b\d[\d_]*(?:\.\d+)?\w*)|(?<word>[A-Za-z_$][\w$]*)/gm

export default {
  name: 'Code',
  props: {
    code: { kind: 'text', required: true },
    title: { kind: 'text' },
    highlight: { kind: 'list', fallback: [], like: '[2, 3]' },
    numbers: { kind: 'flag', fallback: false },
    plain: { kind: 'flag', fallback: false },
  },
  render({ code, title, highlight, numbers, plain }, el) {
    const lines = linesOf(code.replace(/^\s*\n|\s+$/g, ''), plain)
    const line = (parts, i) => {
      const shown = parts.map(({ text, kind }) => (kind ? el('span', { class: `kit-code-${kind}` }, text) : text))
      const marked = highlight.map(Number).includes(i + 1) ? ' kit-code-marked' : ''
      return el('span', { class: `kit-code-line${marked}` }, numbers ? el('span', { class: 'kit-code-number', 'aria-hidden': 'true' }, String(i + 1)) : null, ...shown, '\n')
    }
    return el('figure', { class: `kit-code${numbers ? ' kit-code-numbered' : ''}` }, title ? el('figcaption', { class: 'kit-code-title' }, title) : null, el('pre', null, el('code', null, ...lines.map(line))))
  },
}

/** Lines of `{text, kind}`: no grammar of a language, only what nearly all of them share. */
function linesOf(code, plain) {
  const parts = []
  let at = 0
  for (const { 0: text, index, groups } of plain ? [] : code.matchAll(TOKEN)) {
    const kind = groups.word === undefined ? kindOf(groups) : KEYWORDS.has(text) ? 'keyword' : undefined
    parts.push({ text: code.slice(at, index) }, { text, kind })
    at = index + text.length
  }
  parts.push({ text: code.slice(at) })
  const lines = [[]]
  for (const { text, kind } of parts) {
    for (const [i, piece] of text.split('\n').entries()) {
      if (i) lines.push([])
      if (piece) lines.at(-1).push({ text: piece, kind })
    }
  }
  return lines
}

const kindOf = ({ comment, string }) => (comment !== undefined ? 'comment' : string !== undefined ? 'string' : 'literal')
