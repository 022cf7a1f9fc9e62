/**
 * A page of each framework with what pages usually have, compiled before the worker says that it is ready, so that a
 * replacement is warm before the old worker leaves (V4).
 */
import fs from 'node:fs'
import path from 'node:path'
import { compile } from './compile.mjs'

const PAGES = {
  'pages/warm.vue': `<script setup lang="ts">
import { computed, ref } from 'vue'
import Tile from '@components/Tile.vue'
import logo from '@assets/logo.svg'
interface Row { name: string; share: number }
const rows = ref<Row[]>([{ name: 'a', share: 1 }, { name: 'b', share: 2 }])
const total = computed(() => rows.value.reduce((sum, row) => sum + row.share, 0))
</script>
<template>
  <main class="grid h-full grid-cols-[2fr_1fr] gap-8 bg-slate-50 p-12 text-slate-900 md:p-4">
    <h1 class="text-5xl font-bold tracking-tight" @click="rows.push({ name: 'c', share: total })">{{ total }}</h1>
    <ul v-if="rows.length"><li v-for="row in rows" :key="row.name" :class="['bar', { big: row.share > 1 }]" :style="{ width: row.share * 10 + '%' }">{{ row.name }}</li></ul>
    <Tile v-else label="none" :value="total"><img src="@assets/logo.svg" :alt="logo"></Tile>
    <svg viewBox="0 0 10 10"><path d="M0 0h10" stroke="currentColor" /></svg>
  </main>
</template>
<style scoped>
.bar { color: color-mix(in srgb, red 20%, blue); &:hover { opacity: 0.5 } }
@media (width > 40rem) { .big { background: url("@assets/logo.svg") } }
</style>`,
  'pages/warm.tsx': `import { useMemo, useState } from 'react'
import Tile from '@components/Tile.tsx'
import logo from '@assets/logo.svg'
interface Row { name: string; share: number }
export default function Page() {
  const [rows, setRows] = useState<Row[]>([{ name: 'a', share: 1 }])
  const total = useMemo(() => rows.reduce((sum, row) => sum + row.share, 0), [rows])
  return (
    <main className="grid h-full grid-cols-[2fr_1fr] gap-8 bg-slate-50 p-12 text-slate-900" onClick={() => setRows([])}>
      <h1 className="text-5xl font-bold">{total}</h1>
      {rows.map((row) => <p key={row.name} style={{ width: row.share }}>{row.name}</p>)}
      <Tile label="x" value={total}><img src={logo} alt="" /></Tile>
    </main>
  )
}`,
}
const COMPONENTS = {
  'components/Tile.vue': `<script setup lang="ts">
defineProps<{ label: string; value?: number }>()
</script>
<template><figure class="rounded-xl border p-4 shadow"><slot />{{ label }} {{ value }}</figure></template>
<style scoped>figure { color: red }</style>`,
  'components/Tile.tsx': `import type { ReactNode } from 'react'
export default function Tile({ label, value, children }: { label: string; value: number; children: ReactNode }) {
  return <figure className="rounded-xl border p-4 shadow">{children}{label} {value}</figure>
}`,
}

/** Functions that ran a few times are compiled to better code: `rounds` of them for a worker that has the time. */
export async function warmUp(workDir, vendor, rounds) {
  for (const [entry, text] of Array.from({ length: rounds }, () => Object.entries(PAGES)).flat()) {
    const dir = fs.mkdtempSync(path.join(workDir, 'warm-'))
    try {
      const page = { code: 'warm', title: '', speaker_notes: '' }
      const canvas = { width_px: 1280, height_px: 720 }
      const { errors } = await compile({ dir, entry, modules: { [entry]: text, ...COMPONENTS }, assets: ['logo.svg'], page, canvas }, vendor)
      if (errors.length) throw new Error(`the worker cannot compile: ${errors[0].message}`)
    } finally {
      fs.rmSync(dir, { recursive: true, force: true })
    }
  }
}
