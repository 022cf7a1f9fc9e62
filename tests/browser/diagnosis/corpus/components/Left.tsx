import { right } from '@components/Right.tsx'

export const left = right + 1
export default function Left() {
  return <b>{left}</b>
}
