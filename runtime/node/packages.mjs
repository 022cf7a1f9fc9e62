/**
 * What a page writes instead of the packages that models reach for by habit (V8). A page has none: it is its source, its
 * framework, Tailwind, and the project's components and assets.
 */

const FAMILIES = [
  [/^(?:@vue\/|vue-demi$|@vue$|vue\/)/, () => 'Import it from "vue".'],
  [/^react\//, () => 'Import it from "react".'],
  [/^(?:vue|react)$/, (other) => `This file is made with ${other === 'vue' ? 'React' : 'Vue'}: use what that has.`],
  [/^next\/image$/, () => 'Write <img src="@assets/<file>" />.'],
  [/^(?:vue-router|react-router|next(?:\/|$)|nuxt|#app|#imports|@inertiajs|@tanstack\/react-router|wouter)/, () => 'A page is shown alone and has no router: link with <a href>.'],
  [/icon|lucide|fontawesome|fortawesome|phosphor|remixicon|tabler/i, () => 'Use @kit/Icon, draw icons as inline SVG, or upload them as SVG assets.'],
  [/chart|^d3|plotly|highcharts|^@?visx|nivo|victory|recharts|^mermaid/, () => 'Use @kit/Bars or @kit/Line, or draw charts as inline SVG.'],
  [/framer-motion|^motion|^gsap|anime|lottie|vueuse\/motion|auto-animate|react-spring|aos$/, () => 'Move things with CSS: transitions, @keyframes, or classes like animate-pulse.'],
  [/^(?:pinia|vuex|redux|@reduxjs|zustand|jotai|recoil|mobx|valtio|@vueuse|react-query|@tanstack|swr)/, (_, framework) => (framework === 'vue' ? 'Keep state in ref(), reactive() and computed() of vue.' : 'Keep state in useState and useReducer of react.')],
  [/^(?:axios|ky|got|node-fetch|superagent|graphql|@apollo|socket\.io|ofetch)/, () => 'A page has no network: write the data into its source.'],
  [/^(?:lodash|ramda|underscore|dayjs|moment|date-fns|luxon|numeral|uuid|nanoid|clsx|classnames|class-variance|tailwind-merge|immer)/, () => 'Write the few lines yourself; Intl formats dates and numbers, and classes may be arrays or template strings.'],
  [/^(?:styled-components|@emotion|styled-jsx|@stitches|linaria)/, () => 'Use Tailwind classes.'],
  [/^(?:@mui|antd|ant-design|@chakra|@mantine|element-plus|vuetify|quasar|primevue|primereact|naive-ui|@headlessui|@radix|radix|@shadcn|shadcn|react-bootstrap|bootstrap|daisyui|flowbite|@nextui|@heroui)|\/ui\//, () => 'Build it with Tailwind classes, or use a component of the project.'],
  [/^(?:three|@react-three|@tresjs|pixi|babylonjs|p5|konva|react-konva|fabric)/, () => 'Draw with SVG, CSS, or a <canvas> of your own.'],
  [/^(?:prismjs|highlight\.js|shiki|react-syntax-highlighter)/, () => 'Use @kit/Code.'],
  [/^(?:marked|markdown-it|react-markdown|remark|katex|mathjax|dompurify)/, () => 'Write the finished markup into the page.'],
  [/^(?:swiper|keen-slider|embla|react-slick|vue3-carousel|splide)/, () => 'Write it with CSS: overflow-x-auto and snap-x, or state that shows one item.'],
  [/^tailwindcss/, () => 'Remove it: Tailwind is loaded already.'],
  [/^(?:node:|(?:fs|path|os|http|https|crypto|child_process|process|url|util|stream|buffer|events)(?:\/|$))/, () => 'A page runs in a browser: there is no Node.'],
  [/^https?:/, () => 'A page has no network: nothing can be imported from an address.'],
]

/** What to write instead of `specifier`, or null when it belongs to no family that is known. */
export function insteadOf(specifier, framework) {
  const found = FAMILIES.find(([pattern]) => pattern.test(specifier))
  return found ? found[1](specifier, framework) : null
}

const NAMES = {
  vue: {
    useState: 'In Vue state is `ref()`.',
    useEffect: 'In Vue use `onMounted`, `watch` or `watchEffect`.',
    useLayoutEffect: 'In Vue use `onMounted`.',
    useMemo: 'In Vue use `computed`.',
    useCallback: 'In Vue a plain function is enough.',
    useRef: 'In Vue use `ref`, or `useTemplateRef` for an element.',
    useContext: 'In Vue use `provide` and `inject`.',
    useReducer: 'In Vue use `reactive` and functions that change it.',
  },
  react: {
    ref: 'In React state is `useState`.',
    reactive: 'In React state is `useState`.',
    computed: 'In React use `useMemo`, or a plain value.',
    onMounted: 'In React use `useEffect`.',
    watch: 'In React use `useEffect`.',
    watchEffect: 'In React use `useEffect`.',
    render: 'Remove it: the page is mounted by its host; export the component as default.',
    hydrate: 'Remove it: the page is mounted by its host; export the component as default.',
    createRoot: 'Remove it: the page is mounted by its host; export the component as default.',
  },
}

/** What the other framework's name, or one of an older version, is called here; null when it is neither. */
export function insteadOfName(name, specifier) {
  const names = NAMES[specifier.split('/')[0].split('-')[0]] ?? {}
  return Object.hasOwn(names, name) ? names[name] : null
}
