import { left } from '@components/Left.tsx'

export const right = left + 1
export default function Right() {
  return <b>{right}</b>
}
