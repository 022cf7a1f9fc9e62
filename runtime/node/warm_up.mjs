/**
 * One small page of each framework, compiled before the worker says that it is ready, so that a replacement is warm
 * before the old worker leaves (V4).
 */
import fs from 'node:fs'
import path from 'node:path'
import { compile } from './compile.mjs'

const PAGES = {
  'pages/warm.vue': `<script setup lang="ts">
import { ref } from 'vue'
const count = ref<number>(0)
</script>
<template><p class="p-4 text-xl" @click="count++">{{ count }}</p></template>
<style scoped>p { color: red }</style>`,
  'pages/warm.tsx': `import { useState } from 'react'
export default function Page() {
  const [count, setCount] = useState<number>(0)
  return <p className="p-4 text-xl" onClick={() => setCount(count + 1)}>{count}</p>
}`,
}

/** Functions that ran a few times are compiled to better code: `rounds` of them for a worker that has the time. */
export async function warmUp(workDir, vendor, rounds) {
  for (const [entry, text] of Array.from({ length: rounds }, () => Object.entries(PAGES)).flat()) {
    const dir = fs.mkdtempSync(path.join(workDir, 'warm-'))
    try {
      const page = { code: 'warm', title: '', speaker_notes: '' }
      const canvas = { width_px: 1280, height_px: 720 }
      const { errors } = await compile({ dir, entry, modules: { [entry]: text }, assets: [], page, canvas }, vendor)
      if (errors.length) throw new Error(`the worker cannot compile: ${errors[0].message}`)
    } finally {
      fs.rmSync(dir, { recursive: true, force: true })
    }
  }
}
